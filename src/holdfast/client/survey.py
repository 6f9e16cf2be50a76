"""Asking all agents of a session how they are."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import DeadlineMissed, TryAgain
from ..membership.view import Entry, Member, MembershipStatus
from ..restoration.restorer import RestoreStatus
from .contacts import Contacts, at_once
from .messages import AgentStatus, FileStatus

#: How many keys that were set aside are named.
_NAMED = 20


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node in `holdfast status --json`.

    `state` is what the agents believe (alive, suspect or dead), `answer` what it said to us: up,
    silent or gone. `services` is what services report that have no field of their own.
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
    files: FileStatus = FileStatus()
    services: dict[str, Any] = {}


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `holdfast status --json` prints.

    `window` is how long, in seconds, after a death fewer copies may be left than were asked for:
    the time until it is noticed, and that of restoring the fullest node. `views` is how many
    different views the agents have; 1 when they agree. `conflicts` counts the objects that lost
    their key to another version, and `set_aside` names the first of them. `died_together` are
    groups of nodes of which each died before the copies of the others were back: objects with all
    their copies there are lost, and nobody knows which. `trees` are the counters of broadcasts of
    all nodes together: every path has a tree of its own, and those of each would be too many.
    """

    session: str
    created: float
    window: float
    under_replicated: (
        int  # objects with fewer copies than their writers asked for, as far as is known
    )
    missing_bytes: int
    partition_wait_left: float
    views: int
    nodes: list[NodeStatus]
    lost: list[str]
    trees: dict[str, int]
    conflicts: int = 0
    set_aside: tuple[str, ...] = ()
    died_together: tuple[tuple[str, ...], ...] = ()


def survey(contacts: Contacts) -> SessionStatus:
    """Ask every member, many at a time."""
    view = contacts.view()
    live = {member.node for member in view.live()}
    last = {member.node: member for member in view.lost() if member.node not in live}
    members = sorted([*view.live(), *last.values()], key=lambda member: _natural(member.node))
    answers = at_once(lambda member: _ask(contacts, member), members)
    nodes, told = [], []
    for member, (answer, status) in answers:
        entry = view.get(member.number)
        assert entry is not None
        nodes.append(_node(entry, answer, status))
        if status is not None:
            told.append(status)
    restoring = [status.of("restoring", RestoreStatus) for status in told]
    # Each once, as far as its holders name it.
    set_aside = sorted({key for one in restoring for key in one.set_aside})
    return SessionStatus(
        session=contacts.session.name,
        created=contacts.session.created,
        window=_window(told),
        under_replicated=sum(one.under_replicated for one in restoring),
        missing_bytes=sum(one.missing_bytes for one in restoring),
        partition_wait_left=max((one.partition_wait_left for one in restoring), default=0.0),
        views=len({status.of("membership", MembershipStatus).identity for status in told}),
        nodes=nodes,
        lost=[member.node for member in view.lost()],
        trees=_trees(nodes),
        conflicts=max([len(set_aside), *(one.conflicts for one in restoring)]),
        set_aside=tuple(set_aside[:_NAMED]),
        died_together=_died_together(restoring),
    )


def _died_together(told: list[RestoreStatus]) -> tuple[tuple[str, ...], ...]:
    """Merge what the agents saw: who was restored with the fewest deaths saw only part of them."""
    groups = {frozenset(group) for status in told for group in status.died_together}
    whole = (group for group in groups if not any(group < other for other in groups))
    return tuple(sorted(tuple(sorted(group, key=_natural)) for group in whole))


def _trees(nodes: list[NodeStatus]) -> dict[str, int]:
    total: dict[str, int] = {}
    for node in nodes:
        for name, value in node.counters.items():
            if name.startswith("tree_"):
                before = total.get(name, 0)
                total[name] = max(before, value) if name == "tree_depth" else before + value
    return total


def _ask(contacts: Contacts, member: Member) -> tuple[str, AgentStatus | None]:
    try:
        answer = contacts.client.call(
            contacts.address(member), "agent", "status", b"", deadline=contacts.deadline
        )
    except TryAgain as error:
        return "silent" if isinstance(error, DeadlineMissed) else "gone", None
    status = msgspec.msgpack.decode(answer, type=AgentStatus)
    # Somebody else may listen there by now.
    return ("up", status) if status.number == member.number else ("gone", None)


def _node(entry: Entry, answer: str, status: AgentStatus | None) -> NodeStatus:
    member = entry.member
    node = NodeStatus(
        node=member.node,
        state=entry.state.name.lower(),
        answer=answer,
        number=member.number,
        incarnation=entry.incarnation,
        role=member.role,
        host=member.host,
        rack=member.rack,
        pid=member.pid,
        address=member.address,
    )
    if status is None:
        return node
    others = status.services.keys() - {"membership", "restoring", "files"}
    return msgspec.structs.replace(
        node,
        tiers=status.tiers,
        counters=status.counted(),
        restoring=status.of("restoring", RestoreStatus),
        files=status.of("files", FileStatus),
        services={name: msgspec.msgpack.decode(status.services[name]) for name in sorted(others)},
    )


def _window(told: list[AgentStatus]) -> float:
    """Time to notice a death, and to fetch what the fullest node holds, shared by the others."""
    if not told:
        return 0.0
    fullest = max(sum(tier["bytes"] for tier in status.tiers.values()) for status in told)
    rate = sum(status.of("restoring", RestoreStatus).rate for status in told)
    rate *= max(1, len(told) - 1) / len(told)
    noticed = max(status.of("membership", MembershipStatus).detection for status in told)
    return noticed + fullest / rate


def _natural(name: str) -> tuple[str, int]:
    """Sort node-2 before node-10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
