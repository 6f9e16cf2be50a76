"""What a client does, step by step: the cases that simulated seeds brought to light."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client.routing import Routing
from holdfast.errors import (
    Damaged,
    DeadlineMissed,
    NotEnoughNodes,
    NotFound,
    StaleView,
    Unavailable,
)
from holdfast.membership.view import SPARE, Entry, Member, State, View
from holdfast.objects.steps import (
    DoubtStep,
    DropBelowStep,
    DropStep,
    LookStep,
    MergeStep,
    ObjectSteps,
    PutStep,
    RefreshStep,
    SleepStep,
    Step,
    Steps,
)

KEY = b"key"


def member(number: int, role: str = "compute", node: str = "") -> Member:
    return Member(
        node=node or f"n{number}",
        number=number,
        started=number,
        address=f"a{number}",
        socket=f"s{number}",
        pid=1,
        role=role,
    )


def entries(count: int, dead: tuple[int, ...] = ()) -> list[Entry]:
    states = [State.DEAD if n in dead else State.ALIVE for n in range(count)]
    return [Entry(member(n), 0, state) for n, state in enumerate(states)]


class Driven:
    """A client whose steps are answered by a function."""

    def __init__(self, known: list[Entry]) -> None:
        self.now = 0.0
        self.routing = Routing(View(known), 10, "n0", ("n0",), avoid=5.0)
        self.client = ObjectSteps(
            self.routing, lambda: self.now, random.Random(1), put_retry_for=10.0
        )
        self.done: list[Step] = []

    def drive(self, steps: Steps, answer: Callable[[Step], Any]) -> Any:
        try:
            step = next(steps)
            while True:
                self.done.append(step)
                try:
                    result = answer(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value

    def looked(self) -> list[str]:
        return [step.member.node for step in self.done if isinstance(step, LookStep)]


def test_rule_7_owners_are_asked_in_order_then_every_member() -> None:
    driven = Driven(entries(9))

    def missing(step: Step) -> bool:
        if isinstance(step, LookStep):
            raise NotFound("not here")
        return False

    with pytest.raises(NotFound):
        driven.drive(driven.client.find(KEY), missing)
    owners = [member.node for member in driven.routing.owners.of(KEY, 4)]
    asked = driven.looked()
    assert asked[:4] == owners
    assert sorted(asked[:9]) == [f"n{i}" for i in range(9)]


def test_what_moved_to_its_owners_while_others_were_asked_is_found() -> None:
    driven = Driven(entries(5))
    owner = driven.routing.owners.of(KEY, 1)[0].node

    def answer(step: Step) -> object:
        if isinstance(step, LookStep):
            if step.member.node == owner and len(driven.looked()) > 1:
                return "found"
            raise NotFound("not here")
        return False

    assert driven.drive(driven.client.find(KEY), answer) == "found"
    assert sorted(driven.looked()[:5]) == [f"n{i}" for i in range(5)]


def test_rule_7_not_found_only_if_nobody_was_lost_and_everybody_answered() -> None:
    def missing(step: Step) -> bool:
        if isinstance(step, LookStep):
            raise NotFound("not here")
        return False

    driven = Driven(entries(3))
    with pytest.raises(NotFound):
        driven.drive(driven.client.find(KEY), missing)
    driven.routing.merge([Entry(member(7), 0, State.DEAD)])  # we never knew that it lived
    with pytest.raises(Unavailable, match=r"n7 \(lost\)"):
        driven.drive(driven.client.find(KEY), missing)

    def silent(step: Step) -> bool:
        if isinstance(step, LookStep) and step.member.node == "n1":
            raise DeadlineMissed("no answer")
        return missing(step)

    driven = Driven(entries(3))
    with pytest.raises(Unavailable, match="but n1 may have held it"):
        driven.drive(driven.client.find(KEY), silent)
    assert any(isinstance(step, DoubtStep) for step in driven.done)


def test_not_found_is_not_taken_from_who_was_started_in_the_place_of_the_owner() -> None:
    driven = Driven(entries(3))
    second = driven.routing.owners.of(KEY, 2)[1]

    def answer(step: Step) -> bool:
        if isinstance(step, LookStep) and step.member is second:
            raise Unavailable("this address now belongs to another member")
        if isinstance(step, LookStep):
            raise NotFound("not here")
        return False  # the others have not heard of it yet

    with pytest.raises(Unavailable, match=f"{second.node} may have held it"):
        driven.drive(driven.client.find(KEY), answer)
    assert any(isinstance(step, DoubtStep) and step.member is second for step in driven.done)


def test_a_view_that_another_thread_brought_in_is_looked_through_too() -> None:
    driven = Driven(entries(2))

    def answer(step: Step) -> object:
        if isinstance(step, LookStep):
            if step.member.node == "n2":
                return "found"
            raise NotFound("not here")
        if isinstance(step, RefreshStep):
            driven.routing.merge(entries(3))  # by the other thread; our own brings nothing
        return False

    assert driven.drive(driven.client.find(KEY), answer) == "found"


def test_a_drop_needs_an_owner() -> None:
    known = [Entry(member(0, "spare"), 0, State.ALIVE), Entry(member(1), 0, State.DEAD)]
    driven = Driven(known)
    with pytest.raises(NotEnoughNodes, match="could record the drop"):
        driven.drive(driven.client.drop(KEY, 2), lambda _step: False)
    assert driven.done == [RefreshStep()]


def test_a_drop_at_few_owners_asks_first_whether_there_are_more() -> None:
    driven = Driven(entries(4, dead=(1, 2, 3)))

    def answer(step: Step) -> bool:
        if isinstance(step, RefreshStep):
            alive = [Entry(member(n), 1, State.ALIVE) for n in range(4)]
            return driven.routing.merge(alive)
        return True

    driven.drive(driven.client.drop(KEY, 2), answer)
    drops = [step for step in driven.done if isinstance(step, DropStep)]
    owners = [owner.number for owner in driven.routing.owners.of(KEY, 2)]
    assert [drop.member.number for drop in drops] == owners
    assert all(drop.owners == owners for drop in drops)


def test_a_drop_goes_to_as_many_owners_as_anybody_knows_of() -> None:
    driven = Driven(entries(5))
    first, second, third = driven.routing.owners.of(KEY, 3)

    def answer(step: Step) -> object:
        if isinstance(step, LookStep):
            return 3 if step.member is second else 2
        if isinstance(step, DropStep) and step.member is second and len(step.owners) < 3:
            error = StaleView("other owners")
            error.at = second.address
            raise error
        return False

    driven.drive(driven.client.drop(KEY, 2), answer)
    drops = [(step.member, len(step.owners)) for step in driven.done if isinstance(step, DropStep)]
    assert drops == [(first, 2), (second, 2), (second, 3), (third, 3)]


def test_a_member_is_avoided_and_not_the_next_one_of_its_node() -> None:
    routing = Driven(entries(2)).routing
    routing.avoid(member(1), 0.0)
    new = member(7, node="n1")
    routing.merge([Entry(new, 0, State.ALIVE)])
    assert not routing.avoids(new, 1.0)
    routing.avoid(member(1), 1.0)  # an answer that was waited for all the time
    assert not routing.avoids(new, 1.0)
    routing.avoid(new, 1.0)
    routing.merge([Entry(new, 1, State.ALIVE)])  # it has spoken for itself
    assert not routing.avoids(new, 1.0)


def test_an_agent_that_has_not_heard_what_we_know_is_told_so() -> None:
    routing = Driven(entries(3)).routing
    assert routing.agrees(entries(3))
    routing.merge(entries(3, dead=(1, 2)))  # by an agent behind a cut
    routing.merge(entries(3))
    assert not routing.agrees(entries(3))
    assert [m.node for m in routing.live] == ["n0"]


def test_the_lost_are_asked_in_turn_when_nobody_else_is_left() -> None:
    routing = Driven(entries(7, dead=(1, 2, 3, 4, 5, 6))).routing
    routing.merge([Entry(member(11, node="n1"), 0, State.DEAD)])  # of a node, the latest
    asked = set()
    for _ in range(3):
        first, *lost = routing.informants(0.0)
        assert first.node == "n0"
        assert len(lost) == 2
        asked.update(m.number for m in lost)
    assert asked == {11, 2, 3, 4, 5, 6}


def test_a_connection_that_broke_is_no_reason_to_doubt_who_answers_the_next_time() -> None:
    """The agent met a copy that it cannot read, in the middle of its answer, and gave it up."""
    driven = Driven(entries(3))
    first, second = driven.routing.owners.of(KEY, 2)

    def answer(step: Step) -> object:
        if isinstance(step, LookStep) and step.member.node == first.node:
            if driven.looked().count(first.node) == 1:
                raise Unavailable("the connection broke")
            raise Damaged("the copy here was damaged and has been dropped")
        return "found"

    assert driven.drive(driven.client.find(KEY), answer) == "found"
    assert driven.looked() == [first.node, first.node, second.node]
    assert not any(isinstance(step, DoubtStep) for step in driven.done)


def test_a_put_for_which_fewer_nodes_will_do_takes_all_that_live() -> None:
    driven = Driven(entries(2))
    driven.drive(driven.client.put(KEY, 3, or_fewer=True), lambda _: None)
    (put,) = (step for step in driven.done if isinstance(step, PutStep))
    assert put.owners == [member.number for member in driven.routing.owners.of(KEY, 3)]
    assert (len(put.owners), put.up_to) == (2, 3)
    with pytest.raises(NotEnoughNodes, match="3 copies need as many nodes, but only 2 of 2"):
        driven.drive(driven.client.put(KEY, 3), lambda _: False)
    spares = Driven([Entry(member(0, role=SPARE), 0, State.ALIVE)])
    with pytest.raises(NotEnoughNodes, match="1 copies need as many nodes, but only 0"):
        spares.drive(spares.client.put(KEY, 3, or_fewer=True), lambda _: False)


def test_a_put_for_which_fewer_nodes_will_do_takes_those_it_is_told_of() -> None:
    """Who is refused for its short list merges views and comes with the whole one."""
    driven = Driven(entries(1))

    def answer(step: Step) -> object:
        if isinstance(step, PutStep) and len(step.owners) < 3:
            error = StaleView("other owners")
            error.at = "a0"
            raise error
        if isinstance(step, MergeStep):
            return driven.routing.merge(entries(3))
        return False

    driven.drive(driven.client.put(KEY, 3, or_fewer=True), answer)
    assert [len(step.owners) for step in driven.done if isinstance(step, PutStep)] == [1, 3]


def test_a_drop_says_how_many_copies_were_wanted() -> None:
    driven = Driven(entries(2))
    driven.drive(driven.client.drop(KEY, 3), lambda _: False)
    drops = [step for step in driven.done if isinstance(step, DropStep)]
    assert [(len(drop.owners), drop.copies) for drop in drops] == [(2, 3), (2, 3)]


def test_versions_are_dropped_when_all_who_live_have_answered() -> None:
    driven = Driven(entries(3))
    failures = {1: 2}  # how often a member does not answer

    def answer(step: Step) -> bool:
        if isinstance(step, DropBelowStep) and failures.get(step.member.number, 0):
            failures[step.member.number] -= 1
            raise DeadlineMissed("no answer")
        if isinstance(step, SleepStep):
            driven.now += step.seconds
        return False

    driven.client = ObjectSteps(
        driven.routing, lambda: driven.now, random.Random(1), put_retry_for=12.0
    )
    driven.drive(driven.client.drop_below(KEY), answer)
    told = [step.member.number for step in driven.done if isinstance(step, DropBelowStep)]
    assert told == [0, 1, 2, 1, 1]
    assert driven.now >= 10.0  # it was avoided twice
    assert [step.member.number for step in driven.done if isinstance(step, DoubtStep)] == [1, 1]


def test_who_dies_need_not_answer_a_drop_of_versions() -> None:
    driven = Driven(entries(3))

    def answer(step: Step) -> bool:
        if isinstance(step, DropBelowStep) and step.member.number == 1:
            raise DeadlineMissed("no answer")
        if isinstance(step, SleepStep):
            driven.now += step.seconds
        died = isinstance(step, RefreshStep) and driven.now > 1.0
        return died and driven.routing.merge(entries(3, dead=(1,)))

    driven.drive(driven.client.drop_below(KEY), answer)
    told = [step.member.number for step in driven.done if isinstance(step, DropBelowStep)]
    assert told == [0, 1, 2]


def test_a_drop_of_versions_names_who_did_not_answer() -> None:
    driven = Driven(entries(20))

    def silent(step: Step) -> bool:
        if isinstance(step, DropBelowStep) and step.member.number > 9:
            raise DeadlineMissed("it sleeps")
        if isinstance(step, SleepStep):
            driven.now += step.seconds
        return False

    with pytest.raises(Unavailable, match=r"n10, .* and 2 more did not .* is safe; n10: it sleeps"):
        driven.drive(driven.client.drop_below(KEY), silent)
    assert 10.0 <= driven.now < 16.0


def test_a_drop_of_versions_does_not_wait_for_each_of_many_silent_members() -> None:
    driven = Driven(entries(200))

    def silent(step: Step) -> bool:
        if isinstance(step, DropBelowStep) and step.member.number > 9:
            driven.now += 2.0
            raise DeadlineMissed("it sleeps")
        if isinstance(step, SleepStep):
            driven.now += step.seconds
        return False

    with pytest.raises(Unavailable, match=r"n10, .* did not answer"):
        driven.drive(driven.client.drop_below(KEY), silent)
    assert driven.now < 18.0


def test_versions_are_not_dropped_where_nobody_lives() -> None:
    driven = Driven(entries(2, dead=(0, 1)))
    with pytest.raises(Unavailable, match="no node answered"):
        driven.drive(driven.client.drop_below(KEY), lambda _: False)
