"""Keys so long, and so many, that what agents compare does not fit into one message."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest
from healing import Inside
from support.waits import wait_for

import holdfast
from holdfast._core import tombstone, xxh3_64
from holdfast.restoration.holdings import BUCKETS, NOTICE_BUCKETS
from holdfast.restoration.messages import ExchangeNotices

LONGEST_KEY = 4096
#: Of 4 KiB each: more than the 16 MiB that a message may have.
MANY = 4200


def as_they_are(key: bytes) -> bytes:
    return key


def keys_of_one_part(parts: int, compared: Callable[[bytes], bytes] = as_they_are) -> list[str]:
    """Long keys that are compared together, in that form."""

    def numbered() -> Iterator[str]:
        number = 0
        while True:
            yield f"{number:07}".ljust(LONGEST_KEY, "x")
            number += 1

    of_part = (key for key in numbered() if xxh3_64(compared(key.encode())) * parts >> 64 == 1)
    return [next(of_part) for _ in range(MANY)]


@pytest.fixture
def two() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=2, memory="256 MiB", disk="64 MiB") as cluster:
        yield cluster


def test_drops_are_heard_of(two: holdfast.LocalCluster) -> None:
    keys = [tombstone(key.encode()) for key in keys_of_one_part(NOTICE_BUCKETS, tombstone)]
    with Inside(two) as inside:
        for some in (keys[: MANY // 2], keys[MANY // 2 :]):
            heard = msgspec.msgpack.encode(ExchangeNotices([], some))
            inside.client.call(inside.member(0).socket, "restoring", "ask", heard)
        wait_for(lambda: inside.status(1).counters["notices"] == MANY)
        two.kill(1)
        two.restart(1)
        wait_for(lambda: inside.status(1).counters["notices"] == MANY)


def test_copies_come_back(two: holdfast.LocalCluster) -> None:
    keys = keys_of_one_part(BUCKETS)
    with two.connect() as job, Inside(two) as inside:
        for key in keys:
            job.objects.put(key, b"x", copies=2)
        two.kill(1)
        two.restart(1)
        wait_for(lambda: inside.restoring(1).restored == MANY)
        wait_for(lambda: inside.settled([0, 1]))
