"""Seeded permutations of [0, n), computed in both directions and never stored whole.

A Feistel network over pairs of digits in a base just above the square root of n: the few values
that fall outside [0, n) are sent through again ("cycle walking") until they come back inside.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_ROUNDS = 4
#: Values handled at a time, so that what a round touches stays in the cache.
CHUNK = 1 << 15


def mix(values: Ints, salt: int) -> npt.NDArray[np.uint64]:
    """Hash each value with `salt` (splitmix64): every bit of the result depends on all bits."""
    golden = 0x9E3779B97F4A7C15
    start = np.uint64((golden * (salt + 1)) & 0xFFFFFFFFFFFFFFFF)
    x = values.astype(np.uint64) * np.uint64(golden) + start
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def below(values: Ints, salt: int, limit: int) -> Ints:
    """Hash each value to [0, limit)."""
    return (mix(values, salt) % np.uint64(limit)).astype(np.int64)


def _side(n: int) -> int:
    return isqrt(max(n, 1) - 1) + 1


def _walk(values: Ints, n: int, step: Callable[[Ints], Ints]) -> Ints:
    result = step(values)
    outside = np.flatnonzero(result >= n)
    while len(outside):
        result[outside] = step(result[outside])
        outside = outside[result[outside] >= n]
    return result


class Permutation:
    """A permutation of [0, n) chosen by `seed`; equal arguments give equal permutations."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self._side = _side(n)
        digits = np.arange(self._side, dtype=np.int64)
        # 32 bits where they are enough: what a round does is limited by memory.
        self._type: type[Any] = np.int32 if n < 2**30 else np.int64
        self._tables: list[npt.NDArray[Any]] = [
            below(digits, seed * _ROUNDS + k, self._side).astype(self._type) for k in range(_ROUNDS)
        ]

    def forward(self, values: Ints) -> Ints:
        """Where each value goes."""
        return self._chunked(values, self._encrypt)

    def inverse(self, values: Ints) -> Ints:
        """Where each value comes from."""
        return self._chunked(values, self._decrypt)

    def _chunked(self, values: Ints, step: Callable[[Ints], Ints]) -> Ints:
        result = np.empty(len(values), np.int64)
        for start in range(0, len(values), CHUNK):
            part = values[start : start + CHUNK].astype(self._type)
            result[start : start + CHUNK] = _walk(part, self.n, step)
        return result

    def _encrypt(self, x: Ints) -> Ints:
        left = x // self._side
        right = x - left * self._side
        for table in self._tables:
            left += table.take(right)
            left -= (left >= self._side) * self._type(self._side)
            left, right = right, left
        return np.asarray(left * self._type(self._side) + right)

    def _decrypt(self, x: Ints) -> Ints:
        left = x // self._side
        right = x - left * self._side
        for table in reversed(self._tables):
            left, right = right, left
            left -= table.take(right)
            left += (left < 0) * self._type(self._side)
        return np.asarray(left * self._type(self._side) + right)


def permuted_by_each(keys: Ints, value: int, n: int, seed: int) -> Ints:
    """Where `value` goes in the permutation of [0, n) that each key chooses for itself."""
    side = _side(n)
    remaining = np.arange(len(keys))
    result = np.full(len(keys), value, np.int64)
    while len(remaining):
        left, right = np.divmod(result[remaining], side)
        own = below(keys[remaining], seed, 2**62)
        for k in range(_ROUNDS):
            left, right = right, (left + below(own + right, seed + 1 + k, side)) % side
        result[remaining] = left * side + right
        remaining = remaining[result[remaining] >= n]
    return result
