"""What a mount holds of the node's memory."""

from __future__ import annotations

import os
from pathlib import Path

from mounted import SETTINGS, WITHIN, View, through

import holdfast
from holdfast.cluster.contacts import Contacts
from holdfast.cluster.storage import Storage
from holdfast.cluster.survey import survey

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
    backing: Path, storage: Storage, tmp_path: Path
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
    backing: Path, storage: Storage, tmp_path: Path
) -> None:
    """The agent has no room for parts: they are read from the original, piece by piece."""
    content = os.urandom(3 * PART)
    (backing / "large").write_bytes(content)
    settings = {**SETTINGS, "memory": "1 MiB", "tree_largest": "5 MiB"}
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
