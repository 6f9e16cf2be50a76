"""However many ask, the storage sees each file and each directory once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from asking_trees import FILE, LISTING, NODES, PART, Programs, storm
from support import frames
from support.counters import counted, nodes_of

import holdfast
from holdfast import _core
from holdfast.errors import NotCached
from holdfast.testing.countfs import HOST, CountingFS


def directories(data: dict[str, bytes]) -> set[str]:
    """All directories, the root too."""
    found = {""}
    for name in data:
        parts = name.split("/")[:-1]
        found |= {"/".join(parts[: end + 1]) for end in range(len(parts))}
    return found


def test_a_storm_opens_each_file_and_lists_each_directory_once(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes]
) -> None:
    listed = directories(data)

    def one(node: int, name: str) -> None:
        if name in listed:
            below = programs.listing(node, name)
            assert set(below) == {
                other.removeprefix(name + "/" if name else "").split("/")[0]
                for other in data
                if other.startswith(name)
            }
        else:
            assert programs.ask(node, FILE, name) == data[name]

    storm(range(NODES), [*data, *listed], one)
    assert storage.opens() == dict.fromkeys(data, 1)
    counts = storage.counts()
    assert {name: counts[name].listings for name in listed} == dict.fromkeys(listed, 1)
    assert storage.total(HOST).opens == 0
    nodes = nodes_of(cluster).values()
    # Every node has its own copy, and every node took its share of the reading.
    assert all(node.files.files == len(data) + len(listed) for node in nodes)
    assert sum(node.counters["tree_read_files"] > 0 for node in nodes) == NODES
    assert counted(cluster, "tree_bytes_up") == counted(cluster, "tree_bytes_down")
    assert counted(cluster, "tree_joined") > 0
    assert max(node.counters["tree_depth"] for node in nodes) == 3  # 1 + 2 + 4 + 1 nodes

    storage.reset()
    storm(range(NODES), [*data, *listed], one)
    assert storage.total().opens + storage.total().listings + storage.total().lookups == 0


def test_what_is_passed_is_read_only_and_like_the_original(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, backing: Path
) -> None:
    name = "lib/package-0/005"
    path = os.fsencode(storage.at / name)
    address = cluster.nodes[3].member.socket
    descriptor, attributes = frames.tree(address, FILE, programs.root, path)
    original = os.stat(backing / name)
    assert attributes[6] == original.st_size
    assert attributes[9] == original.st_mtime_ns
    assert os.pread(descriptor, 10, 5) == (backing / name).read_bytes()[5:15]
    assert os.fstat(descriptor).st_mode & 0o777 == 0o400
    os.close(descriptor)


def test_a_large_file_is_read_once_in_parts_by_its_owner(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, backing: Path
) -> None:
    size = 3 * _core.PART_BYTES + 4097
    content = os.urandom(size)
    (backing / "large").write_bytes(content)
    parts = [content[at : at + _core.PART_BYTES] for at in range(0, size, _core.PART_BYTES)]

    def one(node: int, part: str) -> None:
        assert programs.ask(node, PART, "large", int(part)) == parts[int(part)]

    storm(range(NODES), [str(part) for part in range(len(parts))], one)
    assert storage.opens() == {"large": 1}
    assert storage.counts()["large"].bytes == size
    assert counted(cluster, "tree_read_parts") == len(parts)
    readers = [node for node in range(NODES) if storage.opens(node)]
    assert len(readers) == 1


def test_only_plain_paths_below_the_root_are_answered(
    programs: Programs, storage: CountingFS, backing: Path
) -> None:
    os.mkfifo(backing / "fifo")
    os.symlink("/etc", backing / "out")
    for kind, name in [
        (FILE, "missing"), (FILE, "fifo"), (FILE, "lib"), (LISTING, "missing"),
        (LISTING, "lib/package-0/000"), (LISTING, "out"), (FILE, "out/passwd"), (FILE, ""),
        (PART, "lib"), (FILE, "lib/../lib/package-0/000"),
    ]:  # fmt: skip
        with pytest.raises(NotCached):
            programs.ask(2, kind, name)
