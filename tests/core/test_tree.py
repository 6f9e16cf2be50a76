"""The trees of a broadcast: Python and C++ agree on every path, and they are good trees."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import _core
from holdfast.errors import BadInput
from holdfast.placement import ring, trees

members = st.dictionaries(st.text(min_size=1, max_size=8), st.sampled_from("abcdé "), min_size=1)
MANY = 10_000


@settings(max_examples=200)
@given(members, st.integers(2, 9), st.lists(st.binary(max_size=30), max_size=8))
def test_both_trees_agree_on_every_path(
    racks: dict[str, str], degree: int, keys: list[bytes]
) -> None:
    spelled, native = ring.Ring(racks, 5), _core.Ring(list(racks), 5)
    labels = [racks[node] for node in native.nodes]
    python, fast = trees.Trees(spelled, labels, degree), _core.Trees(native, labels, degree)
    for key in keys:
        for node in (*racks, "nobody"):
            above = python.ancestors(key, node)
            assert above == fast.ancestors(key, node)
            # The way up is that of the parent, and ends at the head.
            assert above[1:] == (python.ancestors(key, above[0]) if above else [])
            assert (above[-1] if above else node) == spelled.owners(key)[0]


def depths(degree: int, per_rack: int) -> tuple[list[int], Counter[str], int]:
    """Depth of each node, children of each, and crossings between racks, for one path."""
    nodes = _core.Ring([f"node-{n:05}" for n in range(MANY)], 10)
    racks = {node: str(n // per_rack) for n, node in enumerate(nodes.nodes)}
    trees = _core.Trees(nodes, list(racks.values()), degree)
    found, children, crossings = [], Counter[str](), 0
    for node in nodes.nodes:
        above = trees.ancestors(b"@file/software/lib/module.py", node)
        found.append(len(above))
        if above:
            children[above[0]] += 1
            crossings += racks[node] != racks[above[0]]
    return found, children, crossings


@pytest.mark.parametrize("degree", [2, 8, 32])
def test_ten_thousand_nodes_in_one_rack(degree: int) -> None:
    found, children, crossings = depths(degree, MANY)
    assert max(found) == math.ceil(math.log(MANY * (degree - 1) + 1, degree)) - 1
    assert max(children.values()) == degree
    assert sum(children.values()) == MANY - 1
    assert crossings == 0


@pytest.mark.parametrize("degree", [2, 8])
def test_each_racks_uplink_is_crossed_once(degree: int) -> None:
    found, children, crossings = depths(degree, 64)
    racks = math.ceil(MANY / 64)
    assert crossings == racks - 1
    assert max(children.values()) <= 2 * degree
    assert max(found) <= 16  # as many hops as a request may take
    assert max(found) <= math.log(racks, degree) + math.log(64, degree) + 2


def test_all_nodes_share_the_work() -> None:
    nodes = _core.Ring([f"node-{n}" for n in range(64)])
    trees = _core.Trees(nodes, [str(n // 8) for n in range(64)], 4)
    heads, passing = Counter[str](), Counter[str]()
    paths = 2000
    for number in range(paths):
        key = b"@file/lib/%d" % number
        for node in nodes.nodes:
            above = trees.ancestors(key, node)
            heads[node] += not above
            passing.update(above[:1])
    assert sum(heads.values()) == paths
    assert max(heads.values()) < 3 * paths / 64
    assert min(passing.values()) > 0.4 * paths * 63 / 64
    assert max(passing.values()) < 2.5 * paths * 63 / 64


def test_what_makes_no_tree_is_refused() -> None:
    some = ring.Ring(["a", "b"])
    for made in (some, _core.Ring(["a", "b"])):
        kind = trees.Trees if made is some else _core.Trees
        with pytest.raises(BadInput, match="at least 2"):
            kind(made, ["", ""], 1)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="1 racks for 2"):
            kind(made, [""], 2)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="at least one"):
        trees.Trees(ring.Ring([]), [], 2)
    with pytest.raises(BadInput, match="at least one"):
        _core.Trees(_core.Ring([]), [], 2)
