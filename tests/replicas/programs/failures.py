"""Failures one by one: damage, loss of all copies, spares. usage: failures.py SCENARIO"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import blocks
import numpy as np
import pytest
from mpi4py import MPI

from holdfast import mpi
from holdfast.errors import BadInput, BlocksLost, Full, RanksFailed
from holdfast.replicas import Replicas, Shares
from holdfast.replicas.rendezvous import Rendezvous
from holdfast.replicas.submission import Submission
from holdfast.replicas.wire import Wire

world = MPI.COMM_WORLD
EACH, SIZE = 50, 64


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def filled(comm: MPI.Intracomm | mpi.Crew, **options) -> Replicas:
    store = Replicas(comm, range_bytes=640, **options)
    store.submit(blocks.fixed(EACH * store.comm.rank, EACH, SIZE, 1), block_bytes=SIZE)
    return store


def notice(store: Replicas) -> None:
    """Go on until the death of a rank is noticed."""
    try:
        while True:
            store.load([])
    except RanksFailed:
        pass


def recovered(store: Replicas) -> None:
    """Wait until the death of a rank is noticed, and recover from it."""
    notice(store)
    store.recover()


def reload(first: int, count: int) -> np.ndarray:
    return blocks.fixed(first, count, SIZE, 1)


def all_there(store: Replicas, total: int, **options) -> None:
    got = store.load([(0, total)], **options)
    assert np.array_equal(got, blocks.fixed(0, total, SIZE, 1))


def damage() -> MPI.Intracomm:
    store = filled(world, copies=2)
    total = EACH * world.size
    held = store._versions["default"].data
    # One byte of every range on rank 1: found on load, served from elsewhere, healed by restoring.
    for address in held.addresses.tolist() if world.rank == 1 else ():
        ctypes.memset(address + 3, 255, 1)
    all_there(store, total)
    all_there(store, total)
    restored = store.restore_copies()
    assert restored.new_copies == len(ranges_of(store, 1))
    assert not restored.lost
    held = store._versions["default"].data
    assert not len(held.damaged(np.arange(len(held.ids))))
    # The same range on every rank: gone, and said so.
    for number, address in zip(held.ids.tolist(), held.addresses.tolist(), strict=True):
        if number == 7:
            ctypes.memset(address, 255, 2)
    first = int(store._versions["default"].layout.whole(np.array([7])).first[0])
    with pytest.raises(BlocksLost) as caught:
        store.load([(0, total)])
    assert caught.value.ranges == [(first, 10)]
    all_there(store, total, reload=reload)
    assert store.restore_copies().lost == {"default": [(first, 10)]}
    assert store.restore_copies(reload=reload).lost == {}
    all_there(store, total)
    return store.comm


def damage_anywhere() -> MPI.Intracomm:
    """Damage is found in whole ranges and in parts of them, in small messages and in large ones."""
    for range_bytes in (640, 128 << 10):
        each = 5 * range_bytes // SIZE
        total = each * world.size
        per_range = range_bytes // SIZE
        parts = [(low + 1, per_range - 2) for low in range(0, total, per_range)]
        for asked in ([(0, total)], parts):
            store = Replicas(world, copies=2, range_bytes=range_bytes)
            store.submit(blocks.fixed(each * world.rank, each, SIZE, 1), block_bytes=SIZE)
            held = store._versions["default"].data
            # The last block that is asked for.
            for address in held.addresses.tolist() if world.rank == 1 else ():
                ctypes.memset(address + range_bytes - SIZE - 1, 255, 1)
            expected = blocks.wanted(asked, SIZE, 1)
            # Found by others, who have it from elsewhere, and by the rank itself.
            got = store.load(asked if world.rank != 1 else [])
            assert np.array_equal(got, expected) or world.rank == 1
            assert np.array_equal(store.load_all([asked] * world.size), expected)
            assert store.restore_copies().new_copies == len(ranges_of(store, 1))
    return store.comm


def damage_on_the_way() -> MPI.Intracomm:
    """A byte that changes between two ranks is found in whole ranges and in parts of them."""
    exchange = Wire.exchange
    for range_bytes in (640, 128 << 10):
        each = 5 * range_bytes // SIZE
        total, per_range = each * world.size, range_bytes // SIZE
        parts = [(low + 1, per_range - 2) for low in range(0, total, per_range)]
        for asked in ([(0, total)], parts):
            store = Replicas(world, copies=2, range_bytes=range_bytes)
            store.submit(blocks.fixed(each * world.rank, each, SIZE, 1), block_bytes=SIZE)
            left = iter([True] if world.rank == 2 else [])
            Wire.exchange = spoiling(exchange, left)
            got = store.load(asked)
            Wire.exchange = exchange
            assert np.array_equal(got, blocks.wanted(asked, SIZE, 1))
            assert not next(left, False)
            assert store.restore_copies().new_copies > 0
    return store.comm


def spoiling(exchange: Callable[..., int], times: Iterator[bool]) -> Callable[..., int]:
    """Change a byte of what has come in, before anybody looks at it, as often as `times` says."""

    def spoil(wire: Wire, *pairs, arrived=lambda _low, _high: None) -> int:
        def spoilt(low: int, high: int) -> None:
            if high > low and next(times, False):
                address = int(pairs[0][1].addresses[low])
                ctypes.memset(address, 255 ^ ctypes.c_uint8.from_address(address).value, 1)
            arrived(low, high)

        return exchange(wire, *pairs, arrived=spoilt)

    return spoil


def damage_restored() -> MPI.Intracomm:
    """Damage that nobody has found yet is not copied when copies are restored."""
    for range_bytes in (640, 128 << 10):
        store = Replicas(world, copies=3, range_bytes=range_bytes)
        each = 5 * range_bytes // SIZE
        store.submit(blocks.fixed(each * world.rank, each, SIZE, 1), block_bytes=SIZE)
        held = store._versions["default"].data
        for address in held.addresses.tolist() if world.rank == 1 else ():
            ctypes.memset(address + 7, 255, 1)
        # What rank 2 holds counts as lost, and rank 1 is asked for some of it.
        for slot in np.flatnonzero(store._versions["default"].places == 2):
            ranges = ranges_of(store, 2)
            store._versions["default"].condemn(np.full(len(ranges), slot), ranges)
        assert store.restore_copies().new_copies > len(ranges_of(store, 2))
        held = store._versions["default"].data
        whole = not len(held.damaged(np.arange(len(held.ids))))
        assert whole or world.rank == 1
        expected = blocks.fixed(0, each * world.size, SIZE, 1)
        assert np.array_equal(store.load([(0, each * world.size)]), expected)
    return store.comm


def damage_varied() -> MPI.Intracomm:
    """Blocks of different lengths: damage to the lengths, then to the blocks, on one rank each."""
    store = Replicas(world, copies=2, range_bytes=640)
    total = EACH * world.size
    store.submit_many(blocks.varied(EACH * world.rank, EACH, 1))
    expected = blocks.wanted([(0, total)], None, 1)
    for victim, part in ((1, "index"), (2, "data"), (1, "index")):
        held = getattr(store._versions["default"], part)
        if world.rank == victim:
            for address in held.addresses[held.sizes > 3].tolist():
                ctypes.memset(address + 2, 77, 1)
        assert np.array_equal(store.load([(0, total)]), expected)
        assert store.restore_copies().new_copies > 0
        held = getattr(store._versions["default"], part)
        assert not len(held.damaged(np.arange(len(held.ids))))
    return store.comm


def memory() -> MPI.Intracomm:
    """One rank runs out of memory: all learn of it, and what there was before stands."""
    store = filled(world, copies=2)
    total = EACH * world.size
    many = 3000
    store.submit_many(
        [bytes(30_000)] * many if world.rank == 0 else [b"x"], name="varied", first=None
    )
    large = np.zeros(100 << 20, np.uint8)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if world.rank == 1:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (60 << 20), limits[1]))
    with pytest.raises(Full, match="the old version is kept"):
        store.submit(large)
    with pytest.raises(Full, match="the old version is kept"):
        store.submit_many([b"x"] if world.rank == 1 else [large.data] * 2)
    with pytest.raises(BadInput, match="not enough memory for the blocks"):
        store.load([(0, total)] * (100_000 if world.rank == 1 else 1))
    all_there(store, total)
    # How much blocks of different lengths take is known too late to refuse: the others are woken.
    with pytest.raises(Full if world.rank == 1 else RanksFailed):
        store.load([(0, many)], name="varied")
    recovery = store.recover()
    assert (recovery.ranks, recovery.lost) == ((), {})
    resource.setrlimit(resource.RLIMIT_AS, limits)
    assert store.load([(0, many)], name="varied").nbytes == 30_000 * many
    all_there(store, total)
    return store.comm


def ranges_of(store: Replicas, rank: int, name: str = "default") -> np.ndarray:
    version = store._versions[name]
    slot = int(np.flatnonzero(version.places == rank)[0])
    return version.placement.held_by(slot, version.settled)


def loss() -> MPI.Intracomm:
    """All holders of some blocks die: ranks 0 and 3 of 6 hold the same."""
    total = EACH * world.size
    store = filled(world, copies=2, nodes=list(range(world.size)))
    held = [rank for rank in range(6) if 5 in ranges_of(store, rank)]
    if world.rank in held:
        die()
    recovered(store)
    while store.comm.size > 4:
        recovered(store)
    lost = store.last_recovery.lost["default"]
    assert lost
    with pytest.raises(BlocksLost) as caught:
        store.load([(0, total)])
    assert caught.value.ranges == lost
    # Ranks that ask for nothing lost get their blocks while others learn of the loss.
    safe = next(n for n in range(total) if not any(f <= n < f + c for f, c in lost))
    if store.comm.rank == 1:
        assert np.array_equal(store.load([(safe, 1)]), blocks.fixed(safe, 1, SIZE, 1))
    else:
        with pytest.raises(BlocksLost):
            store.load([lost[0]])
    assert store.restore_copies().lost == {"default": lost}
    with pytest.raises(BlocksLost):
        store.load([(0, total)])
    all_there(store, total, reload=reload)
    assert store.restore_copies(reload=reload).lost == {}
    all_there(store, total)
    assert store.submit(bytes(64)) == 2
    return store.comm


def host() -> MPI.Intracomm:
    """All ranks of a host die, which would lose blocks if hosts were not told apart."""
    hosts = [0, 1, 2] * 2
    total = EACH * world.size
    store = filled(world, copies=2, nodes=hosts)
    store.submit_many(blocks.varied(EACH * world.rank, EACH, 1), name="varied")
    held = sum(len(ranges_of(store, rank, name)) for rank in (1, 4) for name in store.versions)
    if hosts[world.rank] == 1:
        die()
    recovered(store)
    while store.comm.size > 4:
        recovered(store)
    assert store.last_recovery.versions == {"default": 1, "varied": 1}
    assert store.last_recovery.lost == {}
    restored = store.restore_copies()
    assert (restored.copies, restored.new_copies, restored.lost) == (2, held, {})
    all_there(store, total)
    got = store.load([(0, total)], name="varied")
    assert np.array_equal(got, blocks.wanted([(0, total)], None, 1))
    return store.comm


def few() -> MPI.Intracomm:
    """Fewer ranks are left than a block had copies: each has all of it, and the store says so."""
    total = EACH * world.size
    store = filled(world, copies=3)
    for left, victim in ((3, 1), (2, 0), (1, 1)):
        if store.comm.rank == victim:
            die()
        recovered(store)
        restored = store.restore_copies()
        assert (store.copies, restored.copies, restored.lost) == (left, left, {})
        assert len(store._versions["default"].data.ids) == 5 * world.size
        all_there(store, total)
    assert store.submit(bytes(64)) == 2
    return store.comm


def together() -> MPI.Intracomm:
    """Ranks die between the parts of a submission of two data sets: both or neither stand."""
    store = Replicas(world, copies=2, range_bytes=640)
    totals = {}

    def submit() -> dict[str, int]:
        version, rank = store.versions.get("state", 0) + 1, store.comm.rank
        totals[version] = EACH * store.comm.size
        return store.submit_together(
            {
                "state": blocks.fixed(EACH * rank, EACH, SIZE, version),
                "step": np.array([version]),
            },
            block_bytes={"state": SIZE, "step": 8},
        )

    for wrong in ({}, {"state": b"x"}, {"state": bytes(SIZE), "step": 5}, 5):
        with pytest.raises(BadInput):
            store.submit_together(wrong)
    with pytest.raises(BadInput, match="'stat'"):
        store.submit_together({"state": bytes(8)}, block_bytes={"stat": 8})
    assert store.versions == {}
    assert submit() == {"state": 1, "step": 1}
    stages = ((Submission, "send", 1), (Submission, "send", 2), (Rendezvous, "conclude", 3))
    for owner, method, call in stages:
        if store.comm.rank == 1:
            dying(owner, method, call)
        try:
            submit()
            notice(store)
        except RanksFailed:
            pass
        recovery = store.recover()
        version = recovery.versions["state"]
        assert recovery.versions == {"state": version, "step": version}, (method, recovery)
        got = store.load([(0, totals[version])], name="state")
        assert np.array_equal(got, blocks.fixed(0, totals[version], SIZE, version))
        step = store.load([(0, totals[version] // EACH)], name="step").view(np.int64)
        assert (step == version).all()
        assert submit() == {"state": version + 1, "step": version + 1}
    return store.comm


def dying(owner: type, method: str, call: int) -> None:
    """Die when `method` is called for that time."""
    real, calls = getattr(owner, method), iter(range(1, call + 1))

    def counted(*arguments):
        if next(calls) == call:
            die()
        return real(*arguments)

    setattr(owner, method, counted)


def guarded() -> MPI.Intracomm:
    """The program's own calls: a death becomes RanksFailed, other errors stay what they are."""
    store = filled(world, copies=2)
    with pytest.raises(ValueError, match="four"), store.guard():
        int("four")
    if world.rank == 2:
        die()
    with pytest.raises(RanksFailed, match=r"call recover\(\)") as caught, store.guard():
        store.comm.Barrier()
    # Whoever was woken up by another may not know yet who died.
    assert set(caught.value.ranks) <= {2}
    known = store.recover().ranks
    assert (known, store.comm.size) == ((2,), world.size - 1)
    assert (2,) in store.comm.allgather(caught.value.ranks)
    all_there(store, EACH * world.size)
    return store.comm


def spares() -> mpi.Crew:
    """Of 7 ranks 2 are spares; ranks die one after another, the third time nobody can step in."""
    crew = mpi.split_spares(world, 2)
    total, turn = EACH * 5, 0
    if crew.spare:
        store = Replicas.join(crew)
        assert store is not None
        turn = int(store.comm.recv(source=4))
        settle(store, total)
    else:
        store = filled(crew, copies=2)
    shares = Shares([EACH] * 5)
    while turn < 3:
        victim = (1, 0, 2)[turn]
        if store.comm.rank == victim:
            die()
        before = store.comm.size
        notice(store)
        recovery = store.recover()
        turn += 1
        assert recovery.ranks == (victim,)
        assert recovery.lost == {}
        if turn <= 2:
            assert (store.comm.size, recovery.joined) == (before, (victim,))
            if store.comm.rank == 4:
                store.comm.send(turn, dest=victim)
        else:
            assert (store.comm.size, recovery.joined) == (before - 1, ())
            shares.lose(recovery.ranks)
        settle(store, total)
    return crew


def joining_spares() -> mpi.Crew:
    """Spares die while they take the place of a dead rank; the next in line takes it."""
    spares = 6
    crew = mpi.split_spares(world, spares)
    working = world.size - spares
    total, turn = EACH * working, 0
    if crew.spare:
        # Every other spare dies, at another point of its way in.
        line = world.rank - working
        if line % 2 == 0:
            die_at_event((5, 60, 150)[line // 2])
        store = Replicas.join(crew)
        sys.setprofile(None)
        if line % 2 == 0:
            die()
        if store is None:
            return crew
        turn = 1 + line // 2
    else:
        store = filled(crew, copies=3)
    all_there(store, total)
    store.restore_copies()
    while turn < 3:
        if store.comm.rank == turn:
            die()
        recovered(store)
        while store.comm.size < working:
            # A spare died after it had joined; another one takes over.
            recovered(store)
        turn += 1
        all_there(store, total)
        store.restore_copies()
    return crew


def die_at_event(number: int) -> None:
    """End this process when MPI has woken it and so many functions have been called."""
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        if count or (event == "call" and frame.f_code.co_name == "regroup"):
            count += event in ("call", "c_call")
            if count > number:
                die()

    sys.setprofile(watch)


def idle_spares() -> mpi.Crew:
    """A spare dies, nobody else does: the others finish, and the spare that is left is let go."""
    crew = mpi.split_spares(world, 2)
    if crew.spare:
        if world.rank == world.size - 1:
            die()
        assert Replicas.join(crew) is None
    else:
        all_there(filled(crew, copies=2), EACH * (world.size - 2))
    return crew


def settle(store: Replicas, total: int) -> None:
    all_there(store, total)
    restored = store.restore_copies()
    assert restored.copies == 2
    assert restored.new_copies > 0
    all_there(store, total)


mpi.finish(globals()[sys.argv[1]]())
