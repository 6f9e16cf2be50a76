"""Rule 8: lacking copies come back, only what is lost moves, and nothing moves twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations

import msgspec
import pytest
from restoring_members import PERIOD, Some

from holdfast._core import crc32c
from holdfast.restoration import holdings
from holdfast.restoration.events import PullInstruction, RequestFailedEvent
from holdfast.restoration.holdings import ObjectSummary
from holdfast.restoration.messages import Compare, Exchange, OtherView

KEYS = [b"key %d" % i for i in range(60)]


def all_in_place(some: Some, copies: int = 2) -> bool:
    return all(some.holders(key) == set(some.owners(key, copies)) for key in KEYS)


def lose(some: Some, name: str, key: bytes) -> None:
    """Let a copy go bad, and a scrub find it."""
    some.members[name].store.rot(key)
    assert not some.members[name].store.verify(key)


@pytest.mark.parametrize("copies", [2, 3])
def test_after_a_death_exactly_the_lost_copies_move(copies: int) -> None:
    some = Some(6)
    owners = {key: some.put_at_owners(key, copies=copies) for key in KEYS}
    lost = [key for key in KEYS if "n2" in owners[key]]
    some.die("n2")
    some.tick(10)
    assert all_in_place(some, copies)
    new = {key: set(some.owners(key, copies)) - set(owners[key]) for key in lost}
    assert Counter(some.pulls) == Counter((name, key) for key in lost for name in new[key])
    status = [one.restorer.status(some.now) for name, one in some.members.items() if name != "n2"]
    assert sum(s.restored_bytes for s in status) == 10 * len(lost)
    assert all(
        s.missing == s.missing_bytes == s.uncompared_peers == s.conflicts == 0 for s in status
    )


def test_quiet_members_compare_one_pair_now_and_then() -> None:
    some = Some(5)
    for key in KEYS:
        some.put_at_owners(key)
    some.tick(10)
    some.asked.clear()
    some.tick(20)
    compared = [request for request in some.asked if isinstance(request, Compare | Exchange)]
    assert len(compared) == 5 * 5  # five members, every four ticks
    assert not some.pulls


def test_a_loss_that_only_the_other_side_knew_of_is_found() -> None:
    """One was declared dead by mistake and does not know it; the other lost all that both had."""
    some = Some(4)
    key = KEYS[0]
    first, second = some.put_at_owners(key)
    some.tick(10)
    others = [name for name in some.members if name != first]
    some.see(others, by=others)
    lose(some, second, key)
    some.see(some.members, by=others)
    some.tick(15)
    assert some.holders(key) == {first, second}


def test_a_put_that_was_cut_off_is_completed_by_comparison() -> None:
    some = Some(4)
    for key in KEYS:
        some.put_at_owners(key)
    some.tick(10)
    first, second = some.owners(b"half")
    some.put(second, b"half")
    some.tick(3)
    assert some.holders(b"half") == {first, second}
    assert some.pulls == [(first, b"half")]


@pytest.mark.parametrize("keys", [1, 60])
def test_a_copy_found_bad_comes_back_even_if_nothing_else_is_shared(keys: int) -> None:
    some = Some(3)
    for key in KEYS[:keys]:
        some.put_at_owners(key)
    some.tick(10)
    first, second = some.owners(KEYS[0])
    lose(some, first, KEYS[0])
    assert some.holders(KEYS[0]) == {second}
    some.tick(10)
    assert some.holders(KEYS[0]) == {first, second}


def test_a_new_member_takes_over_and_the_others_trim_what_it_owns_now() -> None:
    some = Some(5)
    some.see([f"n{i}" for i in range(4)])
    for key in KEYS:
        some.put_at_owners(key)
    some.tick(10)
    some.see(some.members)
    some.tick(20)
    assert all_in_place(some)
    moved = [key for key in KEYS if "n4" in some.owners(key)]
    assert Counter(some.pulls) == Counter(("n4", key) for key in moved)


def test_more_copies_that_one_owner_knows_of_are_wanted_by_all() -> None:
    """A put that wants more copies than there are came to its end at the last owner only."""
    some = Some(5)
    owners = some.owners(b"more", 4)
    for name in owners[:2]:
        some.put(name, b"more", copies=2)
    some.tick(5)
    some.put(owners[3], b"more", copies=4)
    some.tick(10)
    assert some.holders(b"more") == set(owners)
    assert {some.members[name].store.objects[b"more"].held.copies for name in owners} == {4}
    surveys = {name: some.members[name].store.survey() for name in owners}
    numbers = {name: some.members[name].member.number for name in owners}
    assert len({surveys[a][numbers[b]] for a in owners for b in owners if a != b}) == 1


def test_what_fewer_nodes_would_do_for_gets_the_rest_when_nodes_come() -> None:
    some = Some(5)
    some.see(["n0", "n1"])
    for name in ("n0", "n1"):
        some.put(name, b"few", copies=4, least=1)
    some.put("n0", b"strict", copies=3)
    some.tick(10)
    assert some.holders(b"few") == {"n0", "n1"}
    statuses = [some.members[name].restorer.status(some.now) for name in ("n0", "n1")]
    assert sum(status.under_replicated for status in statuses) == 1  # the strict one
    for live in (["n0", "n1", "n2"], list(some.members)):
        some.see(live)
        lacking = sum(some.members[name].restorer.missing for name in live)
        some.settle()
        assert lacking or sum(some.members[name].restorer.restored[0] for name in live)
        some.tick(20)
        assert some.holders(b"few") == set(some.owners(b"few", 4)[: len(live)])
        assert not any(
            one.restorer.status(some.now).under_replicated for one in some.members.values()
        )
        assert {
            some.members[name].store.objects[b"few"].held.least
            for name in live
            if name in some.holders(b"few")
        } == {1}


@pytest.mark.parametrize("copies", [3, 4])
@pytest.mark.parametrize("least", [1, 3])
def test_owners_agree_for_how_many_nodes_are_too_few(copies: int, least: int) -> None:
    """The same bytes were put on both sides of a cut, and fewer nodes would do for one writer."""
    some = Some(5)
    owners = some.owners(b"key", copies)
    some.see(owners[:2])
    some.put(owners[0], b"key", copies=3, least=1)
    some.put(owners[1], b"key", copies=copies, least=least)
    some.tick(10)
    assert sum(some.members[name].store.short() for name in owners[:2]) == (least > 2)
    for name in owners[:2]:
        assert some.members[name].store.objects[b"key"].held.copies == copies
    some.see(some.members)
    some.tick(20)
    assert some.holders(b"key") == set(owners)
    for name in owners:
        held = some.members[name].store.objects[b"key"].held
        assert (held.copies, held.least) == (copies, least)


def test_of_versions_that_differ_in_their_headers_one_wins() -> None:
    some = Some(4)
    first, second = some.owners(b"key")
    loser, winner = sorted([b"one", b"two"], key=lambda header: crc32c(b"same" + header))
    some.put(first, b"key", b"same", header=loser)
    some.put(second, b"key", b"same", header=winner)
    some.tick(30)
    for name in (first, second):
        assert some.members[name].store.objects[b"key"].header == winner
    aside = b"holdfast.conflict/10-%08x/key" % crc32c(b"same" + loser)
    assert some.holders(aside) == set(some.owners(aside))
    for name in some.owners(aside):
        assert some.members[name].store.objects[aside].header == loser


def test_a_stray_that_wants_more_copies_tells_the_owners() -> None:
    some = Some(6)
    owners = some.owners(b"more", 3)
    stranger = next(name for name in some.members if name not in owners)
    for name in owners[:2]:
        some.put(name, b"more", copies=2)
    some.put(stranger, b"more", copies=3)
    some.tick(10)
    assert some.holders(b"more") == set(owners)
    assert {some.members[name].store.objects[b"more"].held.copies for name in owners} == {3}


def test_one_copy_is_fetched_at_a_time_though_many_offer_it() -> None:
    some = Some(5)
    owners = some.owners(b"wide", 4)
    for name in owners[1:]:
        some.put(name, b"wide", copies=4)
    started: list[PullInstruction] = []
    carry_out = some.carry_out
    some.carry_out = lambda one, i: (
        started.append(i) if isinstance(i, PullInstruction) else carry_out(one, i)
    )  # type: ignore[method-assign,func-returns-value]
    some.tick(20)
    assert len(started) == 1  # it never arrives, and nobody else is asked meanwhile


def test_a_source_that_fails_is_followed_by_the_next() -> None:
    some = Some(5)
    owners = some.owners(b"wide", 4)
    lacking, bad, *good = owners
    for name in owners[1:]:
        some.put(name, b"wide", copies=4)
    lose(some, bad, b"wide")
    held = some.members[good[0]].store.objects[b"wide"].held
    restorer = some.members[lacking].restorer
    restorer._lack(held, some.members[bad].member.number)  # as it was told before the loss
    some.tick(10)
    assert some.holders(b"wide") == set(owners)


def test_what_is_no_longer_owned_or_has_come_by_itself_is_not_fetched() -> None:
    some = Some(4)
    first, second = some.owners(b"late")
    restorer = some.members[first].restorer
    some.put(second, b"late")
    held = some.members[second].store.objects[b"late"].held
    restorer._lack(held, some.members[second].member.number)
    some.put(first, b"late")
    stranger = next(name for name in some.members if name not in (first, second))
    some.members[stranger].restorer._lack(held, some.members[second].member.number)
    some.tick(5)
    assert not some.pulls


def test_the_rate_is_kept() -> None:
    size, rate = 100, 1000.0
    some = Some(3, rate=rate)
    for key in KEYS:
        some.put_at_owners(key, size=size)
    some.tick(4)
    lost = [key for key in KEYS if "n0" in some.owners(key)]
    begun = some.now
    some.die("n0")
    fetched = [(some.now, 0)]
    while not all_in_place(some):
        some.tick()
        assert some.now < begun + 100 * len(lost) * size / rate, "it does not end"
        fetched.append((some.now, size * len(some.pulls)))
    assert fetched[-1][1] == len(lost) * size
    # A second's worth may have been saved up by each of the two, and one object is begun early.
    for now, done in fetched:
        assert done <= 2 * (rate * (now - begun + 1) + size)
    for (_, before), (_, after) in pairwise(fetched[8:]):
        assert after - before <= 2 * (rate * PERIOD + size)


def test_a_pair_that_never_agrees_does_not_hold_up_the_others() -> None:
    """As where a store is full."""
    some = Some(3)
    for key in KEYS:
        some.put_at_owners(key)
    bad = next(key for key in KEYS if some.owners(key) == ["n0", "n1"])
    good = next(key for key in KEYS if some.owners(key) == ["n0", "n2"])
    some.members["n1"].store.rot(bad)
    some.members["n1"].store.verify(bad)
    some.members["n1"].store.capacity = 0
    some.tick(10)
    some.members["n0"].store.rot(good)
    some.members["n0"].store.verify(good)
    some.tick(10)
    assert some.holders(good) == {"n0", "n2"}
    assert some.holders(bad) == {"n0"}
    some.members["n1"].store.capacity = 10**9
    some.tick(25)
    assert some.holders(bad) == {"n0", "n1"}


def test_what_finds_no_room_is_tried_now_and_then_and_counted_all_the_time() -> None:
    some = Some(2)
    for key in KEYS:
        some.put("n0", key)
    some.members["n1"].store.capacity = 0
    some.tick(200)  # fifty seconds
    assert len(KEYS) * 8 <= len(some.pulls) <= len(KEYS) * 11
    status = some.members["n1"].restorer.status(some.now)
    assert (status.missing, status.missing_bytes) == (len(KEYS), 10 * len(KEYS))
    some.members["n1"].store.capacity = 10**9
    some.tick(25)
    assert all_in_place(some)
    assert some.members["n1"].restorer.status(some.now).missing == 0


@pytest.mark.parametrize("order", list(permutations([b"one", b"other", b"third"])))
def test_of_several_versions_of_a_key_one_wins_and_the_others_are_set_aside(
    order: tuple[bytes, ...],
) -> None:
    """On two owners and a stray."""
    some = Some(5)
    first, second = some.owners(b"key")
    stray = next(name for name in some.members if name not in (first, second))
    for name, content in zip((first, second, stray), order, strict=True):
        some.put(name, b"key", content)
    *lost, winner = sorted(order, key=crc32c)
    some.tick(30)
    assert some.holders(b"key") == {first, second}
    for name in (first, second):
        assert some.members[name].store.objects[b"key"].content == winner
    for content in lost:
        aside = b"holdfast.conflict/10-%08x/key" % crc32c(content)
        assert some.holders(aside) == set(some.owners(aside))
        for name in some.owners(aside):
            assert some.members[name].store.objects[aside].content == content
    named = {
        key for one in some.members.values() for key in one.restorer.status(some.now).set_aside
    }
    assert len(named) == 2


def test_a_version_is_at_no_moment_without_a_copy_whoever_dies() -> None:
    """The winner's only holder dies when the loser has been set aside and has not fetched it."""
    some = Some(4)
    first, second = some.owners(b"key")
    loser, winner = sorted([b"one", b"other"], key=crc32c)
    some.put(first, b"key", loser)
    some.put(second, b"key", winner)
    carry_out = some.carry_out
    some.carry_out = lambda one, i: (  # type: ignore[method-assign]
        some.step(one, RequestFailedEvent(i.ticket))
        if isinstance(i, PullInstruction)
        else carry_out(one, i)
    )
    some.tick(3)
    aside = b"holdfast.conflict/10-%08x/key" % crc32c(loser)
    assert some.holders(aside) == {first}
    assert some.holders(b"key") == {second}
    some.carry_out = carry_out  # type: ignore[method-assign]
    some.die(second)
    some.tick(60)
    assert some.holders(aside) == set(some.owners(aside))


def test_a_loser_keeps_its_key_while_there_is_no_room_for_the_winner() -> None:
    some = Some(4)
    first, second = some.owners(b"key")
    loser, winner = sorted([b"one", b"other"], key=crc32c)
    some.put(first, b"key", loser)
    some.put(second, b"key", winner)
    store = some.members[first].store
    store.capacity = store.used
    some.tick(20)
    assert store.objects[b"key"].content == loser
    store.capacity = 10**9
    some.tick(20)
    assert store.objects[b"key"].content == winner


def test_who_owns_nothing_is_not_compared_with() -> None:
    some = Some(3)
    some.put("n0", b"key", b"one")
    one = some.members["n0"]
    assert one.owners is not None
    stranger = Compare(one.owners.identity, 77, (1, 1))
    assert one.restorer.answer(stranger) == OtherView(one.owners.identity)
    assert one.restorer.answer(msgspec.structs.replace(stranger, digest=(0, 0)))
    some.tick(20)  # in each of which it may turn to those that it has compared with


def test_a_drop_of_the_key_before_they_meet_is_a_drop_of_both() -> None:
    some = Some(4)
    first, second = some.owners(b"key")
    some.put(first, b"key", b"one")
    some.put(second, b"key", b"other")
    for one in some.members.values():
        one.store.drop(b"key")
    some.tick(10)
    assert not any(one.store.objects for one in some.members.values())


def test_a_key_that_is_too_long_is_cut_when_it_is_set_aside() -> None:
    keys = [b"k" * 4096, b"k" * 4095 + b"l"]
    aside = [
        holdings.aside(ObjectSummary(key=key, size=10, crc32c=1, tier=0, copies=1)) for key in keys
    ]
    assert len(set(aside)) == 2
    assert all(len(key) == 4096 and key.startswith(holdings.ASIDE) for key in aside)


def test_members_with_different_views_merge_them_and_do_nothing_else() -> None:
    some = Some(4)
    for key in KEYS:
        some.put_at_owners(key)
    some.see(["n0", "n1", "n2"], by=["n0"])  # n3 is dead, believes n0 alone
    some.tick(10)
    assert ("n0", "n1") in some.merges
    assert not some.pulls
    answer = some.members["n1"].restorer.answer(Compare(1, 1000, (0, 0)))
    assert isinstance(answer, OtherView)


def test_an_answer_to_an_earlier_view_does_not_count_as_agreement() -> None:
    some = Some(3)
    for key in KEYS:
        some.put_at_owners(key)
    one = some.members["n0"]
    some.keeps = lambda sender, request: sender is one and isinstance(request, Compare)
    some.tick()
    some.see(some.members, by=["n0"])
    assert some.release() == 2
    assert one.restorer.status(some.now).uncompared_peers == 2
