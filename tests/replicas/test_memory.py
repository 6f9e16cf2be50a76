"""Memory of versions and the checksums of what is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast._core import crc32c, crc32c_at
from holdfast.replicas.buffers import Buffers
from holdfast.replicas.held_ranges import HeldRanges, checksums
from holdfast.replicas.wire import address_of

MIB = 1 << 20


@settings(deadline=None, max_examples=50)
@given(data=st.data(), seed=st.integers(0, 100))
def test_checksums_of_pieces_are_those_of_their_bytes(data: st.DataObject, seed: int) -> None:
    memory = np.random.default_rng(seed).integers(0, 256, 20_000, np.uint8)
    piece = st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)).map(sorted)
    pieces = data.draw(st.lists(piece, max_size=8))
    low, high = np.array(pieces, np.int64).reshape(-1, 2).T
    found = checksums(address_of(memory) + low, high - low)
    assert found.tolist() == [crc32c(memory[a:b].tobytes()) for a, b in pieces]


def test_arrays_that_do_not_fit_each_other_are_refused() -> None:
    words, values = np.zeros(3, np.int64), np.zeros(2, np.uint32)
    with pytest.raises(ValueError, match="8 bytes each"):
        crc32c_at(words.data, words.data, values.data)


def lazily_freed() -> int:
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if "LazyFree" in line) * 1024


def test_memory_that_was_given_back_is_used_again() -> None:
    buffers = Buffers()
    first, other = buffers.take(5 * MIB), buffers.take(9 * MIB)
    first[:] = 1
    before, address = lazily_freed(), address_of(first)
    buffers.give([first], most=8 * MIB)
    assert buffers.idle == 5 * MIB
    assert lazily_freed() > before  # the system may take it
    assert address_of(buffers.take(10 * MIB)) != address
    part = buffers.take(2 * MIB)  # cut off from the end of it
    assert address <= address_of(part) - 3 * MIB + 8192 <= address + 8192
    assert (address_of(part) - address) % 4096 == 0
    assert part.nbytes + buffers.idle == 5 * MIB
    part[:], first[: buffers.idle] = 2, 1
    buffers.give([part], most=8 * MIB)
    assert buffers.idle == 5 * MIB
    again = buffers.take(3 * MIB - 10000)
    assert address_of(again) == address
    assert buffers.idle == part.nbytes
    buffers.give([again, other], most=9 * MIB)
    assert buffers.idle == 9 * MIB  # the oldest went
    small = buffers.take(100)
    buffers.give([small], most=9 * MIB)
    assert buffers.idle == 9 * MIB


def test_memory_is_laid_aside_once() -> None:
    buffers = Buffers()
    buffers.reserve(100)
    assert buffers.idle == 0  # not worth it
    buffers.reserve(64 * MIB)
    assert buffers.idle == 64 * MIB
    before = lazily_freed()
    assert before >= 48 * MIB  # there, and the system may take it; it counts a little later
    buffers.reserve(40 * MIB)
    assert buffers.idle == 64 * MIB
    buffers.take(48 * MIB)[:] = 1
    assert lazily_freed() < before  # it came from there


def test_no_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        Buffers().take(1 << 60)


def test_what_was_restored_joins_what_is_held() -> None:
    buffers = Buffers()
    old = HeldRanges(np.array([1, 4, 6]), np.array([10, 20, 30]), buffers)
    new = HeldRanges(np.array([2, 5]), np.array([7, 8]), buffers)
    merged = old.changed(np.array([True, False, True]), new)
    assert merged.ids.tolist() == [1, 2, 5, 6]
    assert merged.sizes.tolist() == [10, 7, 8, 30]
    assert merged.addresses[merged.find(np.array([6, 2]))].tolist() == [
        old.addresses[2],
        new.addresses[0],
    ]
    assert len(merged.buffers) == 2
    assert len(merged.changed(np.array([False, True, True, False]), new).buffers) == 2
