"""Rule 10: when more than a third of the members vanish at once, restoring waits, and it ends."""

from __future__ import annotations

import pytest
from restoring_members import Some

from holdfast.restoration.partition_wait import PartitionWait

KEYS = [b"key %d" % i for i in range(40)]


def filled(partition_wait: float = 5.0) -> Some:
    some = Some(7, partition_wait=partition_wait)
    for key in KEYS:
        some.put_at_owners(key)
    some.tick(4)
    return some


def waits(some: Some) -> float:
    return some.members["n0"].restorer.status(some.now).partition_wait_left


def test_two_of_seven_are_restored_at_once() -> None:
    some = filled()
    some.die("n5", "n6")
    assert not waits(some)
    some.tick(8)
    assert some.pulls


def test_three_of_seven_are_waited_for_and_then_restored() -> None:
    some = filled()
    some.die("n4", "n5", "n6")
    begun = some.now
    assert waits(some) == 5.0
    while some.now < begun + 4.5:
        some.tick()
        assert not some.pulls
    some.tick(12)
    assert not waits(some)
    left = [key for key in KEYS if some.holders(key)]
    assert left
    assert all(some.holders(key) == set(some.owners(key)) for key in left)


def test_nothing_is_trimmed_while_it_waits() -> None:
    some = filled()
    owners = some.owners(b"stray")
    stray = next(n for n in ("n0", "n1", "n2", "n3") if n not in owners)
    for name in {*some.members} - {stray}:
        some.put(name, b"stray")
    some.die("n4", "n5", "n6")
    some.put(stray, b"stray") if stray not in some.holders(b"stray") else None
    some.tick(10)
    assert some.holders(b"stray") == {"n0", "n1", "n2", "n3"}
    some.tick(20)
    assert some.holders(b"stray") == set(some.owners(b"stray"))


def test_the_wait_ends_when_they_come_back() -> None:
    some = filled()
    some.see(["n0", "n1", "n2", "n3"], by=["n0", "n1", "n2", "n3"])
    some.tick()
    assert waits(some)
    some.see(some.members)
    assert not waits(some)
    some.tick(8)
    assert not some.pulls
    assert all(some.holders(key) == set(some.owners(key)) for key in KEYS)


@pytest.mark.parametrize(("apart", "waiting"), [(1.0, True), (100.0, False)])
def test_deaths_count_together_if_they_are_close(apart: float, waiting: bool) -> None:
    wait = PartitionWait(10.0, 10.0)
    nodes = [f"n{i}" for i in range(6)]
    wait.viewed(frozenset(nodes), 0.0)
    for i in (5, 4, 3):
        wait.viewed(frozenset(nodes[:i]), (6 - i) * apart)
    assert (wait.left(3 * apart) > 0) == waiting


def test_it_never_waits_longer_than_it_may() -> None:
    """Not even if members come and go all the time."""
    wait = PartitionWait(10.0, 10.0)
    nodes = [f"n{i}" for i in range(6)]
    wait.viewed(frozenset(nodes), 0.0)
    now, waited = 0.0, 0.0
    while now < 200:
        now += 0.5
        wait.viewed(frozenset(nodes[: 2 if int(now * 2) % 2 else 3]), now)
        waited = waited + 0.5 if wait.left(now) else 0.0
        assert waited <= 10.5
