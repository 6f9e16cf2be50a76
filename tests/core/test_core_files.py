"""Files through the core's client and agent, as the Python side of both uses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cores import core_in
from support.waits import wait_for

from holdfast import _core, errors

KEY = bytes(range(32))
LARGEST = 1 << 30


class Node:
    """One agent, a client, and a directory that plays the shared file system."""

    def __init__(self, place: Path) -> None:
        self.root = place / "shared"
        self.root.mkdir()
        self.memory = place / "memory"
        self.core = core_in(place, KEY, 1 << 26)
        self.address = self.core.listen("tcp:127.0.0.1:0")
        self.core.set_self(1)
        placement = _core.Placement(_core.Ring(["node"], 10), [1], [self.address], identity=1)
        self.core.set_placement(placement)
        self.core.start()
        self.client = _core.AgentClient(KEY)

    def order(self, name: bytes, validate: bool = False) -> tuple[str, _core.FileOrder]:
        root = os.fsencode(self.root)
        return self.address, _core.FileOrder(
            root,
            root + b"/" + name,
            tier=_core.Tier.MEMORY,
            validate=validate,
            largest=LARGEST,
        )

    def read(self, name: bytes, validate: bool = False) -> bytes:
        return self.client.read(*self.order(name, validate))

    def cache(self, name: bytes) -> bytes:
        """Read a file, and wait until it is kept."""
        hits = self.core.file_counters().hits
        data = b""

        def hit() -> bool:
            nonlocal data
            data = self.read(name)
            return self.core.file_counters().hits > hits

        wait_for(hit, "it was never kept")
        return data


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.client.close()
    node.core.stop()
    del node.core


def test_a_file_is_read_once_and_refreshed_when_asked(node: Node) -> None:
    path = node.root / "file"
    path.write_bytes(b"old")
    assert node.cache(b"file") == b"old"
    path.write_bytes(b"newer")
    assert node.read(b"file") == b"old"
    assert node.core.file_counters().fills == 1
    assert node.core.refresh_files([os.fsencode(node.root)], 1) == 1
    assert node.cache(b"file") == b"newer"
    assert node.core.file_counters().changed == 1
    path.write_bytes(b"newest.")
    node.core.distrust_files()
    assert node.read(b"file") == b"newest."


def test_a_file_comes_straight_into_a_buffer_that_is_large_enough(node: Node) -> None:
    data = os.urandom(300_000)
    (node.root / "file").write_bytes(data)
    out = bytearray(400_000)
    for _ in range(2):
        assert node.client.read_into(*node.order(b"file"), out) == len(data)
        assert out[: len(data)] == data
    with pytest.raises(errors.BadInput, match="300000"):
        node.client.read_into(*node.order(b"file"), bytearray(1000))
    assert node.read(b"file") == data


def test_attributes_are_those_of_the_original(node: Node) -> None:
    path = node.root / "file"
    path.write_bytes(b"bytes")
    os.utime(path, ns=(5, -7_000_000_001))  # before 1970
    info = path.stat()
    told = node.client.attributes(*node.order(b"file"))
    times = ("atime_ns", "mtime_ns", "ctime_ns")
    for name in ("mode", "uid", "gid", "nlink", "size", "blocks", *times):
        assert getattr(told, name) == getattr(info, f"st_{name}"), name
    assert (told.inode, told.device) == (info.st_ino, info.st_dev)
    assert node.core.file_counters().fills == 0


@pytest.mark.parametrize("ask", ["read", "attributes"])
def test_what_is_no_file_is_left_to_the_shared_file_system(node: Node, ask: str) -> None:
    (node.root / "directory").mkdir()
    call: Callable[..., Any] = getattr(node.client, ask)
    for name in (b"none", b"directory", b"directory/../none", b"a" * 5000):
        with pytest.raises(errors.NotCached):
            call(*node.order(name))
    assert node.core.file_counters().not_cached == 4
    with pytest.raises(errors.BadInput, match="absolute"):
        call(node.address, _core.FileOrder(b"root", b"root/file", tier=_core.Tier.MEMORY))


def test_a_copy_that_went_bad_is_found_and_read_again(node: Node) -> None:
    data = os.urandom(300_000)
    (node.root / "file").write_bytes(data)
    for read in (
        lambda: node.read(b"file"),
        lambda: node.client.read_into(*node.order(b"file"), bytearray(300_000)),
    ):
        assert node.cache(b"file") == data
        [copy] = node.memory.iterdir()
        copy.chmod(0o600)
        with copy.open("r+b") as file:
            file.seek(200_000)
            file.write(bytes(4) if data[200_000:200_004] != bytes(4) else b"1234")
        with pytest.raises(errors.Damaged):
            read()
        assert node.cache(b"file") == data
    assert node.core.counters()["damaged"] == 2
    assert node.core.file_counters().fills == 3
