"""Restoring in windows of a roster: what moves, what comes back, and who learns of the roster."""

from __future__ import annotations

from restoring_members import PERIOD, Some
from support.pieces import piece_keys

from holdfast.membership.rosters import roster_of
from holdfast.placement.windows import Roster
from holdfast.restoration.events import RostersEvent
from holdfast.restoration.messages import Exchange


def roster(some: Some, size: int) -> Roster:
    return roster_of([one.member for one in list(some.members.values())[:size]])


def know(some: Some, of: Roster, *names: str) -> None:
    """Let clients of some members, all if none are named, know a roster."""
    for name in names or some.members:
        if name not in some.dead:
            some.step(some.members[name], RostersEvent([of]))


def filled(nodes: int = 7, size: int = 6) -> tuple[Some, list[bytes]]:
    some = Some(nodes)
    of = roster(some, size)
    know(some, of)
    some.tick(4)
    pieces = piece_keys(of)
    for key in pieces:
        some.put_at_owners(key, size=8)
    some.tick(4)
    assert not some.pulls
    return some, pieces


def at_their_owners(some: Some, where: list[bytes]) -> bool:
    return all(some.holders(key) == set(some.owners(key)) != set() for key in where)


def knowing(some: Some) -> set[str]:
    return {name for name, one in some.members.items() if one.restorer.rosters}


def test_exactly_what_was_lost_moves_to_who_stands_in_and_back() -> None:
    some, pieces = filled()
    before = {key: some.holders(key) for key in pieces}
    lost = [key for key in pieces if "n2" in before[key]]
    some.die("n2")
    some.tick(8)
    assert at_their_owners(some, pieces)
    assert sorted(key for _, key in some.pulls) == sorted(lost)
    assert len({name for name, _ in some.pulls}) > 1
    some.pulls.clear()
    some.dead.clear()  # it was cut off, or has come back with what it held
    some.see(some.members)
    some.tick(12)
    assert {key: some.holders(key) for key in pieces} == before
    assert not some.pulls  # it had them still; only strays went
    assert all(one.restorer.status(some.now).missing == 0 for one in some.members.values())


def test_who_comes_back_empty_gets_back_what_it_had() -> None:
    some, pieces = filled()
    before = {key: some.holders(key) for key in pieces}
    some.die("n2")
    some.tick(8)
    some.pulls.clear()
    some.restart("n2")
    some.tick(12)
    assert {key: some.holders(key) for key in pieces} == before
    assert sorted(some.pulls) == sorted(("n2", key) for key in pieces if "n2" in before[key])


def test_one_hears_of_a_roster_and_then_all_do() -> None:
    some = Some(7)
    know(some, roster(some, 6), "n3")
    assert knowing(some) == {"n3"}
    some.tick(20)
    assert knowing(some) == set(some.members)


def test_who_never_heard_of_a_roster_takes_nothing_until_it_has_and_loses_nothing() -> None:
    some = Some(6)
    of = roster(some, 6)
    know(some, of, "n0", "n1", "n2", "n3", "n4")
    notices = vars(some.members["n5"].restorer)["_notices"]
    notices.learn = lambda _: None
    pieces = piece_keys(of)
    for key in pieces:
        for name in some.owners(key):
            if name != "n5":
                some.put(name, key, key, 8)
    # Held by one that knows nothing of it, beside an ordinary stray that all owners confirm.
    some.put("n5", pieces[0], pieces[0], 8)
    plain = next(b"%d" % i for i in range(99) if "n5" not in some.owners(b"%d" % i))
    some.put_at_owners(plain)
    some.put("n5", plain, plain)
    some.tick(20)
    assert "n5" not in knowing(some)
    assert any(isinstance(request, Exchange) for request in some.asked)
    assert "n5" not in some.holders(plain)
    assert "n5" in some.holders(pieces[0])
    assert not any(name == "n5" and key in pieces for name, key in some.pulls)
    del notices.learn
    some.tick(20)
    assert knowing(some) == set(some.members)
    assert at_their_owners(some, pieces)


def test_placing_again_under_one_view_begins_comparing_anew() -> None:
    """Two members agreed that they share nothing; by a new roster they share a piece."""
    some = Some(4)
    some.tick(8)
    of = roster(some, 4)
    views = {one.owners.identity for one in some.members.values() if one.owners}
    know(some, of)
    [key, *_] = piece_keys(of)
    first, second = some.owners(key)
    some.put(first, key, key, 8)
    some.tick(2)
    assert views == {one.owners.identity for one in some.members.values() if one.owners}
    assert some.holders(key) == {first, second}


def test_a_confirmation_from_before_a_roster_was_known_trims_nothing() -> None:
    some, pieces = filled()
    stray = next(n for n in some.members if n not in some.holders(pieces[0]))
    some.put(stray, pieces[0], pieces[0], 8)
    some.keeps = lambda one, _: one.member.node == stray
    some.tick(2)
    know(some, roster(some, 5), stray)  # places again; the round from before is void
    assert some.release()
    assert stray in some.holders(pieces[0])
    some.keeps = lambda _one, _request: False
    some.tick(8)
    assert stray not in some.holders(pieces[0])
    assert at_their_owners(some, pieces)


def test_a_new_roster_does_not_end_or_prolong_the_partition_wait() -> None:
    some, pieces = filled(7, 7)
    some.die("n4", "n5", "n6")
    died = some.now
    know(some, roster(some, 3))
    while some.now + PERIOD < died + 5.0:
        some.tick()
        assert not some.pulls
    know(some, roster(some, 2))
    some.tick(8)
    assert some.pulls
    assert at_their_owners(some, [key for key in pieces if some.holders(key)])
