"""A file that is rewritten in place while it is first read: nobody gets a mixture of both."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preloaded import Shell
from support.waits import WITHIN

import holdfast
from holdfast import _core
from holdfast.testing.countfs import CountingFS

SIZE = 2 << 20
WAYS = ("read", "read into", "open", "shim")


@pytest.fixture
def storage(tmp_path: Path, backing: Path, nodes: int) -> Iterator[CountingFS]:
    """So slow that a file can be rewritten while it is read."""
    with CountingFS(backing, tmp_path / "shared", nodes=nodes, bandwidth="16 MB/s") as shown:
        yield shown


def name_for(way: str, owner: int, storage: CountingFS) -> str:
    """Return the name of a file that belongs to one of the two nodes."""
    ring = _core.Ring(["node-0", "node-1"])
    names = (f"{way}, {owner}, {number}" for number in range(100))
    return next(
        name
        for name in names
        if ring.owners(_core.FILE_PREFIX + bytes(storage.at / name), 1) == [f"node-{owner}"]
    )


def test_no_way_of_reading_gives_a_mixture_of_both(
    cluster: holdfast.LocalCluster, storage: CountingFS, backing: Path, tmp_path: Path
) -> None:
    names = {name_for(way, owner, storage): way for way in WAYS for owner in (0, 1)}
    for name in names:
        (backing / name).write_bytes(b"A" * SIZE)
    got: dict[str, bytes] = {}

    with cluster.connect() as job:
        files = job.files(storage.at)

        def read_into(name: str) -> bytes:
            room = bytearray(SIZE)
            return bytes(room[: files.read(name, room)])

        def through_open(name: str) -> bytes:
            with files.open(name) as file:
                return bytes(file.read())

        def through_shim(name: str) -> bytes:
            shell = Shell(cluster, storage, tmp_path / f"work of {name}")
            return shell.shimmed(f"cat '{storage.at / name}'").output

        readers: dict[str, Callable[[str], bytes]] = {
            "read": files.read,
            "read into": read_into,
            "open": through_open,
            "shim": through_shim,
        }
        threads = [
            threading.Thread(target=lambda n=name, r=readers[way]: got.update({n: r(n)}))
            for name, way in names.items()
        ]
        for thread in threads:
            thread.start()
        in_the_middle = rewrite_each(storage, backing, set(names))
        for thread in threads:
            thread.join(WITHIN)
    assert in_the_middle
    seen = {name: (bytes_.count(b"A"), bytes_.count(b"B")) for name, bytes_ in got.items()}
    assert {name: seen[name] for name in in_the_middle} == dict.fromkeys(in_the_middle, (0, SIZE))
    assert {name for name in names if seen[name] not in ((SIZE, 0), (0, SIZE))} == set()


def rewrite_each(storage: CountingFS, backing: Path, names: set[str]) -> set[str]:
    """Rewrite each file as soon as some of it was read; return those of which not all was."""
    in_the_middle = set()
    end = time.monotonic() + WITHIN
    while names:
        if time.monotonic() > end:  # without a pause, which `wait_for` makes
            raise TimeoutError(f"{names} were not read")
        counts = storage.counts()
        for name in [one for one in names if one in counts and counts[one].bytes > 0]:
            names.remove(name)
            with open(backing / name, "r+b") as file:
                file.write(b"B" * SIZE)
            if storage.counts()[name].bytes < SIZE:
                in_the_middle.add(name)
        time.sleep(0.01)
    return in_the_middle
