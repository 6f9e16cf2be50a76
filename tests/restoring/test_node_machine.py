"""The machine of a node: what membership says reaches placement and restoring, in that order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from holdfast.membership import events as membership
from holdfast.membership.owners import Owners
from holdfast.membership.rosters import roster_of
from holdfast.membership.view import Entry, Member, State, View
from holdfast.placement.windows import Roster
from holdfast.restoration import events as restoring
from holdfast.restoration.holdings import ROSTER
from holdfast.restoration.messages import ExchangedNotices, ExchangeNotices
from holdfast.restoration.node_machine import (
    AwayInstruction,
    NewsInstruction,
    NodeInstruction,
    NodeMachine,
    PlacedInstruction,
    SuspectsInstruction,
)
from holdfast.simulation.store import Store


class Recorder(Store):
    """Tells in which order it was placed and surveyed."""

    def __init__(self, number: int) -> None:
        super().__init__(number, 10**6)
        self.calls: list[str] = []
        self._of_index, self.survey = self.survey, self._surveyed

    def place(self, owners: Owners) -> None:
        self.calls.append(f"placed on {len(owners.members)}")
        super().place(owners)

    def _surveyed(self) -> dict[int, tuple[int, int]]:
        self.calls.append("surveyed")
        return self._of_index()


def member(number: int, node: str = "") -> Member:
    name = node or f"n{number}"
    return Member(
        node=name,
        number=number,
        started=number,
        address=f"tcp:{name}",
        socket=f"unix:{name}",
        pid=1,
    )


class Node:
    """Member 1, in whose view others live."""

    def __init__(self, *others: int) -> None:
        view = View(Entry(member(number), 0, State.ALIVE) for number in others)
        self.store = Recorder(1)
        self.machine = NodeMachine(
            member(1),
            view,
            self.store,
            period=1.0,
            virtual_nodes=8,
            restore_rate=1e6,
            partition_wait=8.0,
        )
        self._rng = random.Random(1)
        self.began = self.machine.begin(0.0, self._rng)

    def step(self, event: Any, now: float = 1.0) -> list[NodeInstruction]:
        self.store.calls.clear()
        return self.machine.step(event, now, self._rng)


def of(kind: type, instructions: list[NodeInstruction]) -> list[Any]:
    return [one for one in instructions if isinstance(one, kind)]


def test_it_begins_with_the_view_that_it_is_given() -> None:
    node = Node(2, 3)
    [placed] = of(PlacedInstruction, node.began)
    assert sorted(placed.owners.members) == [1, 2, 3]
    assert node.store.calls[0] == "placed on 3"


def test_a_store_sees_new_owners_before_restoring_does() -> None:
    node = Node(2)
    out = node.step(membership.ExchangedEvent([Entry(member(3), 0, State.ALIVE)]))
    [placed] = of(PlacedInstruction, out)
    assert sorted(placed.owners.members) == [1, 2, 3]
    assert node.store.calls[0] == "placed on 3"
    assert "surveyed" in node.store.calls
    assert of(restoring.AskInstruction, out)  # it compares with its co-owners at once
    assert node.machine.changes == 1


def test_what_changes_no_owner_places_nothing() -> None:
    node = Node(2)
    assert not of(PlacedInstruction, node.step(membership.MemberTickEvent()))
    out = node.step(membership.MemberDoubtEvent(2))
    assert of(membership.ViewInstruction, out)
    assert not of(PlacedInstruction, out)  # a suspect still owns
    assert node.store.calls == []
    [told] = of(NewsInstruction, out)
    assert [entry.state for entry in told.news if entry.member.number == 2] == [State.SUSPECT]


def test_suspects_are_told_whenever_they_change() -> None:
    node = Node(2, 3)
    assert not of(SuspectsInstruction, node.began)

    def told(event: Any, now: float = 1.0) -> list[set[int]]:
        return [set(one.numbers) for one in of(SuspectsInstruction, node.step(event, now))]

    assert told(membership.MemberDoubtEvent(2)) == [{2}]
    assert told(membership.MemberDoubtEvent(2)) == []
    assert told(membership.MemberDoubtEvent(3)) == [{2, 3}]
    assert told(membership.ProbeHeardEvent([Entry(member(2), 1, State.ALIVE)], 0, 3)) == [{3}]
    changes = [told(membership.MemberTickEvent(), 1.0 + period) for period in range(8)]
    assert [set()] in changes  # nobody refuted it: dead
    assert node.machine.owners is not None
    assert sorted(node.machine.owners.members) == [1, 2]
    assert told(membership.ProbeHeardEvent([Entry(member(3), 1, State.SUSPECT)], 0, 2)) == [{3}]


def test_a_death_of_one_never_seen_alive_is_placed_too() -> None:
    """Files of a node that was lost belong to it, also if it came and went unnoticed."""
    node = Node(2)
    out = node.step(membership.ProbeHeardEvent([Entry(member(9), 0, State.DEAD)], 0, 2))
    [placed] = of(PlacedInstruction, out)
    assert placed.owners.lost == {"n9"}
    assert sorted(placed.owners.members) == [1, 2]


def test_who_was_taken_for_dead_was_away() -> None:
    node = Node(2)
    out = node.step(membership.ProbeHeardEvent([Entry(member(1), 0, State.DEAD)], 0, 2))
    assert of(AwayInstruction, out)
    assert node.machine.incarnation == 1
    assert not of(AwayInstruction, node.step(membership.MemberDoubtEvent(2)))


def test_restoring_rests_while_it_has_nothing_to_do() -> None:
    node = Node(2)
    stepped: list[Any] = []
    step = node.machine.restorer.step
    node.machine.restorer.step = watch(step, stepped)  # type: ignore[method-assign]
    for second in range(9):
        node.step(restoring.RestorationTickEvent(), 10.0 + second)
    assert len(stepped) == 3


def roster() -> Roster:
    return roster_of([member(1), member(2)])


def window_key(of: Roster) -> bytes:
    return f"@space/{of.id}/s:v/1+1/0.0/0:4".encode()


def test_a_new_roster_is_placed_under_the_same_view_and_once() -> None:
    node, new = Node(2), roster()
    [before] = of(PlacedInstruction, node.began)
    assert before.owners.of(window_key(new), 2) == []
    out = node.step(restoring.RostersEvent([new]))
    [placed] = of(PlacedInstruction, out)
    assert placed.owners.identity == before.owners.identity
    assert [one.number for one in placed.owners.of(window_key(new), 2)] == [1, 2]
    assert node.store.owners(window_key(new), 2) == [1, 2]
    assert node.store.calls[0] == "placed on 2"
    assert "surveyed" in node.store.calls  # restoring begins anew under these owners
    assert not of(PlacedInstruction, node.step(restoring.RostersEvent([new])))
    later = node.step(membership.ExchangedEvent([Entry(member(3), 0, State.ALIVE)]))
    [again] = of(PlacedInstruction, later)
    assert [one.number for one in again.owners.of(window_key(new), 2)] == [1, 2]


def test_a_roster_that_another_member_tells_of_is_placed_too() -> None:
    node, new = Node(2), roster()
    notice = ROSTER + new.encode()
    junk = [ROSTER + b"of another version", ROSTER]
    node.machine.answer(ExchangeNotices(list(range(256)), [notice, *junk]))
    [placed] = of(PlacedInstruction, node.step(restoring.AskedEvent()))
    assert [one.number for one in placed.owners.of(window_key(new), 2)] == [1, 2]
    told = node.machine.answer(ExchangeNotices(list(range(256)), []))
    assert isinstance(told, ExchangedNotices)
    assert sorted(told.notices) == sorted([notice, *junk])  # who can read it may


def watch(step: Callable[..., Any], stepped: list[Any]) -> Callable[..., Any]:
    def watched(event: Any, *rest: Any) -> Any:
        stepped.append(event)
        return step(event, *rest)

    return watched
