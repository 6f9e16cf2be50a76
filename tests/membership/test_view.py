"""Views: merges in any order agree, and the latest member of a node is the one that counts."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInput
from holdfast.membership.view import Entry, Member, State, View, decode, encode


def member(number: int, node: str | None = None, started: int = 0, role: str = "compute") -> Member:
    name = f"n{number:05d}" if node is None else node
    return Member(
        node=name,
        number=number,
        started=started,
        address=f"10.0.0.1:{number}",
        socket=f"/run/{name}.sock",
        pid=1,
        role=role,
    )


def entry(number: int, state: State = State.ALIVE, incarnation: int = 0) -> Entry:
    # Few nodes, so that many members share one.
    return Entry(member(number, f"n{number % 3}", number // 5), incarnation, state)


entries = st.lists(
    st.builds(entry, st.integers(0, 11), st.sampled_from(State), st.integers(0, 3)), max_size=30
)


def content(view: View) -> object:
    known = {e.member.number: e for e in view.entries()}
    assert len(known) == len(view.entries())
    return known, view.identity, view.size, view.live(), view.lost()


@given(entries, st.randoms(use_true_random=False))
def test_merging_is_commutative_and_associative(heard: list[Entry], rng: Random) -> None:
    shuffled = heard[:]
    rng.shuffle(shuffled)
    assert content(View(heard)) == content(View(shuffled))
    half = len(heard) // 2
    left, right = View(heard[:half]), View(heard[half:])
    both = View(left.entries())
    both.merge(right.entries())
    assert content(both) == content(View(heard))


@given(entries)
def test_merging_again_changes_nothing_and_is_no_news(heard: list[Entry]) -> None:
    view = View(heard)
    before = content(view)
    assert view.merge(heard) == []
    assert view.merge(view.entries()) == []
    assert content(view) == before


@given(entries, entries)
def test_news_is_exactly_what_others_need(first: list[Entry], then: list[Entry]) -> None:
    told, teller = View(first), View(first)
    told.merge(teller.merge(then))
    assert content(told) == content(teller)


@given(entries, entries)
def test_a_view_on_a_base_is_like_any_other_and_leaves_the_base_alone(
    first: list[Entry], then: list[Entry]
) -> None:
    base = View(first)
    before = content(base)
    alone, based, untouched = View(first), View(base=base), View(base=base)
    assert based.merge(then) == alone.merge(then)
    assert content(based) == content(alone)
    assert content(untouched) == content(base) == before


@given(entries, entries)
def test_identity_says_whether_the_live_members_are_the_same(
    first: list[Entry], second: list[Entry]
) -> None:
    one, other = View(first), View(second)
    numbers = [{m.number for m in view.live()} for view in (one, other)]
    assert (one.identity == other.identity) == (numbers[0] == numbers[1])
    assert one.size == len(numbers[0])


@given(entries)
def test_everybody_is_live_or_lost_and_one_member_of_a_node_lives_at_most(
    heard: list[Entry],
) -> None:
    view = View(heard)
    live, lost = view.live(), view.lost()
    assert sorted(m.number for m in live + lost) == sorted(e.member.number for e in view.entries())
    suspects = [e for e in view.entries() if e.member in live and e.state is State.SUSPECT]
    counts = {"alive": len(live) - len(suspects), "suspect": len(suspects), "lost": len(lost)}
    assert view.states() == counts
    assert [m.node for m in live] == sorted({m.node for m in live})
    latest: dict[str, Member] = {}
    for known in view.entries():
        name = known.member.node
        latest[name] = max(
            latest.get(name, known.member), known.member, key=lambda m: (m.started, m.number)
        )
    for name, last in latest.items():
        state = view.get(last.number)
        assert state is not None
        assert view.node(name) == (None if state.state is State.DEAD else last)


@given(entries)
def test_messages_carry_views(heard: list[Entry]) -> None:
    view = View(heard)
    assert content(View.decode(view.encode())) == content(view)
    assert decode(encode(heard)) == heard


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        b"\x01",
        b"\x91\x01",
        encode([entry(1)])[:-1],
        encode([entry(1)])[:-1] + b"\x07",
    ],
)
def test_a_message_that_is_no_view_is_refused_in_a_sentence(message: bytes) -> None:
    with pytest.raises(BadInput, match="as a list of members"):
        View.decode(message)


def test_the_greater_incarnation_wins_then_the_greater_state() -> None:
    order = [entry(1, state, n) for n in range(3) for state in State]
    for low, high in itertools.combinations(order, 2):
        view = View([low])
        assert view.merge([high]) == [high]
        assert view.merge([low]) == []
        assert view.get(1) == high


def test_suspects_live_and_own_but_spares_do_not_own() -> None:
    spare, suspect = member(1, role="spare"), member(2)
    view = View([Entry(spare, 0, State.ALIVE), Entry(suspect, 0, State.SUSPECT)])
    assert view.live() == [spare, suspect]
    assert view.owners_pool() == [suspect]


def test_a_restart_replaces_the_earlier_member_known_to_be_dead_or_not() -> None:
    old, new = member(9, "a", started=1), member(3, "a", started=2)
    view = View([Entry(new, 0, State.ALIVE), Entry(old, 5, State.ALIVE)])
    assert view.live() == [new]
    assert view.lost() == [old]
    view.merge([Entry(new, 0, State.DEAD)])
    assert view.node("a") is None
    assert view.lost() == [old, new]
    assert view.merge([Entry(new, 1, State.ALIVE)])
    assert view.node("a") == new


def test_ten_thousand_members_cost_little() -> None:
    everybody = [Entry(member(n), 0, State.ALIVE) for n in range(10_000)]
    view = View(everybody)
    live, identity = view.live(), view.identity
    # What changes nobody's life leaves the lists and the identity as they are, not just equal.
    view.merge([Entry(e.member, 0, State.SUSPECT) for e in everybody])
    view.merge([Entry(e.member, 1, State.ALIVE) for e in everybody])
    assert view.live() is live
    assert view.identity == identity
    # Ten thousand views that each see one death differently: quick, as nothing is copied.
    views = [View([Entry(e.member, 1, State.DEAD)], base=view) for e in everybody]
    assert len({v.identity for v in views}) == 10_000
    assert {v.size for v in views} == {9_999}
