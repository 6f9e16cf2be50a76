"""Permutations, placement, layouts and shares: pure functions, checked against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInput
from holdfast.replicas.layout import Layout, joined
from holdfast.replicas.permutation import Permutation, permuted_by_each
from holdfast.replicas.placement import Placement
from holdfast.replicas.shares import Shares
from holdfast.replicas.version import Version

sizes = st.integers(1, 3000)


@settings(deadline=None)
@given(n=sizes, seed=st.integers(0, 2**31))
def test_a_permutation_is_one_and_has_an_inverse(n: int, seed: int) -> None:
    values = np.arange(n)
    permutation = Permutation(n, seed)
    image = permutation.forward(values)
    assert sorted(image.tolist()) == values.tolist()
    assert np.array_equal(permutation.inverse(image), values)


def test_neighbours_are_torn_apart() -> None:
    values = np.arange(100_000)
    image = Permutation(100_000, 3).forward(values)
    assert (np.abs(np.diff(image)) < 100).mean() < 0.01
    assert (Permutation(100_000, 4).forward(values) == image).mean() < 0.01  # another seed


@settings(deadline=None, max_examples=30)
@given(p=st.integers(1, 60), seed=st.integers(0, 1000))
def test_each_key_has_a_permutation_of_its_own(p: int, seed: int) -> None:
    keys = np.arange(20)
    rows = np.stack([permuted_by_each(keys, k, p, seed) for k in range(p)], axis=1)
    assert all(sorted(row) == list(range(p)) for row in rows.tolist())
    if p > 10:
        assert len({tuple(row) for row in rows.tolist()}) > 10


placements = st.builds(
    lambda p, extra, n, seed, permute, kind, per_host: Placement(
        n, np.arange(p) // per_host, min(p, extra), seed, permute, kind
    ),
    p=st.integers(1, 24),
    extra=st.integers(1, 5),
    n=st.integers(0, 100),
    seed=st.integers(0, 50),
    permute=st.booleans(),
    kind=st.sampled_from("AB"),
    per_host=st.integers(1, 5),
)


@given(placement=placements, data=st.data())
@settings(max_examples=40, deadline=None)
def test_copies_are_apart_and_only_lost_ones_move(
    placement: Placement, data: st.DataObject
) -> None:
    slots, copies = placement.slots, placement.copies
    ids = np.arange(placement.ranges)
    nobody = np.zeros(slots, np.bool_)
    before = placement.holders(ids, nobody)
    # L(x, k) of the paper, section IV-B.
    assert before.tolist() == [
        [(pi * slots // placement.ranges + k * slots // copies) % slots for k in range(copies)]
        for pi in placement.order(ids).tolist()
    ]
    if placement.ranges:
        load = np.bincount(before.ravel(), minlength=slots)
        assert load.max() - load.min() <= copies
        hosts = placement.hosts[before]
        if np.bincount(placement.hosts).max() <= slots // copies:
            assert all(len(set(row)) == copies for row in hosts.tolist())
    dead = nobody.copy()
    for victim in data.draw(st.permutations(range(slots)))[: data.draw(st.integers(0, slots))]:
        dead[victim] = True
        after = placement.holders(ids, dead)
        wanted = min(copies, int((~dead).sum()))
        for old, new in zip(before.tolist(), after.tolist(), strict=True):
            held = {slot for slot in new if slot >= 0}
            assert len(held) == wanted
            assert not dead[list(held)].any()
            assert {slot for slot in old if slot >= 0 and not dead[slot]} <= held
        for slot in range(slots):
            holds = ids[(after == slot).any(axis=1)]
            assert np.array_equal(placement.held_by(slot, dead), holds)
        before = after


def test_new_copies_go_to_other_hosts_and_to_all_ranks() -> None:
    hosts = np.arange(24) // 4
    chosen = []
    for kind in "AB":
        placement = Placement(2400, hosts, 3, 0, True, kind)
        dead = np.zeros(24, np.bool_)
        dead[5] = True
        ids = placement.held_first_by(dead)
        after = placement.holders(ids, dead)
        assert all(len(set(row)) == 3 for row in hosts[after].tolist())
        old = placement.first_slots(ids)
        new = after[~(after[:, :, None] == old[:, None, :]).any(axis=2)]
        assert len(new) == len(ids)
        # Not on the hosts of the two copies that are left, nor on the dead rank.
        assert set(new.tolist()) == {*range(24)} - {5, *range(12, 16), *range(20, 24)}
        chosen.append(new.tolist())
    assert chosen[0] != chosen[1]


def served(permute: bool, seed: int, requests: list[tuple[int, int]], dead: list[int]) -> list[int]:
    """Requests that each of 16 ranks serves: of (requester, range), 64 ranges a rank, 4 copies."""
    each = np.full(16, 64)
    layout = Layout(np.cumsum(each) - each, each, 1)
    placement = Placement(layout.ranges, np.arange(16), 4, seed, permute, "A")
    version = Version(1, layout, placement, np.arange(16), block_bytes=64)
    version.lose(np.array(dead, np.int64))
    ranks = np.where(np.isin(np.arange(16), dead), -1, np.arange(16))
    who, ranges = np.array(requests).T
    servers = version.servers(ranges, who, ranks)
    assert (version.holders(ranges) == servers[:, None]).any(axis=1).all()  # a live copy
    return np.bincount(servers, minlength=16).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_serving_is_spread_over_the_live_copies(seed: int) -> None:
    shifted = [(rank, (rank * 64 + 64 + x) % 1024) for rank in range(16) for x in range(64)]
    assert served(False, seed, shifted, []) == [64] * 16
    assert max(served(True, seed, shifted, [])) < 1.25 * 64
    # All of them want the same: in order four ranks can serve it, permuted all.
    same = [(rank, x) for rank in range(16) for x in range(64)]
    assert max(served(False, seed, same, [])) <= 1.25 * 256
    assert max(served(True, seed, same, [])) < 2 * 64
    # What a dead rank had, divided among the others.
    divided = [(x % 13 + 3, 64 * 2 + x) for x in range(64)]
    assert sum(count > 0 for count in served(False, seed, divided, [2])) == 3
    assert sum(count > 0 for count in served(True, seed, divided, [2])) > 12


@settings(deadline=None, max_examples=50)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    per_range=st.integers(1, 9),
    data=st.data(),
)
def test_requests_are_cut_at_ranges(counts: list[int], per_range: int, data: st.DataObject) -> None:
    count = np.array(counts)
    layout = Layout(np.cumsum(count) - count, count, per_range)
    if data.draw(st.booleans()):
        layout._table = None  # as if there were too many ranges for a table
    total = sum(counts)
    borders = {start for c, first in zip(counts, np.cumsum(count) - count, strict=True)
               for start in range(first, first + c, per_range)}  # fmt: skip
    assert layout.ranges == len(borders)
    request = st.integers(0, total).flatmap(
        lambda low: st.tuples(st.just(low), st.integers(0, total - low))
    )
    asked = data.draw(st.lists(request, max_size=6))
    first, length = np.array(asked, np.int64).reshape(-1, 2).T
    pieces, parts = layout.cut(first, length)
    got = [list(range(f, f + c)) for f, c in zip(pieces.first, pieces.counts, strict=True)]
    assert [n for piece in got for n in piece] == [n for f, c in asked for n in range(f, f + c)]
    for piece, number in zip(got, pieces.ranges.tolist(), strict=True):
        assert not borders & set(piece[1:])
        assert layout.range_at(np.array(piece)).tolist() == [number] * len(piece)
    # As many pieces as ranges that a request touches, in the order of the requests.
    touched = [len({n for n in borders if f < n < f + c}) + (c > 0) for f, c in asked]
    assert parts.tolist() == touched


def test_runs_must_follow_on_one_another() -> None:
    with pytest.raises(BadInput, match="rank 1 start at 6, but those before it end at 5"):
        Layout(np.array([0, 6]), np.array([5, 5]), 2)
    Layout(np.array([5, 0]), np.array([5, 5]), 2)


def test_neighbours_are_joined() -> None:
    assert joined(np.array([0, 5, 12]), np.array([5, 2, 1])) == [(0, 7), (12, 1)]
    assert joined(np.array([], np.int64), np.array([], np.int64)) == []


@settings(deadline=None, max_examples=50)
@given(counts=st.lists(st.integers(0, 50), min_size=1, max_size=9), data=st.data())
def test_the_work_of_the_dead_is_shared_evenly(counts: list[int], data: st.DataObject) -> None:
    shares = Shares(counts)
    everything = sorted(range(sum(counts)))
    while len(shares) > 1:
        dead = data.draw(st.sets(st.integers(0, len(shares) - 1), min_size=1, max_size=2))
        if len(dead) == len(shares):
            break
        lost = sum(c for rank in dead for _, c in shares.of(rank))
        gains = shares.lose(dead)
        amounts = [sum(c for _, c in gain) for gain in gains]
        assert sum(amounts) == lost
        assert max(amounts) - min(amounts) <= 1
        held = [
            n for rank in range(len(shares)) for f, c in shares.of(rank) for n in range(f, f + c)
        ]
        assert sorted(held) == everything


def test_shares_refuse_nonsense() -> None:
    with pytest.raises(BadInput, match="cannot be negative"):
        Shares([1, -1])
    with pytest.raises(BadInput, match="not all among"):
        Shares([1, 1]).lose([2])
    with pytest.raises(BadInput, match="none is left"):
        Shares([1, 1]).lose([0, 1])
