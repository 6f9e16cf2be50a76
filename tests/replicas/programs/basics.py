"""Everything that works without failures, on any number of ranks; run with 1, 2, 3 and 5.

usage: basics.py [many]

With `many`, the few ranks do what otherwise only many do, with many ranges.
"""

from __future__ import annotations

import sys
from unittest import mock

import blocks
import numpy as np
import pytest
from mpi4py import MPI

from holdfast.errors import BadInput
from holdfast.replicas import Replicas, layout, rendezvous, version, wire
from holdfast.replicas.load import Load

comm = MPI.COMM_WORLD
me, p = comm.rank, comm.size


def shape(base: int) -> tuple[list[int], int, int]:
    counts = [base * ((i * 7 + 1) % 5) // 2 for i in range(p)]
    return counts, sum(counts[:me]), sum(counts)


def requests(total: int, seed: int) -> list[list[tuple[int, int]]]:
    """Ranges that overlap, repeat, are empty, and are anyone's."""
    rng = np.random.default_rng(seed)
    plan = []
    for _ in range(p):
        lows = rng.integers(0, total, 4).tolist()
        some = [(low, int(rng.integers(0, total - low + 1))) for low in lows]
        plan.append([*some, some[0], (0, 0), (total, 0)])
    return plan


def round_trips(permute: bool, distribution: str) -> None:
    sizes = ((64, 1024, 60), (7, 64, 33), (300, 100, 5), (64, "128 KiB", 5000))
    for turn, (size, range_bytes, base) in enumerate(sizes):
        copies = min(3, p)
        store = Replicas(comm, copies, range_bytes, permute, seed=turn, distribution=distribution)
        assert MPI.Comm.Compare(store.comm, comm) == MPI.CONGRUENT  # a duplicate
        counts, first, total = shape(base)
        plan = requests(total, turn)
        mine = plan[me]
        for number in (1, 2):
            data = blocks.fixed(first, counts[me], size, number)
            assert store.submit(data, block_bytes=size) == number
            expected = blocks.wanted(mine, size, number)
            got = store.load(mine)
            assert got.dtype == np.uint8
            assert np.array_equal(got, expected)
            assert np.array_equal(store.load(iter(mine)), expected)
            with mock.patch.object(Load, "_requests", side_effect=AssertionError("asked")):
                assert np.array_equal(store.load_all(plan), expected)
            out = np.empty(len(expected) // size, f"V{size}")
            store.load(mine, out=out)
            assert np.array_equal(out.view(np.uint8), expected)
        memory, whole = store.memory(), total * size * copies
        assert whole <= comm.allreduce(memory.stored) <= 1.25 * whole
        assert 2 * whole <= comm.allreduce(memory.peak) <= 2.5 * whole
        # This rank held all that it asked for, or some of it travelled.
        store.load_all([[(0, total)]] * p)
        assert (comm.allreduce(store.memory().in_flight) > 0) == (copies < p)
        if base < 100:
            assert store.submit_many(blocks.varied(first, counts[me], 5), name="varied") == 1
            got = store.load_many(mine, name="varied")
            ids = [number for low, n in mine for number in range(low, low + n)]
            assert [bytes(block) for block in got] == [
                blocks.varied(number, 1, 5)[0] for number in ids
            ]
            assert np.array_equal(store.load(mine, name="varied"), blocks.wanted(mine, None, 5))
        assert np.array_equal(store.load(mine), blocks.wanted(mine, size, 2))
        assert np.array_equal(store.load([(0, total)]), blocks.fixed(0, total, size, 2))


def buffers() -> None:
    store = Replicas(comm, min(2, p))
    table = np.arange(40, dtype=np.float64).reshape(8, 5) + me
    views = (table, table.T, table[::2, 1:], table.tobytes(), bytearray(table.tobytes()))
    kinds = [table.astype(kind) for kind in ("?", "i2", ">u4", "f4", "c16", "M8[s]", "S3")]
    for view in (*views, *kinds, memoryview(table), table.view("i4,f4")):
        flat = isinstance(view, (bytes, bytearray))
        content = bytes(view) if flat else np.ascontiguousarray(view).tobytes()
        frozen = np.frombuffer(content, np.uint8)  # read-only
        for data in (view, frozen):
            store.submit(data, block_bytes=1)
            assert store.load([(me * len(content), len(content))]).tobytes() == content
    store.submit_many([b"four"] * 3, name="equal")
    assert bytes(store.load([(3 * me + 1, 1)], name="equal")) == b"four"
    assert [bytes(block) for block in store.load_many([(0, 2)], name="equal")] == [b"four"] * 2


def edges() -> None:
    store = Replicas(comm, min(2, p))
    store.submit(b"", name="nothing")
    assert store.load([], name="nothing").nbytes == 0
    store.submit(b"x" * 64 if me == p - 1 else b"", name="one block")
    assert bytes(store.load([(0, 1)] * 2, name="one block")) == b"x" * 128
    # Runs of blocks in another order than the ranks'.
    data = blocks.fixed(10 * (p - 1 - me), 10, 64, 3)
    store.submit(data, first=10 * (p - 1 - me), name="backwards")
    assert np.array_equal(
        store.load([(0, 10 * p)], name="backwards"), blocks.fixed(0, 10 * p, 64, 3)
    )
    store.submit(np.zeros(3_000_000, np.uint8), block_bytes=1_000_000, name="large blocks")
    assert store.load([(1, 1)], name="large blocks").nbytes == 1_000_000


def refuses(text: str, action, *arguments, **options) -> None:
    """All ranks refuse, and the store works on."""
    with pytest.raises(BadInput, match=text):
        action(*arguments, **options)


class Broken:
    """An object whose bytes cannot be had, for a reason of its own."""

    def __array__(self) -> np.ndarray:
        raise RuntimeError("broken")


def mistakes() -> None:
    refuses("no two copies may be on one rank", Replicas, comm, copies=p + 1)
    refuses("pass a communicator", Replicas, "world")
    refuses("at least 1", Replicas, comm, copies=0)
    refuses("copies is 'two'; it must be a whole number", Replicas, comm, copies="two")
    refuses("not a size", Replicas, comm, copies=1, range_bytes="wide")
    refuses("one for each of the", Replicas, comm, copies=1, nodes=["a"] * (p + 1))
    refuses("double hashing", Replicas, comm, copies=1, distribution="C")
    refuses("not iterable", Replicas, comm, copies=1, nodes=7)
    refuses("not a size|must be", Replicas, comm, copies=1, range_bytes=None)
    store = Replicas(comm, 1)
    refuses("there is no data set", store.load, [(0, 1)])
    refuses("not a multiple of the block size, 64", store.submit, b"abc")
    refuses("at least 1", store.submit, b"abc", block_bytes=0)
    refuses("block_bytes is '64'", store.submit, b"abc", block_bytes="64")
    refuses("first is -1; it must be", store.submit, bytes(64), first=-1)
    refuses("its blocks could not be produced", store.submit_many, (1 // 0 for _ in range(2)))
    refuses("a block is a str", store.submit_many, ["text"])
    refuses("not bytes, a buffer", store.submit, object())
    refuses("Python objects", store.submit, np.array([object()]))
    refuses("in this process's memory .broken", store.submit, Broken())
    refuses("a data set must be a str", store.submit, bytes(64), name=["x"])
    refuses("a data set must be a str", store.load, [], name={})
    store.submit(blocks.fixed(10 * me, 10, 64, 1))
    total = 10 * p
    refuses("outside the", store.load, [(total, 1)])
    refuses("outside the", store.load, [(-1, 1)])
    refuses("outside the", store.load, [(0, total + 1)])
    refuses("pairs", store.load, [(1, 2, 3)])
    refuses("pairs", store.load, [1.5, 2])
    refuses("pairs", store.load, 7)
    refuses("pairs", store.load, (1 // 0 for _ in range(2)))
    refuses("not a buffer", store.load, [(0, 1)], out=Broken())
    refuses("out has 1 bytes", store.load, [(0, 1)], out=bytearray(1))
    refuses("writable", store.load, [(0, 1)], out=bytes(64))
    refuses("the plan is for", store.load_all, [[]] * (p + 1))
    refuses("a plan must be a list", store.load_all, None)
    refuses("without gaps", store.submit, bytes(64), first=5 * me + 1)
    if p > 1:
        # What one rank does wrong, or differently, all refuse.
        refuses("outside the", store.load, [(0, 1 + (me == 1) * total)])
        refuses("ranks disagree", store.submit, bytes(640), block_bytes=64 >> (me == 1))
        refuses("ranks disagree", store.load_all, [[(me, 1)]] * p)
        refuses("ranks disagree", store.submit, bytes(64), name="default" if me else "other")
        if me:
            refuses("ranks disagree", store.load, [(0, 1)])
        else:
            refuses("ranks disagree", store.restore_copies)
        refuses("ranks disagree", Replicas, comm, copies=1, seed=me)
    assert np.array_equal(store.load([(0, total)]), blocks.fixed(0, total, 64, 1))
    assert store.versions == {"default": 1}


if sys.argv[1:] == ["many"]:
    wire._RADIX, rendezvous._FEW_RANKS = 2, 1
    layout.TABULATED = version.TABULATED = 0
round_trips(permute=True, distribution="A")
round_trips(permute=False, distribution="B")
buffers()
edges()
mistakes()
print(f"rank {me} is done")
