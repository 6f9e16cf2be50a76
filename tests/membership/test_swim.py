"""The machine of one member, event by event."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.membership import swim as machine
from holdfast.membership.events import (
    ExchangedEvent,
    LeaveEvent,
    MemberDoubtEvent,
    MembershipEvent,
    MembershipInstruction,
    MemberTickEvent,
    ProbeAnsweredEvent,
    ProbeFailedEvent,
    ProbeHeardEvent,
    ProbeInstruction,
    SyncInstruction,
    ViewInstruction,
)
from holdfast.membership.gossip import MOST
from holdfast.membership.swim import Swim
from holdfast.membership.view import Entry, Member, State, View, decode, encode

PERIOD = 0.3


def member(number: int, started: int = 0, node: str | None = None) -> Member:
    return Member(
        node=node or f"n{number:03d}",
        number=number,
        started=started,
        address=f"a{number}",
        socket="",
        pid=1,
    )


def entry(number: int, state: State = State.ALIVE, incarnation: int = 0) -> Entry:
    return Entry(member(number), incarnation, state)


class Driver:
    """Member 0 of `count`, and its clock."""

    def __init__(self, count: int = 8, seed: int = 1, quiet: bool = True) -> None:
        self.rng = Random(seed)
        self.now = 100.0
        self.view = View(entry(number) for number in range(count))
        self.swim = Swim(member(0), self.view, PERIOD)
        while quiet and self.swim.news:
            self.tick()

    def step(self, event: MembershipEvent) -> list[MembershipInstruction]:
        # Messages are read anew by each receiver: nothing may rest on shared objects.
        if isinstance(event, ProbeAnsweredEvent):
            event = ProbeAnsweredEvent(
                event.ticket, copied(event.entries), event.identity, event.age
            )
        elif isinstance(event, ProbeHeardEvent):
            event = ProbeHeardEvent(copied(event.entries), event.identity, event.sender)
        elif isinstance(event, ExchangedEvent):
            event = ExchangedEvent(copied(event.entries))
        return self.swim.step(event, self.now, self.rng)

    def tick(self, answer: bool = True) -> list[MembershipInstruction]:
        """Let a period pass; whoever is probed answers, with nothing new."""
        self.now += PERIOD
        out = self.step(MemberTickEvent())
        for probe in probes(out) if answer else []:
            self.step(ProbeAnsweredEvent(probe.ticket, [], self.view.identity, 0.0))
        return out

    def fail(self) -> tuple[Member, list[MembershipInstruction]]:
        """ProbeInstruction somebody directly, in vain."""
        (probe,) = probes(self.tick(answer=False))
        return probe.target, self.step(ProbeFailedEvent(probe.ticket))

    def state(self, number: int) -> State:
        known = self.view.get(number)
        assert known is not None
        return known.state


def copied(entries: list[Entry]) -> list[Entry]:
    return decode(encode(entries))


def probes(out: list[MembershipInstruction]) -> list[ProbeInstruction]:
    return [i for i in out if isinstance(i, ProbeInstruction) and i.ticket]


def words(out: list[MembershipInstruction]) -> list[ProbeInstruction]:
    return [i for i in out if isinstance(i, ProbeInstruction) and not i.ticket]


def told(out: list[MembershipInstruction], number: int) -> list[Entry]:
    """What member `number` is told in messages of its own."""
    return [e for probe in words(out) if probe.target.number == number for e in probe.news]


def syncs(out: list[MembershipInstruction]) -> list[int]:
    return [i.target.number for i in out if isinstance(i, SyncInstruction)]


def changes(out: list[MembershipInstruction]) -> list[Entry]:
    return [e for i in out if isinstance(i, ViewInstruction) for e in i.entries]


def test_each_period_one_other_is_probed_and_nothing_else_happens_when_quiet() -> None:
    driver = Driver()
    targets = set()
    for _ in range(14):  # at least one whole round
        out = driver.tick()
        assert len(out) == 1
        (probe,) = probes(out)
        assert probe.via is None
        assert probe.news == []
        targets.add(probe.target.number)
    assert targets == {1, 2, 3, 4, 5, 6, 7}


def test_who_does_not_answer_is_probed_through_three_others() -> None:
    driver = Driver()
    target, out = driver.fail()
    helpers = {probe.via.number for probe in probes(out) if probe.via}
    assert len(helpers) == machine.HELPERS
    assert not helpers & {0, target.number}
    assert {probe.target for probe in probes(out)} == {target}
    assert driver.state(target.number) is State.ALIVE


def test_one_helper_that_gets_an_answer_is_enough() -> None:
    for answered in range(3):
        driver = Driver()
        target, out = driver.fail()
        for place, probe in enumerate(probes(out)):
            if place == answered:
                driver.step(ProbeAnsweredEvent(probe.ticket, [], driver.view.identity, 0.0))
            else:
                driver.step(ProbeFailedEvent(probe.ticket))
        assert driver.state(target.number) is State.ALIVE


def suspected(driver: Driver) -> tuple[Member, list[MembershipInstruction]]:
    target, out = driver.fail()
    last: list[MembershipInstruction] = []
    for probe in probes(out):
        assert driver.state(target.number) is State.ALIVE
        last = driver.step(ProbeFailedEvent(probe.ticket))
    return target, last


def test_whom_nobody_reaches_is_suspected_and_told_so() -> None:
    driver = Driver()
    target, out = suspected(driver)
    suspicion = entry(target.number, State.SUSPECT)
    assert changes(out) == [suspicion]
    assert told(out, target.number) == [suspicion, entry(0)]
    assert target in driver.view.live()
    # It is told again every period, and others hear of it.
    out = driver.tick()
    assert suspicion in told(out, target.number)
    assert any(suspicion in probe.news for probe in words(out) if probe.target != target)
    assert driver.swim.news == [suspicion]


@pytest.mark.parametrize(("count", "periods"), [(2, 3), (8, 3), (100, 5), (1_000, 8)])
def test_a_suspicion_that_nobody_refutes_kills_after_its_time(count: int, periods: int) -> None:
    driver = Driver(count)
    driver.step(ProbeHeardEvent([entry(1, State.SUSPECT)], driver.view.identity, 1))
    for _ in range(periods - 1):
        driver.tick()
        assert driver.state(1) is State.SUSPECT
    assert changes(driver.tick()) == [entry(1, State.DEAD)]
    assert driver.view.node("n001") is None


def test_a_refutation_in_time_saves_the_suspect() -> None:
    driver = Driver()
    target, _ = suspected(driver)
    driver.tick()
    alive = entry(target.number, State.ALIVE, 1)
    assert changes(driver.step(ProbeHeardEvent([alive], driver.view.identity, target.number))) == [
        alive
    ]
    for _ in range(20):
        driver.tick()
    assert driver.view.get(target.number) == alive


@pytest.mark.parametrize("state", [State.SUSPECT, State.DEAD])
def test_we_refute_what_is_said_of_us_at_once_and_to_who_said_it(state: State) -> None:
    driver = Driver()
    out = driver.step(ProbeHeardEvent([entry(0, state, 4)], driver.view.identity, 3))
    alive = entry(0, State.ALIVE, 5)
    assert changes(out) == [alive]
    assert alive in told(out, 3)
    assert len({probe.target.number for probe in words(out)} - {3}) >= 1
    # Hearing it again does not raise the incarnation, but is answered.
    out = driver.step(ProbeHeardEvent([entry(0, state, 4)], driver.view.identity, 5))
    assert changes(out) == []
    assert told(out, 5) == [alive]
    assert driver.view.get(0) == alive


def test_who_has_not_heard_a_refutation_is_told() -> None:
    driver = Driver()
    driver.step(ProbeHeardEvent([entry(4, State.ALIVE, 2)], driver.view.identity, 4))
    out = driver.step(ProbeHeardEvent([entry(4, State.SUSPECT, 1)], driver.view.identity, 6))
    assert told(out, 6) == [entry(4, State.ALIVE, 2)]
    assert driver.state(4) is State.ALIVE


def test_who_talks_to_us_while_we_think_it_dead_is_told() -> None:
    driver = Driver()
    driver.step(ProbeHeardEvent([entry(4, State.DEAD)], driver.view.identity, 3))
    out = driver.step(ProbeHeardEvent([], 12345, 4))
    assert told(out, 4) == [entry(4, State.DEAD), entry(0)]


def test_whoever_says_that_we_are_dead_is_answered_though_we_did_not_know_it() -> None:
    driver = Driver()
    stranger = entry(30)
    out = driver.step(ProbeHeardEvent([entry(0, State.DEAD), stranger], 12345, 30))
    assert told(out, 30) == [entry(0, State.ALIVE, 1)]
    assert driver.view.node("n030") == stranger.member


def test_data_path_evidence_suspects_and_does_not_kill() -> None:
    # Rule 3 of the design.
    driver = Driver()
    out = driver.step(MemberDoubtEvent(5))
    assert changes(out) == [entry(5, State.SUSPECT)]
    assert told(out, 5) == [entry(5, State.SUSPECT), entry(0)]
    assert driver.step(MemberDoubtEvent(5)) == []
    assert driver.step(MemberDoubtEvent(0)) == []  # ourselves
    assert driver.step(MemberDoubtEvent(99)) == []  # nobody


def test_an_answer_of_a_loop_that_stands_still_is_none() -> None:
    driver = Driver()
    (probe,) = probes(driver.tick(answer=False))
    out = driver.step(ProbeAnsweredEvent(probe.ticket, [], driver.view.identity, 10.5 * PERIOD))
    assert len(probes(out)) == machine.HELPERS
    for helped in probes(out):
        driver.step(ProbeAnsweredEvent(helped.ticket, [], driver.view.identity, 10.5 * PERIOD))
    assert driver.state(probe.target.number) is State.SUSPECT


def test_two_members_have_no_helpers() -> None:
    driver = Driver(2)
    _, out = driver.fail()
    assert changes(out) == [entry(1, State.SUSPECT)]


def test_who_is_alone_waits() -> None:
    driver = Driver(1, quiet=False)
    for _ in range(10):
        assert driver.tick() == []


def test_what_was_asked_before_we_were_stopped_says_nothing() -> None:
    driver = Driver()
    target, out = driver.fail()
    driver.now += 50 * PERIOD
    driver.tick()
    for probe in probes(out):
        assert driver.step(ProbeFailedEvent(probe.ticket)) == []
    assert driver.state(target.number) is State.ALIVE


def test_suspicion_does_not_run_while_we_are_stopped() -> None:
    driver = Driver()
    driver.step(MemberDoubtEvent(5))
    driver.now += 50 * PERIOD
    driver.tick()
    assert driver.state(5) is State.SUSPECT


def test_views_are_exchanged_when_they_differ_and_nothing_is_on_its_way() -> None:
    driver = Driver()
    (probe,) = probes(driver.tick(answer=False))
    assert syncs(driver.step(ProbeAnsweredEvent(probe.ticket, [], 12345, 0.0))) == [
        probe.target.number
    ]
    # Once in a period is enough.
    assert syncs(driver.step(ProbeHeardEvent([], 12345, 3))) == []
    driver.tick()
    assert syncs(driver.step(ProbeHeardEvent([], 12345, 3))) == [3]
    driver.tick()
    assert syncs(driver.step(ProbeHeardEvent([], driver.view.identity, 3))) == []
    # News will make views equal by itself.
    driver.step(MemberDoubtEvent(5))
    driver.tick()
    assert syncs(driver.step(ProbeHeardEvent([], 12345, 3))) == []
    assert syncs(driver.step(ProbeHeardEvent([], 12345, 777))) == []  # nobody that we know


def test_views_are_exchanged_although_there_is_always_news_when_ours_is_met_nowhere() -> None:
    driver = Driver()
    found = []
    for incarnation in range(1, 60):
        out = driver.tick(answer=False)
        news = [entry(5, State.ALIVE, incarnation)]
        for probe in probes(out):
            found += syncs(driver.step(ProbeAnsweredEvent(probe.ticket, news, 12345, 0.0)))
    assert 1 <= len(found) <= 3


def test_a_whole_view_is_taken_in_and_not_gossiped() -> None:
    driver = Driver(3)
    out = driver.step(ExchangedEvent([entry(number) for number in range(50)]))
    assert len(changes(out)) == 47
    assert driver.view.size == 50
    assert driver.swim.news == []
    visited = {probe.target.number for _ in range(49) for probe in probes(driver.tick())}
    assert visited == set(range(1, 50))


def test_an_exchange_kills_nobody_at_once() -> None:
    driver = Driver()
    theirs = [entry(n, State.DEAD) for n in (0, 1, 2)] + [entry(20, State.DEAD)]
    driver.step(ExchangedEvent(theirs))
    assert driver.view.get(0) == entry(0, State.ALIVE, 1)
    assert [driver.state(n) for n in (1, 2, 20)] == [State.SUSPECT, State.SUSPECT, State.DEAD]
    driver.step(ExchangedEvent([entry(1, State.ALIVE, 1)]))
    for _ in range(3):
        driver.tick()
    assert [driver.state(n) for n in (1, 2)] == [State.ALIVE, State.DEAD]


def test_the_dead_are_told_now_and_then() -> None:
    driver = Driver()
    driver.step(ProbeHeardEvent([entry(4, State.DEAD)], driver.view.identity, 3))
    driver.step(ProbeHeardEvent([entry(5, State.DEAD)], driver.view.identity, 3))
    driver.step(
        ProbeHeardEvent([Entry(member(105, 7, "n005"), 0, State.ALIVE)], driver.view.identity, 3)
    )
    knocks = 0
    for _ in range(200):
        out = driver.tick()
        assert not told(out, 5)  # it was restarted
        assert {probe.target.number for probe in probes(out)} <= {1, 2, 3, 6, 7, 105}
        knocks += told(out, 4) == [entry(4, State.DEAD), entry(0)]
    assert 15 < knocks < 80


def test_who_leaves_tells_some_and_is_silent_then() -> None:
    driver = Driver()
    out = driver.step(LeaveEvent())
    end = entry(0, State.DEAD)
    assert changes(out) == [end]
    assert len({probe.target.number for probe in words(out)}) == machine.FAREWELLS
    assert all(probe.news == [end] for probe in words(out))
    assert driver.tick() == []
    assert driver.step(ProbeHeardEvent([end], 1, 3)) == []


def test_a_newcomer_makes_itself_known() -> None:
    driver = Driver(quiet=False)
    assert driver.swim.news == [entry(0)]
    assert len(words(driver.tick())) == machine.EXTRA_GOSSIPS
    times = 1 + machine.EXTRA_GOSSIPS
    while driver.swim.news:
        times += sum(bool(i.news) for i in driver.tick() if isinstance(i, ProbeInstruction))
    assert times == 3 * 4  # 3 ceil(log2(8 + 1))


def test_ten_thousand_members_cost_no_more_than_few() -> None:
    driver = Driver(10_000)
    live = driver.view.live()
    driver.step(MemberDoubtEvent(5))
    driver.step(ProbeHeardEvent([entry(5, State.ALIVE, 1)], driver.view.identity, 5))
    for _ in range(50):
        driver.tick()
    assert driver.view.live() is live  # nobody had to look at everybody


entries = st.lists(
    st.builds(entry, st.integers(0, 12), st.sampled_from(State), st.integers(0, 4)), max_size=MOST
)
identities = st.sampled_from([0, 12345])
events = st.one_of(
    st.builds(MemberTickEvent),
    st.builds(ProbeAnsweredEvent, st.integers(0, 60), entries, identities, st.floats(0, 9)),
    st.builds(ProbeFailedEvent, st.integers(0, 60)),
    st.builds(ProbeHeardEvent, entries, identities, st.integers(0, 13)),
    st.builds(ExchangedEvent, entries),
    st.builds(MemberDoubtEvent, st.integers(0, 13)),
)


@settings(max_examples=200)
@given(st.lists(events, max_size=80), st.integers(1, 9), st.integers(0, 99))
def test_whatever_happens_the_machine_stays_in_order(
    happens: list[MembershipEvent], count: int, seed: int
) -> None:
    driver = Driver(count, seed, quiet=False)
    reported = {e.member.number: e for e in driver.view.entries()}
    open_tickets: set[int] = set()
    for event in happens:
        driver.now += PERIOD
        out = driver.step(event)
        for changed in changes(out):
            old = reported.get(changed.member.number)
            assert old is None or (old.incarnation, old.state) < (
                changed.incarnation,
                changed.state,
            )
            reported[changed.member.number] = changed
        for probe in out:
            if isinstance(probe, ProbeInstruction):
                assert probe.target.number != 0
                assert len(probe.news) <= MOST
                assert probe.ticket not in open_tickets
                open_tickets |= {probe.ticket} - {0}
    # Every change was reported, and we never believe that we are dead.
    assert reported == {e.member.number: e for e in driver.view.entries()}
    assert driver.state(0) is State.ALIVE
    assert driver.view.identity == View(driver.view.entries()).identity
