"""Whom a reader asks, step by step: without agents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.client.routing import Routing
from holdfast.errors import Damaged, DeadlineMissed, HoldfastError, NotYet, Refused, Unavailable
from holdfast.membership.rosters import roster_of
from holdfast.membership.view import Entry, Member, State, View
from holdfast.objects.steps import DoubtStep, RefreshStep
from holdfast.space.description import Variable, described
from holdfast.space.layout import CellPart
from holdfast.space.steps import BAD, Answer, Question, ReadSteps, RoundStep

Has = Callable[[str, CellPart], bool | int | HoldfastError]


def entries(count: int, dead: tuple[int, ...] = (), refuted: tuple[int, ...] = ()) -> list[Entry]:
    return [
        Entry(
            Member(node=f"n{n}", number=n + 1, started=1, address=f"a{n}", socket=f"s{n}", pid=1),
            int(n in refuted),
            State.DEAD if n in dead else State.ALIVE,
        )
        for n in range(count)
    ]


class Reading:
    """A reader on node 0 of five, whose questions a function answers."""

    def __init__(self, survive: int = 1, cells: int = 10, dead: tuple[int, ...] = ()) -> None:
        self.routing = Routing(View(entries(5)), 10, "n0", ("n0",), avoid=5.0)
        roster = roster_of(self.routing.live)
        self.routing.know(roster)
        self.routing.merge(entries(5, dead))
        self.variable = Variable(
            "run",
            "T",
            described(
                "T",
                roster,
                (cells,),
                "i8",
                dims=None,
                attrs=None,
                survive=survive,
                stripe=None,
                cell=(1,),
            ),
            roster,
        )
        self.parts = list(self.variable.layout.parts([range(cells)]))
        self.rounds: list[list[Question]] = []
        self.doubted: list[str] = []
        self.news: list[list[Entry]] = []

    def owners(self, part: CellPart) -> list[str]:
        copies = self.variable.copies
        return [member.node for member in self.routing.owners.of(part.head, copies)]

    def read(self, has: Has) -> None:
        steps = ReadSteps(self.routing, lambda: 0.0).find(self.variable, 3, self.parts)
        sent: object = None
        while True:
            try:
                step = steps.send(sent)
            except StopIteration:
                return
            sent = None
            match step:
                case RoundStep(questions):
                    self.rounds.append(questions)
                    sent = [self._answer(question, has) for question in questions]
                case RefreshStep():
                    sent = self.routing.merge(self.news.pop(0) if self.news else [])
                case DoubtStep(member, _, _):
                    self.doubted.append(member.node)

    def _answer(self, question: Question, has: Has) -> Answer:
        told: list[bool | int] = []
        for part in question.parts:
            answer = has(question.member.node, part)
            if isinstance(answer, HoldfastError):
                return answer
            told.append(answer)
        return told

    def asked(self) -> list[list[str]]:
        return [[question.member.node for question in one] for one in self.rounds]


def test_each_node_is_asked_once_for_all_that_it_should_have() -> None:
    reading = Reading()
    reading.read(lambda node, part: node in reading.owners(part))
    [questions] = reading.rounds
    nodes = [question.member.node for question in questions]
    assert len(nodes) == len(set(nodes))
    asked = {part.head: one.member.node for one in questions for part in one.parts}
    assert len(asked) == 10
    for part in reading.parts:
        first, *_ = owners = reading.owners(part)
        assert asked[part.head] == ("n0" if "n0" in owners else first)


def test_what_one_owner_lacks_the_next_is_asked_for() -> None:
    reading = Reading(survive=2)
    reading.read(lambda node, part: node == reading.owners(part)[-1])
    assert 2 <= len(reading.rounds) <= 3
    for part in reading.parts:
        asked = [q.member.node for one in reading.rounds for q in one if part in q.parts]
        assert set(asked) <= set(reading.owners(part))
        assert len(asked) == len(set(asked))


def test_not_yet_names_the_box_that_is_missing_and_asks_owners_only() -> None:
    reading = Reading()
    missing = reading.parts[3:5]
    with pytest.raises(NotYet, match=r"version 3 of `T` has not been put.* in the box 3:5;"):
        reading.read(lambda _, part: part not in missing)
    assert len(reading.rounds) == 2
    owners = {owner for part in missing for owner in reading.owners(part)}
    assert {q.member.node for q in reading.rounds[1]} <= owners
    assert reading.doubted == []


def test_an_owner_that_breaks_off_is_asked_once_more_and_then_avoided() -> None:
    reading = Reading(cells=1)
    first, second = sorted(reading.owners(reading.parts[0]), key=lambda node: node != "n0")

    def has(node: str, _: CellPart) -> bool | HoldfastError:
        return Unavailable("gone") if node == first else True

    reading.read(has)
    assert [node for [node] in reading.asked()] == [first, first, second]
    assert reading.doubted == [first]
    reading.rounds.clear()
    reading.read(has)  # whom we avoid comes last
    assert reading.asked() == [[second]]


@pytest.mark.parametrize("error", [DeadlineMissed("late"), Refused("another"), Damaged("bits")])
def test_who_failed_may_have_held_it(error: HoldfastError) -> None:
    reading = Reading(cells=1)
    first, _ = reading.owners(reading.parts[0])
    with pytest.raises(Unavailable, match=rf"in the box 0:1.*, but {first} may have held it"):
        reading.read(lambda node, _: error if node == first else False)
    asked = [node for one in reading.asked() for node in one]
    assert set(asked) == {f"n{n}" for n in range(5)}  # everybody, since it may have moved
    assert asked.count(first) == 1
    assert reading.doubted == ([] if isinstance(error, Damaged) else [first])


def test_after_as_many_deaths_as_it_survives_what_nobody_has_was_never_put() -> None:
    reading = Reading(dead=(1,))
    with pytest.raises(NotYet):
        reading.read(lambda *_: False)
    asked = {node for one in reading.asked() for node in one}
    assert asked == {"n0", "n2", "n3", "n4"}


def test_after_more_deaths_than_it_survives_it_may_be_lost() -> None:
    reading = Reading(dead=(1, 3))
    with pytest.raises(Unavailable, match=r"but n1 \(lost\), n3 \(lost\) may have held it"):
        reading.read(lambda *_: False)


def test_a_stray_is_found_once_somebody_was_lost() -> None:
    reading = Reading(dead=(1,), cells=1)
    owners = reading.owners(reading.parts[0])
    [stray, *_] = {f"n{n}" for n in (0, 2, 3, 4)} - set(owners)
    reading.read(lambda node, _: node == stray)


def test_a_stray_is_found_once_somebody_was_falsely_taken_for_dead() -> None:
    reading = Reading(cells=1)
    reading.news = [entries(5, refuted=(3,))]
    owners = reading.owners(reading.parts[0])
    [stray, *_] = {f"n{n}" for n in range(5)} - set(owners)
    reading.read(lambda node, _: node == stray)


def test_what_went_bad_was_put() -> None:
    reading = Reading(cells=1)
    first, second = reading.owners(reading.parts[0])
    with pytest.raises(Unavailable, match=rf"but {second} \(a copy was damaged\) may have held it"):
        reading.read(lambda node, _: BAD if node == second else False)
    assert reading.doubted == []
    reading.read(lambda node, _: BAD if node == first else node == second)


def test_parts_that_lie_on_different_nodes_may_be_all_that_was_put() -> None:
    reading = Reading(cells=1)
    first, second = reading.owners(reading.parts[0])
    parts = {first: 77, second: 78}
    with pytest.raises(Unavailable, match="or its parts lie on different nodes"):
        reading.read(lambda node, _: parts.get(node, False))
    parts[second] = parts[first]  # both have the same part: the rest was not put
    with pytest.raises(NotYet):
        reading.read(lambda node, _: parts.get(node, False))


def test_a_death_that_we_hear_of_meanwhile_is_followed() -> None:
    reading = Reading(cells=1)
    first, second = sorted(reading.owners(reading.parts[0]), key=lambda node: node != "n0")
    dead = int(first[1:])
    reading.news = [entries(5, (dead,))]
    late = False

    def has(node: str, _: CellPart) -> bool | HoldfastError:
        nonlocal late
        if node == first:
            return DeadlineMissed("late")
        late = late or not reading.news  # it has come back to its owners by then
        return late and node == second

    reading.read(has)
    assert reading.asked()[-1] == [second]


def test_much_is_asked_for_in_several_questions() -> None:
    reading = Reading(survive=0, cells=8000)
    reading.read(lambda node, part: node in reading.owners(part))
    [questions] = reading.rounds
    assert max(len(question.parts) for question in questions) == 1024
    assert sum(len(question.parts) for question in questions) == 8000
