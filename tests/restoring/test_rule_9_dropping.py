"""Rule 9: drops are final; every member learns of them and nothing comes back."""

from __future__ import annotations

import pytest
from restoring_members import One, Some

from holdfast._core import ObjectIndex, Tier, tombstone, watermark
from holdfast.errors import Dropped, KeyExists
from holdfast.membership.view import Member
from holdfast.restoration.messages import CompareNotices

KEY = b"key"


def knows(some: Some, key: bytes = KEY) -> set[str]:
    return {name for name, one in some.members.items() if one.store.was_dropped(key)}


def test_a_drop_at_one_member_reaches_all_and_no_copy_comes_back() -> None:
    some = Some(8)
    owners = some.put_at_owners(KEY, copies=3)
    some.tick(4)
    some.members[owners[1]].store.drop(KEY)
    some.tick(20)
    assert knows(some) == set(some.members)
    assert some.holders(KEY) == set()
    assert not some.pulls
    for one in some.members.values():
        try:
            one.store.create(KEY, b"", 10, 0, 2)
        except KeyExists:
            continue
        raise AssertionError(f"{one.member.node} takes the key again")


def test_who_meets_the_only_one_that_remembers_hears_of_it_at_once() -> None:
    some = Some(2)
    for name in some.members:
        some.see([name], by=[name])
    some.members["n0"].store.drop(KEY)
    some.tick(4)
    assert knows(some) == {"n0"}
    some.see(some.members)
    some.settle()
    assert knows(some) == {"n0", "n1"}


def test_who_was_away_hears_of_it_when_it_returns() -> None:
    some = Some(6)
    some.put_at_owners(KEY)
    away = some.owners(KEY)[0]
    rest = [name for name in some.members if name != away]
    some.see([away], by=[away])
    some.see(rest, by=rest)

    def cut(sender: One, member: Member) -> bool:
        return (sender.member.node == away) == (member.node == away)

    some.reaches = cut
    some.tick(10)
    some.members[rest[0]].store.drop(KEY)
    some.tick(30)
    assert knows(some) == set(rest)
    assert some.holders(KEY) == {away}
    some.reaches = lambda _sender, _member: True
    some.see(some.members)
    some.settle()
    assert knows(some) == set(some.members)
    assert some.holders(KEY) == set()


def test_when_a_large_cluster_heals_newcomers_are_told_by_a_few() -> None:
    some = Some(64)
    names = list(some.members)
    some.tick(8)
    for side in (names[:32], names[32:]):
        some.see(side, by=side)
    some.members[names[0]].store.drop(KEY)
    some.asked.clear()
    some.see(some.members)
    some.settle()
    compared = [request for request in some.asked if isinstance(request, CompareNotices)]
    assert 0 < len(compared) < 64 * 8  # each meets 32 newcomers, and talks to about four of them
    some.tick(20)
    assert knows(some) == set(some.members)


def test_drops_on_two_sides_are_a_union() -> None:
    some = Some(4)
    many = [b"key %d" % i for i in range(3000)]
    some.members["n0"].store.learn([tombstone(key) for key in many[:2000]])
    some.members["n3"].store.learn([tombstone(key) for key in many[1000:]])
    some.tick(30)
    for one in some.members.values():
        assert one.store.notice_digest()[0] == len(many)
        assert one.store.notice_digest() == some.members["n0"].store.notice_digest()


def test_whom_nobody_reaches_learns_of_drops_from_those_it_asks() -> None:
    some = Some(3)
    some.reaches = lambda _sender, member: member.node != "n2"
    some.members["n0"].store.drop(KEY)
    some.tick(40)
    assert knows(some) == set(some.members)


def test_without_news_members_still_compare_now_and_then() -> None:
    some = Some(4)
    some.tick(40)
    some.asked.clear()
    some.tick(40)
    compared = [request for request in some.asked if isinstance(request, CompareNotices)]
    assert len(compared) == 4 * 10  # four members, every four ticks


def test_a_drop_that_comes_between_wins_over_a_copy_on_its_way() -> None:
    some = Some(4)
    first, second = some.owners(KEY)
    some.put(second, KEY)
    writer = some.members[first].store.create(KEY, b"", 10, 0, 2)
    some.members[second].store.drop(KEY)
    some.tick(10)
    try:
        writer.commit(b"")
    except KeyExists:
        pass
    else:
        raise AssertionError("it was stored after it was dropped")
    assert some.members[first].store.used == 0


def test_watermarks_of_two_sides_merge_by_maximum_and_cover_tombstones() -> None:
    some = Some(6)
    keys = [b"T/%d" % version for version in range(30)]
    for key in keys:
        some.put_at_owners(key)
    some.tick(4)
    sides = [["n0", "n1", "n2"], ["n3", "n4", "n5"]]
    for side in sides:
        some.see(side, by=side)

    def cut(sender: One, member: Member) -> bool:
        return any(sender.member.node in side and member.node in side for side in sides)

    some.reaches = cut
    some.members["n0"].store.drop_below(b"T/", 10)
    some.members["n4"].store.drop_below(b"T/", 20)
    some.members["n2"].store.drop(b"T/15")
    some.members["n5"].store.drop(b"T/25")
    some.tick(30)
    assert knows(some, b"T/9") == set(some.members)
    assert knows(some, b"T/10") == set(sides[1])
    some.reaches = lambda _sender, _member: True
    some.see(some.members)
    some.settle()
    some.tick(30)
    for key in keys[:20]:
        assert knows(some, key) == set(some.members)
        assert some.holders(key) == set()
    for key in keys[20:25]:
        assert knows(some, key) == set()
        assert len(some.holders(key)) >= 2
    # The watermark, and the tombstone above it.
    assert {one.store.notice_digest()[0] for one in some.members.values()} == {2}
    assert len({one.store.notice_digest() for one in some.members.values()}) == 1


def test_a_million_objects_that_were_dropped_by_a_watermark_leave_less_than_1_kb() -> None:
    index = ObjectIndex()
    for version in range(1_000_000):
        key = b"run/T/%d" % version
        index.reserve(key, 1)
        index.publish(key, 1, 7, tier=Tier.MEMORY, copies=1, has_source=False)
    is_new, gone = index.learn(watermark(b"run/T/", 1_000_000))
    assert is_new
    assert len(gone) == 1_000_000
    assert index.keys(b"", 1) == []
    assert sum(map(len, index.notices_in(range(256)))) < 1000
    with pytest.raises(Dropped):
        index.absent(b"run/T/777")
