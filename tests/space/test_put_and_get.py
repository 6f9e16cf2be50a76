"""What comes out is what went in, byte by byte: against NumPy, on real agents."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.leftovers import nothing_left

from holdfast.errors import KeyExists, NotYet
from holdfast.space.elements import Array
from holdfast.space.space import Space

DTYPES = [
    np.dtype(text)
    for text in ("f8", ">f4", "i1", "c16", "M8[ns]", ">m8[s]", "U3", "S5", "?", "f2", "V7", ">u2")
]
DTYPES += [
    np.dtype([("a", "i1"), ("b", "<f8")]),
    np.dtype([("a", "i1"), ("b", ">f8", (2,)), ("c", [("d", "M8[D]")])], align=True),
]
#: Fixtures outlive an example: each defines a variable of its own.
many = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
names = (f"v{n}" for n in itertools.count())


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Look once for all tests: they share their agents."""
    with nothing_left():
        yield


def raw(array: Any) -> bytes:
    """Return all bytes of an array in C order, also those between the fields of structures."""
    array = np.asarray(array)
    return np.ascontiguousarray(array.view(f"V{array.dtype.itemsize}")).tobytes()


@st.composite
def strided(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Random bytes with random strides: turned, thinned out, transposed, or repeated."""
    axes = draw(st.permutations(range(len(shape))))
    thin = [draw(st.sampled_from([1, 1, 2, 3])) for _ in shape]
    turned = [draw(st.booleans()) for _ in shape]
    repeated = [draw(st.sampled_from([False, False, False, True])) for _ in shape]
    sides = [1 if again else n * k for n, k, again in zip(shape, thin, repeated, strict=True)]
    order = [sides[axis] for axis in axes]
    seed = draw(st.integers(0, 2**32))
    size = math.prod(order)
    if dtype.kind == "U":
        letters = np.random.default_rng(seed).integers(0, 0x10FFFF, (size, 3), np.uint32)
        letters[(letters >= 0xD800) & (letters < 0xE000)] = 0
        flat = letters.view(dtype).ravel()
    elif dtype.kind == "b":
        flat = np.random.default_rng(seed).integers(0, 2, size, np.uint8).view(dtype)
    else:
        flat = np.frombuffer(np.random.default_rng(seed).bytes(size * dtype.itemsize), dtype)
    array = flat.reshape(order).transpose(np.argsort(axes))
    steps = zip(thin, turned, repeated, strict=True)
    array = array[tuple(slice(None, None, 1 if r else -k if t else k) for k, t, r in steps)]
    return np.broadcast_to(array, shape)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[slice, ...]:
    sides = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    return tuple(slice(*side) for side in sides)


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    items: list[Any] = []
    for n in shape:
        bound = st.none() | st.integers(-n - 2, n + 2)
        step = st.sampled_from([None, 1, 2, 3, 7, -1, -2, -5, 10**12])
        slices = st.builds(slice, bound, bound, step)
        items.append(draw(slices | slices | st.integers(-n, n - 1)))
    if draw(st.booleans()):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(items))] * 2)))
        items[first:last] = [...]
    elif draw(st.booleans()):
        del items[draw(st.integers(0, len(items))) :]
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def domains(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    sides = st.sampled_from([1, 2, 3, 4, 5, 7, 11, 13])
    shape = tuple(draw(st.lists(sides, min_size=1, max_size=4)))
    fine = [draw(st.integers(-(-n // 3), n)) for n in shape]
    return shape, tuple(fine), draw(st.sampled_from(DTYPES))


@many
@given(domains(), st.data())
def test_any_boxes_of_any_arrays(
    space: Space,
    elsewhere: Space,
    domain: tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]],
    data: st.DataObject,
) -> None:
    shape, cell, dtype = domain
    name = next(names)
    survive = data.draw(st.integers(0, 3))
    space.define(name, shape, dtype, survive=survive, cell=cell)
    whole = data.draw(strided(shape, dtype))
    axis = data.draw(st.integers(0, len(shape) - 1))
    cut = data.draw(st.integers(0, shape[axis]))
    begin = data.draw(st.integers(0, cut))  # the two may overlap
    for first, last, writer in ((begin, shape[axis], space), (0, cut, elsewhere)):
        at = [0] * len(shape)
        at[axis] = first
        box = [slice(None)] * len(shape)
        box[axis] = slice(first, last)
        writer.put(name, 3, whole[tuple(box)], at)
    for reader in (space, elsewhere):
        assert raw(reader.get(name, 3)) == raw(whole)
        box = data.draw(boxes(shape))
        wanted = whole[box]
        assert raw(reader.get(name, 3, box)) == raw(wanted)
        view = reader[name, 3].view(box)
        assert raw(view) == raw(wanted)
        assert view.dtype == dtype
        assert not view.flags.writeable
        index = data.draw(indices(shape))
        found, wanted = reader[name, 3][index], whole[index]
        assert type(found) is type(wanted)
        assert found.shape == wanted.shape
        assert raw(found) == raw(wanted)
        if isinstance(found, np.ndarray):
            assert found.flags.c_contiguous


@many
@given(domains(), st.data())
def test_halos_and_any_out(
    space: Space,
    domain: tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]],
    data: st.DataObject,
) -> None:
    shape, cell, dtype = domain
    name = next(names)
    ghost = [data.draw(st.integers(0, 2)) for _ in shape]
    space.define(name, shape, dtype, survive=0, cell=cell)
    with_ghosts = data.draw(
        strided(tuple(n + 2 * g for n, g in zip(shape, ghost, strict=True)), dtype)
    )
    whole = with_ghosts[tuple(slice(g, g + n) for n, g in zip(shape, ghost, strict=True))]
    space.put(name, 0, with_ghosts, ghost=ghost)
    box = data.draw(boxes(shape))
    halo = [data.draw(st.integers(0, 4)) for _ in shape]
    sides = [(s.start - h, s.stop + h, n) for s, h, n in zip(box, halo, shape, strict=True)]
    clipped = whole[tuple(slice(max(0, low), min(n, high)) for low, high, n in sides)]
    around = np.ix_(*(np.arange(low, high) % n for low, high, n in sides))
    wrapped = whole.view(f"V{dtype.itemsize}")[around].view(dtype)  # with what pads structures
    for edge, wanted in (("clip", clipped), ("wrap", wrapped)):
        out = data.draw(strided(wanted.shape, dtype)).copy(order=data.draw(st.sampled_from("CF")))
        backwards = tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in shape)
        out = out[backwards]
        assert space.get(name, 0, box, out, halo=halo, edge=edge) is out  # type: ignore[arg-type]
        assert raw(out) == raw(wanted)


def test_eight_dimensions(space: Space, elsewhere: Space) -> None:
    shape = (2, 3, 2, 3, 2, 5, 2, 3)
    whole = np.random.default_rng(8).random(shape).transpose()[..., ::-1]
    space.define("eight", shape[::-1], "f8", survive=2, cell=(2, 1, 2, 1, 2, 3, 1, 2))
    space.put("eight", 2**64 - 1, whole)
    index = (slice(None, None, 2), 0, ..., slice(None, None, -1), 1)
    for reader in (space, elsewhere):
        assert raw(reader["eight", 2**64 - 1]) == raw(whole)
        assert raw(reader["eight", 2**64 - 1][index]) == raw(whole[index])


def test_large_cells_come_in_files_and_over_the_network(space: Space, elsewhere: Space) -> None:
    whole = np.random.default_rng(1).random((130, 140, 150))
    space.define("large", whole.shape, "f8", survive=1)
    space.put("large", 0, whole)
    assert len(space.cells("large")) >= 12
    for reader in (space, elsewhere):
        assert raw(reader.get("large", 0)) == raw(whole)
        assert raw(reader["large", 0][::7, 3, ::-3]) == raw(whole[::7, 3, ::-3])


def test_a_view_of_one_local_piece_is_no_copy(space: Space, elsewhere: Space) -> None:
    whole = np.arange(1 << 18, dtype="f8").reshape(512, 512)
    space.define("viewed", whole.shape, "f8", survive=1, cell=(256, 512))
    space.put("viewed", 0, whole)
    for cell in space.cells("viewed"):
        view = space["viewed", 0].view(cell.box)
        assert raw(view) == raw(whole[cell.box])
        with pytest.raises(ValueError, match="read-only"):
            view[0, 0] = 1
        assert owns(view) == ("node-0" not in cell.nodes)
    assert raw(elsewhere["viewed", 0].view()) == raw(whole)  # of two pieces: copied


def owns(array: Array) -> bool:
    """Whether the memory below an array is NumPy's own."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base is None


def test_an_array_of_a_space_is_like_any_other(space: Space) -> None:
    whole = np.arange(60, dtype="i4").reshape(3, 4, 5)
    space.define("alike", whole.shape, "i4")
    space.put("alike", 7, whole)
    version = space["alike", 7]
    assert (version.shape, version.dtype, version.ndim) == (whole.shape, whole.dtype, 3)
    assert (len(version), version.size) == (3, 60)
    assert (np.asarray(version) == whole).all()
    assert np.asarray(version, "f8").dtype == np.float64
    assert (np.sum(version, axis=0) == whole.sum(axis=0)).all()
    assert [raw(row) for row in version] == [raw(row) for row in whole]
    assert isinstance(version[1, 2, 3], np.int32)
    assert repr(version) == "<VersionArray 'alike' 7, shape (3, 4, 5), int32>"


def test_one_point_has_one_value_in_a_version(space: Space, elsewhere: Space) -> None:
    space.define("once", (20, 20), "i8", survive=1, cell=(8, 8))
    whole = np.arange(400).reshape(20, 20)
    space.put("once", 0, whole[:12], at=(0, 0))
    elsewhere.put("once", 0, whole[5:], at=(5, 0))  # overlaps, with the same values
    space.put("once", 0, whole)
    other = whole.copy()
    other[10, 10] = -1
    for writer in (space, elsewhere):
        for first, last in ((0, 20), (9, 11), (10, 20)):
            with pytest.raises(KeyExists, match=r"version 0 of `once` has other values already"):
                writer.put("once", 0, other[first:last], at=(first, 0))
    assert raw(elsewhere.get("once", 0)) == raw(whole)
    space.put("once", 1, other)  # another version is another matter
    assert raw(elsewhere.get("once", 1)) == raw(other)


def test_what_has_not_been_put_is_not_yet(space: Space) -> None:
    space.define("holes", (10, 10), "f4", cell=(5, 5))
    space.put("holes", 0, np.ones((10, 4), "f4"), at=(0, 0))
    assert space.get("holes", 0, np.s_[:, :4]).sum() == 40
    assert space["holes", 0][::9, 0].tolist() == [1, 1]
    with pytest.raises(NotYet, match=r"version 0 of `holes` .* in the box 2:5, 3:5; try again"):
        space.get("holes", 0, np.s_[2:5, 3:5])
    with pytest.raises(NotYet, match="version 1"):
        space["holes", 1].view(np.s_[0:1, 0:1])


def test_ten_thousand_cells(space: Space, elsewhere: Space) -> None:
    space.define("many", (100, 100), "i8", survive=0, cell=(1, 1))
    whole = np.arange(10_000).reshape(100, 100)
    space.put("many", 0, whole)
    assert raw(elsewhere.get("many", 0)) == raw(whole)
    assert len(elsewhere.cells("many")) == 10_000


def test_nothing_is_put_and_got_of_empty_boxes(space: Space) -> None:
    space.define("empty", (5, 6), "f8")
    space.put("empty", 0, np.empty((0, 6)), at=(2, 0))
    assert space.get("empty", 0, np.s_[3:3, :]).shape == (0, 6)
    assert space["empty", 0][4:2].shape == (0, 6)
    assert space["empty", 0].view(np.s_[0:0, 0:0]).shape == (0, 0)


def test_pieces_are_not_among_the_objects(space: Space, shared: Any) -> None:
    with shared.connect() as job:
        job.objects.put("beside", b"x")
        assert [one.key for one in job.objects.list()] == ["beside"]
        assert job.objects.list("@space/") == []
