"""Rule 8: a non-owner removes its copy only when all owners have confirmed theirs."""

from __future__ import annotations

import pytest
from restoring_members import Some

from holdfast._core import crc32c
from holdfast.membership.view import Member
from holdfast.restoration.messages import Confirm

KEY = b"key"


def with_stray(some: Some, copies: int = 2) -> tuple[list[str], str]:
    """Store the object at its owners and at one member that is none of them."""
    owners = some.owners(KEY, copies)
    stray = next(name for name in some.members if name not in owners)
    for name in [*owners, stray]:
        some.put(name, KEY, copies=copies)
    return owners, stray


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_stray_goes_when_all_owners_have_confirmed(copies: int) -> None:
    some = Some(5)
    owners, stray = with_stray(some, copies)
    some.tick(2)
    assert some.holders(KEY) == set(owners)
    assert some.members[stray].removed == [("trimmed", KEY)]
    assert some.members[stray].restorer.status(some.now).trimmed == 1


def test_an_owner_that_lacks_it_fetches_it_from_the_stray_first() -> None:
    some = Some(5)
    owners = some.owners(KEY)
    stray = next(name for name in some.members if name not in owners)
    some.put(stray, KEY)
    order = []
    carry_out = some.carry_out
    some.carry_out = lambda one, i: (carry_out(one, i), order.append(some.holders(KEY)))  # type: ignore[method-assign,assign,func-returns-value]
    some.tick(3)
    assert some.holders(KEY) == set(owners)
    assert {*owners, stray} in order


@pytest.mark.parametrize("silent", [0, 1])
def test_it_stays_while_one_owner_is_silent(silent: int) -> None:
    some = Some(5)
    owners, stray = with_stray(some)
    some.reaches = lambda _sender, member: member.node != owners[silent]
    some.tick(10)
    assert some.holders(KEY) == {*owners, stray}
    some.reaches = lambda _sender, _member: True
    some.tick(2)
    assert some.holders(KEY) == set(owners)


def test_it_stays_while_one_owner_has_none() -> None:
    some = Some(5)
    first, second = some.owners(KEY)
    stray = next(name for name in some.members if name not in (first, second))
    some.put(first, KEY, b"bytes")
    some.put(stray, KEY, b"bytes")
    some.reaches = lambda sender, _member: sender.member.node == stray
    some.tick(10)
    assert stray in some.holders(KEY)


@pytest.mark.parametrize("wins", [False, True])
def test_another_version_than_the_owners_have_is_set_aside_or_replaces_theirs(wins: bool) -> None:
    some = Some(5)
    owners = some.owners(KEY)
    stray = next(name for name in some.members if name not in owners)
    loser, winner = sorted([b"bytes", b"other bytes"], key=crc32c)
    for name in owners:
        some.put(name, KEY, loser if wins else winner)
    some.put(stray, KEY, winner if wins else loser)
    some.tick(20)
    assert some.holders(KEY) == set(owners)
    assert {some.members[name].store.objects[KEY].content for name in owners} == {winner}
    aside = b"holdfast.conflict/10-%08x/" % crc32c(loser) + KEY
    assert some.holders(aside) == set(some.owners(aside))


def test_it_stays_when_the_view_changes_before_the_last_answer() -> None:
    """Even if it changes back at once: who confirmed may have trimmed meanwhile."""
    some = Some(5)
    owners, stray = with_stray(some)
    some.keeps = lambda _sender, request: isinstance(request, Confirm)
    some.tick()
    others = [name for name in some.members if name != owners[0]]
    some.see(others, by=[stray])
    some.see(some.members, by=[stray])
    assert some.release()
    assert some.holders(KEY) == {*owners, stray}


def test_a_member_with_another_view_confirms_nothing() -> None:
    some = Some(6)
    owners, stray = with_stray(some)
    bystander = next(name for name in some.members if name not in (*owners, stray))
    some.see([name for name in some.members if name != bystander], by=[owners[1]])
    some.tick(10)
    assert stray in some.holders(KEY)
    assert (stray, owners[1]) in some.merges


def test_confirmations_of_long_ago_count_for_nothing() -> None:
    """The stray was stopped; whoever confirmed may have died since, and nobody has told it yet."""
    some = Some(5)
    owners, stray = with_stray(some)
    some.keeps = lambda _sender, request: isinstance(request, Confirm)
    some.tick()
    some.now += 60
    assert some.release()
    assert some.holders(KEY) == {*owners, stray}
    some.keeps = lambda _sender, _request: False
    some.tick(2)
    assert some.holders(KEY) == set(owners)


def test_more_strays_than_one_round_takes() -> None:
    some = Some(3)
    keys = [b"key %d" % i for i in range(1300)]
    for key in keys:
        for name in some.members:
            some.put(name, key)
    some.tick(8)
    assert all(some.holders(key) == set(some.owners(key)) for key in keys)


def test_one_stray_that_stays_does_not_hold_up_the_others() -> None:
    some = Some(4)
    keys = [b"key %d" % i for i in range(700)]
    for key in keys:
        for name in some.members:
            some.put(name, key)
    mute = some.members["n3"].member

    def reaches(_sender: object, member: Member) -> bool:
        return member is not mute

    some.reaches = reaches
    some.tick(12)
    for key in keys:
        owners = set(some.owners(key))
        assert some.holders(key) == (set(some.members) if "n3" in owners else owners)
