"""Cells, their order, stripes and keys: without agents."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.placement.windows import unit_of
from holdfast.space.layout import (
    CellLayout,
    CellPart,
    cell_shape,
    hilbert_turns,
    piece_key,
    units_of_stripe,
)

KIB = 1 << 10
SIDES = st.lists(st.integers(1, 13), min_size=1, max_size=4)
STEPS = st.sampled_from([1, 1, 2, 3, 100])


@st.composite
def layouts(draw: st.DrawFn) -> CellLayout:
    shape = draw(SIDES)
    cell = [draw(st.integers(1, n)) for n in shape]
    nodes = draw(st.integers(1, 9))
    survive = draw(st.integers(0, nodes - 1))
    stripe = draw(st.integers(1, nodes - survive))
    return CellLayout(
        "run:T", shape, cell, survive=survive, stripe=stripe, roster="0123abcd", nodes=nodes
    )


def whole(layout: CellLayout) -> list[CellPart]:
    return list(layout.parts([range(n) for n in layout.shape]))


@given(layouts())
def test_cells_are_each_somewhere_and_nowhere_twice(layout: CellLayout) -> None:
    seen = np.zeros(layout.shape, int)
    for part in whole(layout):
        seen[tuple(slice(*side) for side in part.cell)] += 1
        assert part.box == part.cell
        assert part.place == tuple(slice(*side) for side in part.cell)
    assert (seen == 1).all()


@given(layouts(), st.data())
def test_parts_of_any_ranges_are_what_numpy_would_give(
    layout: CellLayout, data: st.DataObject
) -> None:
    domain = np.arange(math.prod(layout.shape)).reshape(layout.shape)
    ranges = [
        range(data.draw(st.integers(0, n)), data.draw(st.integers(0, n)), data.draw(STEPS))
        for n in layout.shape
    ]
    found = np.full([len(one) for one in ranges], -1)
    for part in layout.parts(ranges):
        cell = domain[tuple(slice(*side) for side in part.cell)]
        ends = zip(part.starts, part.counts, part.steps, strict=True)
        wanted = tuple(slice(a, a + (n - 1) * step + 1, step) for a, n, step in ends)
        assert (found[part.place] == -1).all()
        found[part.place] = cell[wanted]
        outer = domain[tuple(slice(*side) for side in part.box)]
        assert outer.flat[0] == cell[wanted].flat[0]
        assert outer.flat[-1] == cell[wanted].flat[-1]
    assert (found == domain[np.ix_(*ranges)]).all()


@given(layouts())
def test_each_cell_is_one_unit_of_one_stripe_in_its_window(layout: CellLayout) -> None:
    units = {}
    starts: dict[int, int] = {}
    nodes, stripe = layout._nodes, layout._stripe
    parts, turns = whole(layout), hilbert_turns(layout.grid)
    for part in parts:
        unit = unit_of(part.head)
        assert unit is not None
        assert (unit.roster, unit.units) == ("0123abcd", stripe)
        assert part.head.decode().rpartition("/")[2] == ",".join(f"{a}:{b}" for a, b in part.cell)
        index = tuple(low // side for (low, _), side in zip(part.cell, layout.cell, strict=True))
        turn = int(turns[index])
        assert unit.unit == turn % stripe
        assert starts.setdefault(turn // stripe, unit.start) == unit.start < nodes
        units[turn] = part.head
    assert sorted(units) == list(range(len(parts)))
    # Windows start at different slots as long as there are any.
    stripes = -(-len(parts) // stripe)
    assert len(set(starts.values())) >= min(stripes, nodes // max(1, nodes // stripes))


@pytest.mark.parametrize("grid", [(16,), (8, 8), (4, 4, 4), (32, 32, 32), (2,) * 8])
def test_cells_that_follow_one_another_on_the_curve_are_neighbours(grid: tuple[int, ...]) -> None:
    turns = hilbert_turns(grid)
    order = np.argsort(turns, axis=None)
    places = np.stack(np.unravel_index(order, grid), axis=1)
    assert (np.abs(np.diff(places, axis=0)).sum(axis=1) == 1).all()


@given(SIDES)
def test_the_curve_skips_what_lies_outside(grid: list[int]) -> None:
    turns = hilbert_turns(grid)
    assert turns.shape == tuple(grid)
    assert sorted(turns.flat) == list(range(math.prod(grid)))
    side = 1 << max(n - 1 for n in grid).bit_length()
    sides = [side if n > 1 else 1 for n in grid]
    if math.prod(sides) <= 1 << 16:
        whole = hilbert_turns(sides)[tuple(map(slice, grid))]
        assert (np.argsort(whole, axis=None) == np.argsort(turns, axis=None)).all()


def test_a_curve_of_more_bits_than_a_word_has() -> None:
    turns = hilbert_turns((1024, *(2,) * 7))
    assert sorted(turns.flat) == list(range(1 << 17))


@pytest.mark.parametrize(
    ("shape", "itemsize", "per_node", "nodes", "cell"),
    [
        ((256, 256, 256), 8, 3, 4, (64, 64, 128)),  # 4 MiB
        ((256, 256, 256), 8, 8, 16, (32, 64, 64)),  # 1 MiB: each node needs some
        ((256, 256, 256), 8, 8, 64, (32, 32, 64)),  # 512 KiB and no less
        ((10,), 8, 4, 4, (10,)),
        ((1, 1), 8 << 20, 4, 4, (1, 1)),  # an element is never cut
    ],
)
def test_cells_are_neither_large_nor_few(
    shape: tuple[int, ...], itemsize: int, per_node: int, nodes: int, cell: tuple[int, ...]
) -> None:
    assert cell_shape(shape, itemsize, per_node, nodes) == cell


@given(SIDES.map(lambda sides: [n * 37 for n in sides]), st.integers(1, 300))
def test_cells_keep_their_bounds(shape: list[int], itemsize: int) -> None:
    cell = cell_shape(shape, itemsize, 4, 4)
    size = math.prod(cell) * itemsize
    assert size <= 4096 * KIB
    assert size >= 512 * KIB or list(cell) == shape
    cells = math.prod(-(-n // side) for n, side in zip(shape, cell, strict=True))
    halved = size * -(-max(cell) // 2) // max(cell)
    assert cells >= 16 or halved < 512 * KIB


def test_stripes_have_twice_as_many_units_as_copies_where_there_are_nodes() -> None:
    assert [units_of_stripe(0, n) for n in (1, 8)] == [1, 1]
    assert [units_of_stripe(1, n) for n in (2, 3, 4, 5, 9)] == [1, 2, 3, 4, 4]
    assert [units_of_stripe(2, n) for n in (3, 8, 99)] == [1, 6, 6]


def test_the_key_of_a_piece() -> None:
    layout = CellLayout(
        "run:T", (100, 30), (64, 16), survive=1, stripe=1, roster="0123abcd", nodes=2
    )
    part = list(layout.parts([range(60, 70), range(16, 30)], (5, 0)))[1]
    head, _, tail = piece_key(part, 17).partition(b"\0")
    assert head.endswith(b"/64:100,16:30")
    assert tail == struct.pack(">QIIIIH", 17, 0, 6, 0, 14, 0)
    assert part.place == (slice(9, 15), slice(0, 14))


def test_versions_and_boxes_of_a_cell_have_keys_of_their_own() -> None:
    layout = CellLayout("run:T", (8, 8), (8, 8), survive=0, stripe=1, roster="0123abcd", nodes=1)
    boxes = [
        [range(a, b), range(c, d)]
        for a, b, c, d in itertools.product(range(3), range(3, 6), range(2), range(2, 4))
    ]
    parts = [part for box in boxes for part in layout.parts(box)]
    keys = {piece_key(part, version) for part in parts for version in (0, 1, 2**64 - 1)}
    assert len(keys) == 3 * len(boxes)
