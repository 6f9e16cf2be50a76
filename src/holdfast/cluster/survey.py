"""Asking all agents of a session how they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec

from ..errors import DeadlineMissed, TryAgain
from ..membership.view import Entry, Member
from ..restoring.restorer import RestoreStatus
from .messages import AgentStatus
from .peers import Peers


class NodeStatus(msgspec.Struct, frozen=True):
    """One node in `holdfast status --json`.

    `state` is what the agents believe (alive, suspect or dead), `answer` what it said to us: up,
    silent or gone.
    """

    node: str
    state: str
    answer: str
    number: int
    incarnation: int
    role: str
    host: str
    rack: str
    pid: int
    address: str
    tiers: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    restoring: RestoreStatus = RestoreStatus()


class SessionStatus(msgspec.Struct, frozen=True):
    """What `holdfast status --json` prints.

    `window` is how long, in seconds, after a death fewer copies may be left than were asked for:
    the time until it is noticed, and that of restoring the fullest node. `views` is how many
    different views the agents have; 1 when they agree.
    """

    session: str
    created: float
    window: float
    below: int  # objects with fewer copies than their writers asked for, as far as is known
    lacking_bytes: int
    waits: float
    views: int
    nodes: list[NodeStatus]
    lost: list[str]


def survey(name: str, created: float, peers: Peers, deadline: float) -> SessionStatus:
    """Ask every member, many at a time."""
    routing = peers.routing
    entries = {entry.member.number: entry for entry in routing.entries()}
    live = {member.node for member in routing.live}
    last = {member.node: member for member in routing.lost if member.node not in live}
    members = sorted([*routing.live, *last.values()], key=lambda member: _natural(member.node))

    def ask(member: Member) -> tuple[NodeStatus, AgentStatus | None]:
        return _ask(peers, entries[member.number], deadline)

    with ThreadPoolExecutor(min(32, max(1, len(members)))) as pool:
        answers = list(pool.map(ask, members))
    told = [status for _, status in answers if status is not None]
    return SessionStatus(
        name,
        created,
        _window(told),
        sum(status.restoring.below for status in told),
        sum(status.restoring.lacking_bytes for status in told),
        max((status.restoring.waits for status in told), default=0.0),
        len({status.identity for status in told}),
        [node for node, _ in answers],
        [member.node for member in routing.lost],
    )


def _ask(peers: Peers, entry: Entry, deadline: float) -> tuple[NodeStatus, AgentStatus | None]:
    member = entry.member
    address = peers.routing.address(member)
    try:
        answer = peers.client.call(address, "agent", "status", b"", deadline=deadline)
        status = msgspec.msgpack.decode(answer, type=AgentStatus)
    except TryAgain as error:
        reached, status = "silent" if isinstance(error, DeadlineMissed) else "gone", None
    else:
        # Somebody else may listen there by now.
        reached = "up" if status.number == member.number else "gone"
        status = status if reached == "up" else None
    node = NodeStatus(
        member.node,
        entry.state.name.lower(),
        reached,
        member.number,
        entry.incarnation,
        member.role,
        member.host,
        member.rack,
        member.pid,
        member.address,
    )
    if status is None:
        return node, None
    known = {"tiers": status.tiers, "counters": status.counters, "restoring": status.restoring}
    return msgspec.structs.replace(node, **known), status


def _window(told: list[AgentStatus]) -> float:
    """Time to notice a death, and to fetch what the fullest node holds, shared by the others."""
    if not told:
        return 0.0
    fullest = max(sum(tier["bytes"] for tier in status.tiers.values()) for status in told)
    rate = sum(status.restore_rate for status in told) * max(1, len(told) - 1) / len(told)
    return max(status.detection for status in told) + fullest / rate


def _natural(name: str) -> tuple[str, int]:
    """Sort node-2 before node-10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
