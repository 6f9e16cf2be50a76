"""Which nodes a space takes for its roster, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import TypeVar

from ..errors import BadInput, NotEnoughNodes
from ..placement.windows import LONGEST, Roster
from ..units import plural
from .view import SPARE, STAGING, Member

T = TypeVar("T")


def roster_of(members: Sequence[Member]) -> Roster:
    """Return a roster of those that live: the staging nodes if there are any, else all but spares.

    Neighbours differ in rack, and then in host, as long as there are others: what fails together
    is seldom in one window.
    """
    staging = [member for member in members if member.role == STAGING]
    chosen = staging or [member for member in members if member.role != SPARE]
    if not chosen:
        raise NotEnoughNodes("a space needs a node that stores objects, and none is alive")
    by_node = sorted(chosen, key=lambda member: member.node)
    racks = _groups(by_node, lambda member: member.rack)
    ordered = _in_turns(
        _in_turns(_groups(rack, lambda member: member.host or member.node)) for rack in racks
    )
    roster = Roster(
        tuple(member.node for member in ordered),
        tuple(member.host for member in ordered),
        tuple(member.rack for member in ordered),
        "staging" if staging else "compute",
    )
    if len(roster.encode()) > LONGEST:
        raise BadInput(
            f"the names of {plural(len(ordered), 'node', 'nodes')}, their hosts and racks take "
            "more than 256 KiB; use shorter ones, or staging nodes"
        )
    return roster


def _groups(members: Iterable[Member], of: Callable[[Member], Hashable]) -> list[list[Member]]:
    groups: dict[Hashable, list[Member]] = {}
    for member in members:
        groups.setdefault(of(member), []).append(member)
    return list(groups.values())


def _in_turns(groups: Iterable[Sequence[T]]) -> list[T]:
    """Take the first of each, then the second of each, and so on."""
    return [one for turn in zip_longest(*groups) for one in turn if one is not None]
