"""What must be true of a cluster in which nothing fails any more and nobody calls."""

from __future__ import annotations

from ..membership.view import SPARE
from ..placement.ring import Ring
from .cluster import Cluster
from .history import Record

#: Objects are not larger.
_LARGEST = 40
#: Messages of one member in one period: a probe, its answer, and a little more.
MESSAGES = 3.0
#: Over so many periods they are counted ...
_COUNTED = 6.0
#: ... and so many times, as the last news may still be on its way.
_TIMES = 20


def complaint(cluster: Cluster) -> str:
    """Say what is not yet as it must be; nothing if all is."""
    agents = cluster.agents
    running = {agent.member.number for agent in agents.values()}
    for node, agent in agents.items():
        known = {member.number for member in agent.swim.view.live()}
        if known != running:
            return f"views converge: {node} sees {len(known)}, but {len(running)} live"
        held = sum(stored.held.size for stored in agent.store.objects.values())
        if held != agent.store.used:
            return f"capacity: {node} holds {held} bytes and counts {agent.store.used}"
    owning = [node for node, agent in agents.items() if agent.member.role != SPARE]
    ring = Ring(owning, cluster.scenario.virtual_nodes)
    for record in cluster.checkers.records.values():
        owners = ring.owners(record.key, record.copies)
        for node, agent in agents.items():
            assert agent.owners is not None
            placed = [m.node for m in agent.owners.of(record.key, record.copies)]
            if placed != owners:
                return f"equal placement: {node} has {record.key!r} at {placed}, not {owners}"
        if wrong := _copies(cluster, record, owners):
            return wrong
        for key, holders in record.aside.items():
            holding = {n for n, agent in agents.items() if agent.member.number in holders}
            owners = ring.owners(key, record.copies) if holding else []
            if wrong := _in_place(cluster, record, key.decode(), holding, owners):
                return wrong
    return ""


def _copies(cluster: Cluster, record: Record, owners: list[str]) -> str:
    """Check that an object is where it belongs and nowhere else."""
    agents = cluster.agents
    key = record.key.decode()
    holding = {node for node, agent in agents.items() if agent.member.number in record.holders}
    if record.drop_acknowledged is not None and not record.forgotten:
        return f"dropping is final: {key} is on {sorted(holding)}" if holding else ""
    if not holding:
        return f"durable: {key} is on no node" if record.safe else ""
    if len(set(record.holders.values())) > 1:
        return f"one winner: {key} has {sorted(set(record.holders.values()))}"
    if lost := record.acknowledged.keys() - record.contents() - record.gone:
        return f"nothing acknowledged is lost: {key} had {sorted(lost)}, which nobody has"
    return _in_place(cluster, record, key, holding, owners)


def _in_place(
    cluster: Cluster, record: Record, key: str, holding: set[str], owners: list[str]
) -> str:
    stores = [cluster.agents[node].store for node in owners if node not in holding]
    if any(record.size > store.capacity - store.used for store in stores):
        return ""
    if holding != set(owners):
        return f"exactly r copies: {key} is on {sorted(holding)}, its owners are {owners}"
    return ""


def too_many_messages(cluster: Cluster) -> str:
    """Count for some periods what is said."""
    wire, agents = cluster.wire, cluster.agents
    if any(agent.store.used + _LARGEST > agent.store.capacity for agent in agents.values()):
        return ""  # what finds no room is offered over and over
    for _ in range(_TIMES):
        before = wire.sent
        wire.run(wire.now + _COUNTED)
        rate = (wire.sent - before) / (_COUNTED * len(agents))
        if rate <= MESSAGES:
            return ""
    return f"messages: {rate:.1f} per member and period"
