"""Listings in portions: each fits, and together they leave nothing out."""

from __future__ import annotations

import random

from holdfast.restoration.portions import first, portions

MESSAGE = 16 << 20


def test_what_fits_is_one_portion_without_bounds() -> None:
    for keys in ([], [b"b", b"a"]):
        [(bounds, portion)] = portions(keys, bytes)
        assert portion == sorted(keys)
        assert (bounds.after, bounds.until) == (b"", b"")
        assert first(keys, bytes) == sorted(keys)


def test_each_key_is_within_the_bounds_of_its_portion_alone() -> None:
    rng = random.Random(3)
    keys = [rng.randbytes(rng.randint(1, 4096)) for _ in range(8000)]
    divided = portions(keys, bytes)
    assert len(divided) > 2
    assert [key for _, portion in divided for key in portion] == sorted(keys)
    for number, (bounds, portion) in enumerate(divided):
        assert sum(map(len, portion)) < MESSAGE / 2
        for other, (_, others) in enumerate(divided):
            assert all((key in bounds) == (other == number) for key in others)
    # Also what nobody here has heard of has its place.
    for key in (b"\0", b"\xff" * 4096, *(rng.randbytes(9) for _ in range(100))):
        assert sum(key in bounds for bounds, _ in divided) == 1
    assert first(keys, bytes) == divided[0][1]
