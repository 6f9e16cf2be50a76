"""What a mount holds of the node's memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mounted import View, through
from support.settings import SETTINGS
from support.waits import WITHIN

import holdfast
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey
from holdfast.errors import Full
from holdfast.testing.countfs import CountingFS

MIB = 1 << 20
#: As native/mount/mount.cpp has it.
ROOM = 512 * MIB
PART = 4 * MIB


def held(view: View) -> int:
    """Count the bytes of copies that only the mount's process still holds."""
    found = {}
    for entry in os.scandir(f"/proc/{view.pid}/fd"):
        info = os.stat(entry.path)
        if info.st_nlink == 0:
            found[info.st_ino] = info.st_size
    return sum(found.values())


def test_copies_that_nobody_keeps_are_let_go(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    """More of a large file than either the agent or the mount has room for."""
    size = ROOM + 64 * MIB
    with (backing / "large").open("wb") as file:
        file.truncate(size)
    settings = {**SETTINGS, "memory": "32 MiB"}
    with (
        holdfast.local_cluster(nodes=1, storage=storage, **settings) as cluster,
        through(cluster, tmp_path / "mnt", storage.at) as view,
    ):
        descriptor = os.open(view / "large", os.O_RDONLY)
        for offset in range(0, size, PART):
            assert os.pread(descriptor, 1, offset) == b"\0"
        os.close(descriptor)
        assert view.counters()["files"] == size // PART
        assert 0 < held(view) <= ROOM


def test_a_part_that_cannot_be_had_is_asked_for_once(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    """The agent has no room for parts: they are read from the original, piece by piece."""
    content = os.urandom(3 * PART)
    (backing / "large").write_bytes(content)
    settings = {**SETTINGS, "memory": "1 MiB", "disk": "1 MiB", "tree_largest": "5 MiB"}
    with (
        holdfast.local_cluster(nodes=1, storage=storage, **settings) as cluster,
        through(cluster, tmp_path / "mnt", storage.at) as view,
    ):
        assert (view / "large").read_bytes() == content
        assert view.counters()["files_from_storage"] == 1
        contacts = Contacts(cluster.directory, WITHIN)
        (node,) = survey(contacts).nodes
        contacts.client.close()
        assert node.counters["tree_misses_part"] == 3
        assert node.counters["tree_read_parts"] == 0


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("disk", ["64 MiB", "2 MiB"])
def test_memory_full_of_objects(
    backing: Path, storage: CountingFS, tmp_path: Path, spread: bool, disk: str
) -> None:
    """Files find room on the disk; where that is full, too, each is opened once, and counted."""
    contents = {f"file-{number}": os.urandom(100_000) for number in range(12)}
    for name, content in contents.items():
        (backing / name).write_bytes(content)
    settings = {**SETTINGS, "memory": "4 MiB", "disk": disk, "file_largest": "1 MiB"}
    roots = {"spread_roots": str(storage.at)} if spread else {}
    roomy = disk == "64 MiB"
    with holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster:
        with cluster.connect() as job:
            for tier in ("memory",) if roomy else ("memory", "disk"):
                for number in range(1000):
                    try:
                        data = os.urandom(50_000)
                        job.objects.put(f"{tier}/{number}", data, copies=2, tier=tier)
                    except Full:
                        break
        if roomy:
            with through(cluster, tmp_path / "ahead", storage.at, **roots) as view:
                for name, content in contents.items():
                    assert (view / name).read_bytes() == content
            assert storage.opens() == dict.fromkeys(contents, 1)
            storage.reset()
        with through(cluster, tmp_path / "mnt", storage.at, **roots) as view:
            for name, content in contents.items():
                assert (view / name).read_bytes() == content
            from_storage = view.counters()["files_from_storage"]
        contacts = Contacts(cluster.directory, WITHIN)
        no_room = sum(node.files.no_room for node in survey(contacts).nodes)
        contacts.client.close()
        if roomy:
            assert (storage.opens(), from_storage, no_room) == ({}, 0, 0)
        else:
            assert storage.opens() == dict.fromkeys(contents, 1)
            assert from_storage == len(contents)
            assert no_room >= len(contents)
