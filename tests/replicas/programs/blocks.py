"""Blocks whose bytes follow from their number and version, so that every byte can be checked."""

from __future__ import annotations

import numpy as np


def fixed(first: int, count: int, size: int, version: int) -> np.ndarray:
    ids = np.arange(first, first + count, dtype=np.int64)
    table = ids[:, None] * 1000003 + np.arange(size) * 7919 + version * 104729
    return ((table ^ (table >> 7)) % 251).astype(np.uint8).reshape(-1)


def lengths(first: int, count: int) -> np.ndarray:
    return (np.arange(first, first + count) * 37) % 101


def varied(first: int, count: int, version: int) -> list[bytes]:
    return [
        fixed(number, 1, int(size), version).tobytes()
        for number, size in zip(
            range(first, first + count), lengths(first, count).tolist(), strict=True
        )
    ]


def wanted(ranges: list[tuple[int, int]], size: int | None, version: int) -> np.ndarray:
    parts = [
        fixed(first, count, size, version)
        if size is not None
        else np.frombuffer(b"".join(varied(first, count, version)), np.uint8)
        for first, count in ranges
    ]
    return np.concatenate([np.empty(0, np.uint8), *parts])
