"""What is told, how often, and to whom."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.membership.gossip import MOST, Gossip
from holdfast.membership.probe_rota import ProbeRota
from holdfast.membership.view import Entry, Member, State, View


def entry(number: int, incarnation: int = 0, state: State = State.ALIVE) -> Entry:
    return Entry(
        Member(
            node=f"n{number:05d}", number=number, started=0, address=f"a{number}", socket="", pid=1
        ),
        incarnation,
        state,
    )


@given(st.integers(0, 40), st.integers(1, 12))
def test_everything_is_told_so_many_times_and_no_more(count: int, times: int) -> None:
    gossip = Gossip()
    for number in range(count):
        gossip.add(entry(number))
    told: Counter[int] = Counter()
    while len(gossip.waiting):
        news = gossip.take(times)
        assert 0 < len(news) <= MOST
        assert len({e.member.number for e in news}) == len(news)
        told.update(e.member.number for e in news)
    assert gossip.news() == gossip.take(times) == []
    assert told == Counter(dict.fromkeys(range(count), times))


def test_the_least_told_goes_first() -> None:
    gossip = Gossip()
    for number in range(MOST):
        gossip.add(entry(number))
    gossip.take(10)
    gossip.add(entry(100))
    assert gossip.news()[0].member.number == 100
    assert 100 in {e.member.number for e in gossip.take(10)}
    assert len(gossip.waiting) == MOST + 1


def test_a_later_entry_replaces_that_of_the_same_member_and_starts_anew() -> None:
    gossip = Gossip()
    gossip.add(entry(1))
    sent = gossip.take(2)
    gossip.add(entry(1, 1))
    assert sent == [entry(1)]  # a message on its way does not change
    assert gossip.take(2) == gossip.take(2) == [entry(1, 1)]
    assert len(gossip.waiting) == 0


def test_answers_carry_the_same_list_as_long_as_the_news_is_the_same() -> None:
    gossip = Gossip()
    gossip.add(entry(1))
    news = gossip.news()
    gossip.take(3)
    assert gossip.news() is news
    gossip.add(entry(2))
    assert gossip.news() == [entry(1), entry(2)]


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_a_round_visits_everybody_else_once(count: int, seed: int) -> None:
    rng = Random(seed)
    view = View(entry(number) for number in range(count))
    peers = ProbeRota(0, view)
    for _ in range(3):
        visited = [peers.following(rng) for _ in range(count - 1)]
        assert sorted(m.number for m in visited if m) == list(range(1, count))
        # The rest of the round is our own place.
    assert count > 1 or peers.following(rng) is None


@given(st.integers(2, 60), st.integers(0, 2**32), st.data())
def test_only_the_living_are_visited_and_nobody_is_forgotten(
    count: int, seed: int, data: st.DataObject
) -> None:
    rng = Random(seed)
    view = View(entry(number) for number in range(count))
    peers = ProbeRota(0, view)
    alive = set(range(count))
    numbers = st.lists(st.integers(1, count + 5), max_size=count)
    for incarnation, changed in enumerate(data.draw(st.lists(numbers, max_size=4)), start=1):
        for number in changed:
            state = State.DEAD if number in alive else State.ALIVE
            if view.merge([entry(number, incarnation, state)]):
                alive ^= {number}
                if state is State.ALIVE:
                    peers.add(entry(number).member)
        visited = [peers.following(rng) for _ in range(3 * (count + 6))]
        assert {m.number for m in visited if m} == alive - {0}
        for wanted in (1, 3, count + 10):
            some = peers.some(wanted, rng, but=(1, 2))
            assert len(some) == len({m.number for m in some}) <= wanted
            assert {m.number for m in some} <= alive - {0, 1, 2}
            if view.size <= 16 or wanted <= 3:
                assert len(some) == min(wanted, len(alive - {0, 1, 2}))


def test_in_a_large_cluster_some_are_found_without_a_list_of_all() -> None:
    base = View(entry(number) for number in range(2_000))
    view = View(base=base)
    view.merge(entry(number, 0, State.DEAD) for number in range(0, 2_000, 3))
    peers = ProbeRota(1, View(base=base))
    assert len(peers.some(3, Random(1))) == 3
    found = {m.number for _ in range(500) for m in ProbeRota(1, view).some(3, Random(_))}
    assert len(found) > 500
    assert not {n for n in found if n % 3 == 0}
