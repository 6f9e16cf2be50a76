"""What must be true of a cluster in which nothing fails any more and nobody calls."""

from __future__ import annotations

from .._core import crc32c
from .cluster import Cluster
from .expected import Expected
from .history import Record

#: Objects are not larger.
_LARGEST = 40
#: Messages of one member in one period: a probe, its answer, and a little more.
MESSAGES = 3.0
#: Over this many periods they are counted ...
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
    expected = cluster.expected()
    for record in cluster.checkers.records.values():
        owners = expected.owners(record.key, record.copies)
        for node, agent in agents.items():
            assert agent.owners is not None
            placed = [m.node for m in agent.owners.of(record.key, record.copies)]
            if placed != owners:
                return f"equal placement: {node} has {record.key!r} at {placed}, not {owners}"
        if wrong := _copies(cluster, record, expected):
            return wrong
        for key, holders in record.aside.items():
            holding = {n for n, agent in agents.items() if agent.member.number in holders}
            if holding and (wrong := _in_place(cluster, record, key, holding, expected)):
                return wrong
    return _short(cluster, expected) or _digests(cluster)


def _short(cluster: Cluster, expected: Expected) -> str:
    """Check that what wants more copies than there are nodes is known, and nothing else."""
    short = sum(agent.store.short() for agent in cluster.agents.values())
    least = most = 0
    for record in cluster.checkers.records.values():
        if record.has_source:
            continue
        nodes = expected.most(record.key)
        if record.safe and not (record.contested or record.or_fewer):
            least += bool(record.holders) and record.copies > nodes
        if record.strict_copies > nodes:
            most += bool(record.holders) + sum(bool(holders) for holders in record.aside.values())
    if any(agent.store.room < _LARGEST for agent in cluster.agents.values()):
        least = 0  # who should know of it may lack it
    if least <= short <= most:
        return ""
    return f"short of nodes: {short} objects count as that, not {least} to {most}"


def _copies(cluster: Cluster, record: Record, expected: Expected) -> str:
    """Check that an object is where it belongs and nowhere else."""
    agents = cluster.agents
    key = record.key.decode()
    holding = {node for node, agent in agents.items() if agent.member.number in record.holders}
    if record.drop_acknowledged is not None and not record.forgotten:
        return f"dropping is final: {key} is on {sorted(holding)}" if holding else ""
    if not holding:
        return f"durable: {key} is on no node" if record.safe else ""
    versions = set(record.holders.values())
    winner = max(versions, key=crc32c)  # all are of one size
    losers = [
        one for one in agents.values() if record.holders.get(one.member.number, winner) != winner
    ]
    if any(record.size <= agent.store.room for agent in losers):
        return f"one winner: {key} has {sorted(versions)}"
    if losers:
        return ""  # they stay where they are while there is no room for the winner
    if lost := record.acknowledged.keys() - record.contents() - record.gone:
        return f"nothing acknowledged is lost: {key} had {sorted(lost)}, which nobody has"
    return _in_place(cluster, record, record.key, holding, expected)


def _in_place(
    cluster: Cluster, record: Record, key: bytes, holding: set[str], expected: Expected
) -> str:
    """Check that owners hold a version and nobody else does.

    How many they are is what its holders believe: the most that was acknowledged, or more if a put
    wanted more and was not.
    """
    agents = cluster.agents
    believed = {agents[node].store.objects[key].held.copies for node in holding}
    if len(believed) > 1:
        return f"one number of copies: {key.decode()} has {sorted(believed)} of them"
    (copies,) = believed
    renewed = record.contested or record.lost  # so it may be an earlier or a later put's
    least = record.least_copies if renewed else max(record.copies, record.wanted)
    if not least <= copies <= record.most_copies:
        return f"copies: {copies} of {key.decode()}, not {least} to {record.most_copies}"
    owners = expected.owners(key, copies)
    lacking = [node for node in owners if node not in holding]
    if any(record.size > agents[node].store.room for node in lacking):
        return ""
    if record.has_source:  # what was evicted and still counts is not brought back
        holding.update(node for node in lacking if agents[node].store.held(key))
    if holding != set(owners):
        what = "files come to rest" if record.has_source else "exactly r copies"
        return f"{what}: {key.decode()} is on {sorted(holding)}, its owners are {owners}"
    return ""


def _digests(cluster: Cluster) -> str:
    """Check that all pairs find that they hold the same of what both own."""
    if any(agent.store.room < _LARGEST for agent in cluster.agents.values()):
        return ""
    surveys = {agent.member.number: agent.store.survey() for agent in cluster.agents.values()}
    for one, survey in surveys.items():
        for other, digest in survey.items():
            if surveys[other].get(one) != digest:
                return f"equal digests: {one:x} has {digest} with {other:x}, which has another"
    return ""


def too_many_messages(cluster: Cluster) -> str:
    """Count for some periods what is said."""
    wire, agents = cluster.wire, cluster.agents
    if any(agent.store.room < _LARGEST for agent in agents.values()):
        return ""  # what finds no room is offered over and over
    for _ in range(_TIMES):
        before = wire.sent
        wire.run(wire.now + _COUNTED)
        rate = (wire.sent - before) / (_COUNTED * len(agents))
        if rate <= MESSAGES:
            return ""
    return f"messages: {rate:.1f} per member and period"
