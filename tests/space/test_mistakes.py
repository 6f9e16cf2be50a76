"""Each mistake of a program is told in a sentence that says what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.leftovers import nothing_left

import holdfast
from holdfast.errors import BadInput, HoldfastError, KeyExists, NotEnoughNodes, NotFound
from holdfast.space.space import Space

WHOLE = np.zeros((4, 5, 6))


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Look once for all tests: they share their agents."""
    with nothing_left():
        yield


@pytest.fixture(scope="module", autouse=True)
def _defined(space: Space) -> None:
    space.define("T", (4, 5, 6), "f8", dims="zyx", attrs={"units": "K", "from": [1, 2.5]})
    space.define("flat", 10, "i4")
    space.put("T", 0, WHOLE)


def define(**changed: Any) -> Callable[[Space], object]:
    arguments = {"name": "new", "shape": (4, 5), "dtype": "f8", **changed}
    return lambda space: space.define(**arguments)


class Unreadable:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError("it has gone")


MISTAKES: list[tuple[Callable[[Space], object], type[HoldfastError], str]] = [
    (define(name="a/b"), BadInput, "'a/b' is no name for a variable; use 1 to 64 letters"),
    (define(name=7), BadInput, "7 is no name for a variable"),
    (define(name="a" * 65), BadInput, "is no name for a variable"),
    (define(shape=()), BadInput, r"the shape of `new` is \(\); use 1 to 8 dimensions"),
    (define(shape=(1,) * 9), BadInput, "use 1 to 8 dimensions"),
    (define(shape=(3, 0)), BadInput, "at least one element each"),
    (define(shape=(3, -1)), BadInput, "at least one element each"),
    (define(shape=(3, 2.5)), BadInput, "use whole numbers"),
    (define(shape="zyx"), BadInput, "use whole numbers"),
    (define(shape=None), BadInput, "use whole numbers"),
    (define(dtype=None), BadInput, "the dtype of `new` cannot be read"),
    (define(dtype="f9"), BadInput, "the dtype of `new` cannot be read"),
    (define(dtype="f8,,"), BadInput, "the dtype of `new` cannot be read"),
    (define(dtype=object), BadInput, "which holds Python objects; use numbers"),
    (define(dtype=[("a", object)]), BadInput, "which holds Python objects"),
    (define(dtype="U"), BadInput, "which has no fixed size of its own"),
    (define(dtype=("f8", (2,))), BadInput, "which has no fixed size of its own"),
    (
        define(dtype={"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
        BadInput,
        "NumPy cannot write it down for others",
    ),
    (define(dims="xyz"), BadInput, "has 2 dimensions, but dims names 3: 'xyz'"),
    (define(dims="xx"), BadInput, "use a different name for each"),
    (define(dims=(1, 2)), BadInput, "use a different name for each"),
    (define(dims=5), BadInput, "use a different name for each"),
    (define(attrs={"when": np.datetime64(0, "s")}), BadInput, "use what JSON has"),
    (define(attrs={"n": 1 << 70}), BadInput, "use what JSON has"),
    (define(attrs=7), BadInput, "use what JSON has"),
    (define(survive=-1), BadInput, "survive is -1; use a whole number from 0 to 15"),
    (define(survive=1.5), BadInput, "survive is 1.5; use a whole number"),
    (define(survive=4), NotEnoughNodes, r"needs 5 nodes, but its space was made on 4 \(node-0,"),
    (define(stripe=4), BadInput, "stripe is 4; use a whole number from 1 to 3"),
    (define(cell=(4,)), BadInput, "use 2 numbers that are at least 1"),
    (define(cell=(4, 0)), BadInput, "use 2 numbers that are at least 1"),
    (define(cell="big"), BadInput, "the cell of `new` is 'big'; use whole numbers"),
    (define(shape=(1 << 14,) * 2, cell=(1 << 13, 1 << 13)), BadInput, "use a smaller one"),
    (define(shape=(1 << 14,) * 2, cell=(4, 4)), BadInput, "16777216 cells, but at most 1048576"),
    (define(name="T", shape=(4, 5, 6)), KeyExists, r"defined already, with dims \('z', 'y', 'x'\)"),
    (define(name="flat", shape=10, dtype="i8"), KeyExists, "with dtype '<i4', not '<i8'; define"),
    (lambda s: s["nothing"], NotFound, "space `run` has no variable `nothing`; define it first"),
    (lambda s: s.get("nothing", 0), NotFound, "has no variable `nothing`"),
    (lambda s: s[3], BadInput, r"space\[3\] is nothing; use space\[name\] or"),  # type: ignore[call-overload]
    (lambda s: s["T", 1, 2], BadInput, "is nothing; use"),  # type: ignore[call-overload]
    (lambda s: s["T", -1], BadInput, "the version is -1; use a whole number from 0"),
    (lambda s: s.get("T", "0"), BadInput, "the version is '0'"),  # type: ignore[arg-type]
    (lambda s: s.get("T", 2**64), BadInput, "use a whole number from 0 to 18446744073709551615"),
    (lambda s: s.put("T", 1, WHOLE[1:]), BadInput, r"is not all of `T`, .*; say with at="),
    (lambda s: s.put("T", 1, WHOLE, at=(0, 0)), BadInput, "use 3 numbers, one for each dimension"),
    (lambda s: s.put("T", 1, WHOLE, at=(0, 0, "x")), BadInput, "at is .*; use whole numbers"),  # type: ignore[arg-type]
    (
        lambda s: s.put("T", 1, WHOLE, at=(1, 0, 0)),
        BadInput,
        r"box 1:5 of `T` leaves its shape \(4, 5, 6\) in z",
    ),
    (lambda s: s.put("T", 1, WHOLE, at=(0, 0, -1)), BadInput, "box -1:5 of `T` leaves .* in x"),
    (lambda s: s.put("T", 1, WHOLE[0]), BadInput, "has 3 dimensions, but the array has 2"),
    (lambda s: s.put("T", 1, 3.5), BadInput, "has 3 dimensions, but the array has 0"),
    (lambda s: s.put("T", 1, WHOLE.astype("f4")), BadInput, "has dtype float64, not float32"),
    (lambda s: s.put("T", 1, WHOLE.astype(">f8")), BadInput, "has dtype float64, not >f8"),
    (lambda s: s.put("flat", 1, [1.5] * 10), BadInput, "has dtype int32, not float64; convert"),
    (lambda s: s.put("flat", 1, [[1], [2, 3]]), BadInput, "what is put into `flat` is no array"),  # type: ignore[list-item]
    (lambda s: s.put("flat", 1, Unreadable()), BadInput, "is no array: it has gone"),
    (lambda s: s.put("flat", 1, None), BadInput, "has dtype int32, not object"),  # type: ignore[arg-type]
    (lambda s: s.put("T", 1, np.ma.array(WHOLE)), BadInput, r"use its .filled\(value\)"),
    (lambda s: s.put("T", 1, WHOLE, ghost=3), BadInput, "has no room for .* ghost cells"),
    (lambda s: s.put("T", 1, WHOLE, ghost=-1), BadInput, "the ghost of `T` is -1; use a width"),
    (lambda s: s.put("T", 1, WHOLE, ghost=(1, 1)), BadInput, "or one for each of 3 dimensions"),
    (
        lambda s: s.get("T", 0, np.s_[0:300, :, :]),
        BadInput,
        r"box 0:300 of `T` leaves its shape \(4, 5, 6\) in z",
    ),
    (lambda s: s.get("flat", 0, np.s_[3:11]), BadInput, "box 3:11 of `flat` .* in dimension 0"),
    (lambda s: s.get("T", 0, np.s_[-2:, :, :]), BadInput, "box -2:4 of `T` leaves"),
    (lambda s: s.get("T", 0, np.s_[3:2]), BadInput, "box 3:2 of `T` leaves"),
    (lambda s: s.get("T", 0, np.s_[::2]), BadInput, r'in z; use space\["T", version\]\[...\] for'),
    (lambda s: s.get("T", 0, np.s_[2]), BadInput, "has 2 in z; use a slice, such as"),
    (lambda s: s.get("T", 0, np.s_[0:1.5]), BadInput, "use whole numbers"),
    (lambda s: s.get("T", 0, np.s_[:, :, :, :]), BadInput, "4 things stand for the 3 dimensions"),
    (lambda s: s.get("T", 0, [(0, 1), (0, 1), (0, 1, 2)]), BadInput, "or a pair of start and"),
    (lambda s: s.get("T", 0, halo=1, edge="mirror"), BadInput, "use 'clip' or 'wrap'"),  # type: ignore[arg-type]
    (lambda s: s.get("T", 0, halo=(1, 2)), BadInput, "the halo of `T` is"),
    (lambda s: s.get("T", 0, halo="one"), BadInput, "use whole numbers"),  # type: ignore[arg-type]
    (lambda s: s.get("T", 0, out=[0]), BadInput, "`out` for `T` is a list; use a NumPy array"),  # type: ignore[arg-type]
    (lambda s: s.get("T", 0, out=WHOLE[1:]), BadInput, r"\(4, 5, 6\) and float64 are needed"),
    (lambda s: s.get("T", 0, out=WHOLE.astype("f4")), BadInput, "dtype float32, but"),
    (
        lambda s: s.get("T", 0, out=np.broadcast_to(0.0, WHOLE.shape)),
        BadInput,
        "is read-only; use another",
    ),
    (
        lambda s: s.get(
            "T", 0, out=np.lib.stride_tricks.as_strided(WHOLE.copy(), strides=(8,) * 3)
        ),
        BadInput,
        "has elements that lie in the same memory",
    ),
    (lambda s: s["T", 0][4], BadInput, r"index 4 leaves the shape \(4, 5, 6\) of `T` in z"),
    (lambda s: s["T", 0][0, -6], BadInput, "index -6 leaves the shape .* in y"),
    (lambda s: s["T", 0][:, None], BadInput, "cannot be indexed by None; use whole numbers"),
    (lambda s: s["T", 0][[0, 1]], BadInput, r"cannot be indexed by \[0, 1\]"),
    (lambda s: s["T", 0][np.array([0, 1])], BadInput, "cannot be indexed by array"),
    (lambda s: s["T", 0][WHOLE > 0], BadInput, "cannot be indexed by array"),
    (lambda s: s["T", 0][True], BadInput, "cannot be indexed by True"),
    (lambda s: s["T", 0]["z"], BadInput, "cannot be indexed by 'z'"),
    (lambda s: s["T", 0][::0], BadInput, "the step of a slice of `T` is 0"),
    (lambda s: s["T", 0][0.5:], BadInput, "cannot be indexed by 0.5"),
    (lambda s: s["T", 0][..., ...], BadInput, "at most one ..."),
    (lambda s: np.asarray(s["T", 0], copy=False), BadInput, "becomes an array by a copy only"),
]


@pytest.mark.parametrize(("mistake", "error", "says"), MISTAKES)
def test_a_mistake_is_told(
    space: Space, mistake: Callable[[Space], object], error: type[HoldfastError], says: str
) -> None:
    with pytest.raises(error, match=says) as told:
        mistake(space)
    assert type(told.value) is error


def test_nothing_is_lost_on_the_way_of_mistakes(space: Space) -> None:
    assert (space.get("T", 0) == 0).all()
    assert space["T"].attrs == {"units": "K", "from": [1, 2.5]}


def test_a_space_that_nobody_made(shared: holdfast.LocalCluster) -> None:
    with shared.connect() as job:
        with pytest.raises(BadInput, match="'a b' is no name for a space"):
            job.space("a b")
        with pytest.raises(NotFound, match="there is no space `never` yet; define a variable"):
            job.space("never").put("T", 0, WHOLE)


def test_keys_of_spaces_are_reserved(shared: holdfast.LocalCluster) -> None:
    with shared.connect() as job:
        with pytest.raises(BadInput, match="begin with @space/ are reserved for spaces; choose"):
            job.objects.put("@space/names/run", b"")
        with pytest.raises(BadInput, match="reserved for spaces"):
            job.objects.drop_below("@space/names", 3)


def test_without_numpy_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import holdfast\n"
        "with holdfast.local_cluster(nodes=1, memory='16 MiB', disk='16 MiB') as cluster:\n"
        "    try: cluster.connect().space('run')\n"
        "    except holdfast.HoldfastError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout == (
        "a space needs numpy, which is not installed; try: pip install 'holdfast[space]'\n"
    ), told.stderr
