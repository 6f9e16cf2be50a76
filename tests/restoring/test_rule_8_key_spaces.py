"""Restoring by key space: where copies go, after which delay, and by which instruction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from restoring_members import PERIOD, Some
from support.trio import TRIO, Trio

from holdfast import _core
from holdfast.membership.view import Member
from holdfast.restoration.events import RestorationInstruction, RestoreInstruction
from holdfast.restoration.holdings import ObjectSummary


class Prompt(Trio):
    """Nothing is waited for."""

    restore_after = 0.0


KEYS = [b"@trio/%d" % i for i in range(30)]
PLAIN = [b"key %d" % i for i in range(30)]


def filled(nodes: int = 6, space: Trio = TRIO, spares: int = 0) -> Some:
    some = Some(nodes, key_spaces=(space,), spares=spares)
    for key in KEYS:
        some.put_at_owners(key, copies=3)
    for key in PLAIN:
        some.put_at_owners(key, copies=3)
    some.tick(4)
    return some


def missing(some: Some) -> int:
    living = (one for name, one in some.members.items() if name not in some.dead)
    return sum(one.restorer.status(some.now).under_replicated for one in living)


def at_their_owners(some: Some, keys: list[bytes]) -> bool:
    return all(some.holders(key) == set(some.owners(key, 3)) for key in keys)


def test_copies_of_a_key_space_come_back_at_its_owners_after_its_delay_and_no_sooner() -> None:
    some = filled()
    lost = sum("n5" in some.holders(key) for key in KEYS)
    assert lost > 5
    some.die("n5")
    died = some.now
    while some.now + PERIOD < died + TRIO.restore_after:
        some.tick()
        assert not any(key in KEYS for _, key in some.pulls)
    assert at_their_owners(some, PLAIN)
    assert missing(some) == lost
    some.tick(3)
    assert at_their_owners(some, KEYS)
    assert missing(some) == 0
    assert sum(key in KEYS for _, key in some.pulls) == lost


def test_a_node_that_comes_and_goes_does_not_postpone_what_another_took_along() -> None:
    some = filled(9)
    taken = {key for key in KEYS if "n8" in some.holders(key)}
    others = [key for key in taken if "n7" not in some.owners(key, 4)]
    assert others
    some.die("n8")
    died = some.now
    left = [f"n{i}" for i in range(8)]
    for period in range(20):
        if period % 2 == 0:
            some.see(left if period % 4 else left[:-1], left[:-1])
        some.tick()
        pulled = {key for _, key in some.pulls if key in KEYS}
        assert pulled <= taken  # n7 is never away for long
        assert not pulled or some.now >= died + TRIO.restore_after
        assert at_their_owners(some, others) or some.now < died + TRIO.restore_after + PERIOD


def test_each_death_has_its_delay() -> None:
    some = filled()
    of = {name: {key for key in KEYS if name in some.holders(key)} for name in ("n4", "n5")}
    some.die("n5")
    some.tick(4)
    some.die("n4")
    died = some.now
    while some.now + PERIOD < died + TRIO.restore_after:
        some.tick()
        assert {key for _, key in some.pulls if key in KEYS} <= of["n5"]
    assert any(key in KEYS for _, key in some.pulls)
    some.tick(3)
    assert at_their_owners(some, KEYS)


@pytest.mark.parametrize("rate", [1e12, 0.0])
def test_who_owns_it_no_more_and_then_again_waits_anew(rate: float) -> None:
    some = filled()
    for one in some.members.values():
        one.restorer._pulls.rate = rate  # what is not to be fetched for want of it waits likewise
    left = [f"n{i}" for i in range(5)]
    some.see(left, left)
    some.tick(4)
    some.see(some.members)
    some.tick()
    some.die("n5")
    died = some.now
    for one in some.members.values():
        one.restorer._pulls.rate = 1e12
    while some.now + PERIOD < died + TRIO.restore_after:
        some.tick()
        assert not any(key in KEYS for _, key in some.pulls)
    some.tick(4)
    assert at_their_owners(some, KEYS)


def test_what_is_missing_without_a_change_of_view_does_not_wait() -> None:
    some = filled()
    some.tick(10)
    first, *_ = some.owners(b"@trio/new", 3)
    some.put(first, b"@trio/new", b"bytes", copies=3)
    some.tick(3)
    assert at_their_owners(some, [b"@trio/new"])


def test_who_owns_it_no_more_after_the_delay_does_not_fetch_it() -> None:
    some = filled()
    left = [f"n{i}" for i in range(5)]
    some.see(left, left)
    some.tick(3)
    assert missing(some)
    some.see(some.members)  # n5 was not dead at all
    assert at_their_owners(some, KEYS + PLAIN) or some.pulls
    some.tick(20)
    assert missing(some) == 0
    assert at_their_owners(some, KEYS)
    assert not any(key in KEYS for _, key in some.pulls)


def test_the_partition_wait_comes_on_top() -> None:
    some = filled(7)
    some.die("n4", "n5", "n6")
    died = some.now
    while some.now < died + 4.5:
        some.tick()
        assert not some.pulls
    some.tick(8)
    assert at_their_owners(some, [key for key in KEYS if some.holders(key)])


class Substitutes(Prompt):
    """Spares are in a slot only while they stand in."""

    def slots(self, members: Sequence[Member]) -> list[list[Member]]:
        return [slot[:3] for slot in super().slots(members)]


def test_what_only_who_stood_in_holds_comes_back_from_there() -> None:
    some = filled(4, space=Substitutes(), spares=1)
    left = ["n0", "n1", "n3"]
    some.see(left, left)
    some.tick(8)
    assert all(some.holders(key) == set(some.members) for key in KEYS)
    # When n2 is back, nobody but the spare has a copy any more.
    for name in ("n0", "n1", "n2"):
        store = some.members[name].store
        store.rot(KEYS[0])
        assert not store.verify(KEYS[0])
    some.see(some.members)
    assert some.holders(KEYS[0]) == {"n3"}
    some.tick(20)
    assert at_their_owners(some, KEYS)
    assert missing(some) == 0


class RebuildInstruction(RestoreInstruction, frozen=True):
    """Not a pull."""


class Rebuilding(Prompt):
    """Objects come back by another instruction."""

    def restoring(self, ticket: int, held: ObjectSummary, source: Member) -> RestoreInstruction:
        return RebuildInstruction(ticket, held, source)


def test_a_key_space_names_the_instruction_that_brings_an_object_back() -> None:
    some = filled(space=Rebuilding())
    begun: list[RestorationInstruction] = []
    carry_out = some.carry_out
    some.carry_out = lambda one, i: (begun.append(i), carry_out(one, i))[1]  # type: ignore[method-assign,func-returns-value]
    some.die("n5")
    some.tick(8)
    assert at_their_owners(some, KEYS + PLAIN)
    restored = [i for i in begun if isinstance(i, RestoreInstruction)]
    assert {isinstance(i, RebuildInstruction) for i in restored} == {True, False}
    for instruction in restored:
        assert isinstance(instruction, RebuildInstruction) == (instruction.held.key in KEYS)


def test_strays_of_a_key_space_go_when_its_owners_have_confirmed() -> None:
    some = filled()
    outsider = next(n for n in some.members if n not in some.holders(KEYS[0]))
    some.put(outsider, KEYS[0], KEYS[0], copies=3)
    some.tick(4)
    assert at_their_owners(some, KEYS)


# ---- held through another object -----------------------------------------------------------------


def through(some: Some, name: str, key: bytes) -> bytes:
    """Let a member hold a copy through another object of its own, in its place; return that."""
    store = some.members[name].store
    held, tier = store.objects[key].held, _core.Tier(store.objects[key].held.tier)
    names = (b"parity %d" % number for number in range(100))
    parity = next(one for one in names if some.owners(one, 1) == [name])
    store.create(parity, parity, 10, 0, 1).commit(parity)
    store._index.evict(store.objects[key].indexed)
    store._removed(key, "evicted")
    assert store._index.hold_through(
        key,
        held.size,
        held.crc32c,
        tier=tier,
        copies=held.copies,
        object=parity,
        least=held.least,
    )
    return parity


@pytest.mark.parametrize("key", [KEYS[0], PLAIN[0]])
def test_what_is_held_through_another_object_is_not_brought_back_until_that_is_lost(
    key: bytes,
) -> None:
    some = filled()
    holder = some.owners(key, 3)[1]
    parity = through(some, holder, key)
    some.tick(20)
    other = next(n for n in some.members if n not in some.holders(key) and n != holder)
    some.die(other)  # a change of view that is none for the key
    some.tick(20)
    assert not any(pull == (holder, key) for pull in some.pulls)
    assert missing(some) == 0
    store = some.members[holder].store
    store.rot(parity)
    assert not store.verify(parity)
    some.tick(20)
    assert (holder, key) in some.pulls
    assert at_their_owners(some, [key])


def test_what_is_held_through_another_object_and_owned_no_more_is_offered_and_then_given_up() -> (
    None
):
    some = filled()
    key = KEYS[0]
    outsider = next(n for n in some.members if n not in some.holders(key))
    some.put(outsider, key, key, copies=3)
    through(some, outsider, key)
    store = some.members[outsider].store
    assert [held.key for held in store.strays(10, b"") if held.key == key] == [key]
    some.tick(4)
    assert store.held(key) is None
    assert at_their_owners(some, [key])
