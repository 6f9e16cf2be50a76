"""The ring: Python and C++ agree on every key, and it behaves as a ring must."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import _core
from holdfast.errors import BadInput
from holdfast.placement import ring

names = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=12, unique=True)


@settings(max_examples=200)
@given(names, st.integers(1, 20), st.lists(st.binary(max_size=40), max_size=20))
def test_both_rings_agree_on_every_key(nodes: list[str], points: int, keys: list[bytes]) -> None:
    python, native = ring.Ring(nodes, points), _core.Ring(nodes, points)
    for key in keys:
        for count in (1, 2, len(nodes), len(nodes) + 1):
            assert python.owners(key, count) == native.owners(key, count)


@given(names, st.binary(max_size=40), st.binary(max_size=40))
def test_what_follows_a_zero_byte_does_not_count(nodes: list[str], key: bytes, tail: bytes) -> None:
    for made in (ring.Ring(nodes, 8), _core.Ring(nodes, 8)):
        assert made.owners(key + b"\0" + tail, 3) == made.owners(key + b"\0", 3)
        assert made.owners(key, 3) == made.owners(key.partition(b"\0")[0], 3)


def test_keys_stay_where_they_were() -> None:
    nodes = [f"node-{i}" for i in range(8)]
    for made in (ring.Ring(nodes), _core.Ring(nodes)):
        assert made.owners(b"key", 3) == ["node-1", "node-6", "node-7"]


@given(names, st.randoms(use_true_random=False), st.binary(max_size=40))
def test_the_order_of_names_does_not_matter(
    nodes: list[str], rng: random.Random, key: bytes
) -> None:
    shuffled = nodes[:]
    rng.shuffle(shuffled)
    assert _core.Ring(nodes).owners(key, 3) == _core.Ring(shuffled).owners(key, 3)


def test_labels_do_not_collide() -> None:
    # "server1" + "10" and "server11" + "0" are one label where name and number are just joined.
    points = [ring.point(f"server{n}", i) for n in range(1, 65) for i in range(100)]
    assert len(set(points)) == len(points)


def test_removing_a_node_moves_its_keys_and_no_others() -> None:
    nodes = [f"node-{i}" for i in range(64)]
    before, after = _core.Ring(nodes), _core.Ring(nodes[1:])
    receivers = Counter()
    for i in range(20_000):
        key = f"key-{i}".encode()
        old, new = before.owners(key)[0], after.owners(key)[0]
        assert old in (new, "node-0")
        if old == "node-0":
            receivers[new] += 1
    assert len(receivers) > 30, "a dead node's keys must go to many others"


def test_load_is_even() -> None:
    nodes = [f"node-{i}" for i in range(64)]
    native = _core.Ring(nodes)
    load = Counter(native.owners(f"key-{i}".encode())[0] for i in range(64_000))
    assert set(load) == set(nodes)
    assert max(load.values()) < 1.5 * 1000
    assert min(load.values()) > 0.6 * 1000


def test_owners_are_distinct_and_ten_thousand_nodes_are_no_problem() -> None:
    native = _core.Ring([f"node-{i}" for i in range(10_000)])
    for i in range(1000):
        owners = native.owners(f"key-{i}".encode(), 4)
        assert len(set(owners)) == 4


@pytest.mark.parametrize("make", [ring.Ring, _core.Ring])
def test_bad_rings_are_refused(make: type) -> None:
    with pytest.raises(BadInput, match="twice"):
        make(["a", "a"])
    with pytest.raises(BadInput, match="virtual nodes"):
        make(["a"], 0)
    assert make([]).owners(b"key", 2) == []
