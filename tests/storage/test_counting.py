"""Counts are exact: each open is seen, under its path and its node, and nothing else is one."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from showing import Show
from support.requirements import needs_networks

import holdfast
from holdfast import errors
from holdfast.launch.networks import Networks
from holdfast.testing.countfs import HOST, CountingFS, Counts


def test_every_open_is_counted_under_its_path(backing: Path, show: Show) -> None:
    storage = show()
    (backing / "a" / "b").mkdir(parents=True)
    for path in ("one", "a/two", "a/b/three"):
        (backing / path).write_bytes(b"x" * 1000)
    for path, times in (("one", 5), ("a/two", 3), ("a/b/three", 1)):
        for _ in range(times):
            (storage.at / path).read_bytes()
    assert storage.opens() == {"one": 5, "a/two": 3, "a/b/three": 1}
    assert storage.total().opens == 9
    assert storage.total().bytes == 9000
    assert storage.counts()["one"].reads == 5
    storage.reset()
    assert storage.opens() == {}
    assert storage.total() == Counts()
    (storage.at / "one").read_bytes()
    assert storage.opens() == {"one": 1}


def test_asking_about_a_file_is_no_open(backing: Path, show: Show) -> None:
    storage = show()
    (backing / "directory").mkdir()
    (backing / "directory" / "file").write_bytes(b"x")
    file = storage.at / "directory" / "file"
    file.stat()
    os.access(file, os.R_OK)
    os.listdir(file.parent)
    file.rename(file.with_name("other"))
    os.close(os.open(file.with_name("other"), os.O_PATH))
    assert not file.exists()
    counts = storage.counts()
    assert storage.opens() == {}
    assert counts["directory"].listings == 1
    assert counts["directory/file"].lookups >= 2
    assert storage.total().getattrs >= 1


def test_opens_that_fail_or_create_are_opens(backing: Path, show: Show) -> None:
    storage = show()
    (storage.at / "new").write_bytes(b"x")
    with (storage.at / "new").open("ab"):
        pass
    storage.fail("new", "open", 5)
    with pytest.raises(OSError, match="Input/output"):
        (storage.at / "new").read_bytes()
    assert storage.opens() == {"new": 3}


def test_many_at_once_are_all_counted(backing: Path, show: Show) -> None:
    storage = show()
    (backing / "common").write_bytes(b"x" * 50_000)
    for worker in range(8):
        (backing / f"{worker}").write_bytes(b"y" * worker)

    def work(worker: int) -> None:
        for _ in range(50):
            assert (storage.at / "common").read_bytes() == b"x" * 50_000
            assert (storage.at / f"{worker}").read_bytes() == b"y" * worker

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert storage.opens() == {"common": 400} | {f"{worker}": 50 for worker in range(8)}


def test_a_path_is_the_one_by_which_a_file_was_opened(backing: Path, show: Show) -> None:
    storage = show()
    (backing / "one").write_bytes(b"x")
    os.link(backing / "one", backing / "two")
    (backing / "directory").mkdir()
    (backing / "directory" / "file").write_bytes(b"y")
    for name in ("one", "two", "two", "directory/file"):
        (storage.at / name).read_bytes()
    (storage.at / "directory").rename(storage.at / "moved")
    (storage.at / "moved" / "file").read_bytes()
    assert storage.opens() == {"one": 1, "two": 2, "directory/file": 1, "moved/file": 1}


@pytest.mark.parametrize("name", [b"line\nbreak", b"\xff\xfe"])
def test_any_name_is_counted(backing: Path, show: Show, name: bytes) -> None:
    storage = show()
    (backing / os.fsdecode(name)).write_bytes(b"x")
    (storage.at / os.fsdecode(name)).read_bytes()
    assert storage.opens() == {os.fsdecode(name): 1}


def test_many_paths_are_counted(backing: Path, show: Show) -> None:
    """More than one message on a socket holds."""
    storage = show()
    names = [f"{'long' * 60}-{number}" for number in range(1000)]
    for name in names:
        (backing / name).touch()
        (storage.at / name).read_bytes()
    assert storage.opens() == dict.fromkeys(names, 1)


def cat(storage: CountingFS, node: int, path: str) -> bytes:
    command = [*storage.under(node), "cat", str(storage.at / path)]
    return subprocess.run(command, capture_output=True, check=True, timeout=30).stdout


def test_opens_are_counted_for_the_node_that_made_them(backing: Path, show: Show) -> None:
    storage = show(nodes=3)
    (backing / "file").write_bytes(b"hello")
    for node, times in ((0, 1), (2, 3)):
        for _ in range(times):
            assert cat(storage, node, "file") == b"hello"
    (storage.at / "file").read_bytes()
    assert [storage.opens(node) for node in (0, 1, 2, HOST)] == [
        {"file": 1},
        {},
        {"file": 3},
        {"file": 1},
    ]
    assert storage.opens() == {"file": 5}
    with pytest.raises(errors.BadInput, match="there is no node 3; this file system has 3"):
        storage.under(3)


def test_what_one_node_writes_the_others_read(backing: Path, show: Show) -> None:
    storage = show(nodes=2)
    for text in ("first", "other"):
        code = 'printf %s "$1" >"$0"'
        command = [*storage.under(0), "sh", "-c", code, str(storage.at / "file"), text]
        subprocess.run(command, check=True, timeout=30)
        assert cat(storage, 1, "file") == text.encode() == (storage.at / "file").read_bytes()


def read_as(pid: int, path: Path) -> bytes:
    """Read a file where a process sees it."""
    return Path(f"/proc/{pid}/root{path}").read_bytes()


def test_agents_see_the_storage_through_mounts_of_their_own(backing: Path, show: Show) -> None:
    storage = show(nodes=2)
    (backing / "file").write_bytes(b"hello")
    with holdfast.local_cluster(nodes=2, storage=storage, memory="64 MiB") as cluster:
        with cluster.connect() as job:
            job.objects.put("key", b"value", copies=2)
        for node in (1, 1, 0):
            assert read_as(cluster.nodes[node].pid, storage.at / "file") == b"hello"
        assert [storage.total(node).opens for node in (0, 1, HOST)] == [1, 2, 0]
        cluster.kill(1)
        cluster.restart(1)
        assert read_as(cluster.nodes[1].pid, storage.at / "file") == b"hello"
        assert [storage.total(node).opens for node in (0, 1, HOST)] == [1, 3, 0]


@needs_networks
def test_agents_can_have_networks_of_their_own_too(backing: Path, show: Show) -> None:
    storage = show(nodes=2)
    (backing / "file").write_bytes(b"hello")
    with (
        Networks.make(2) as made,
        holdfast.local_cluster(2, networks=made, storage=storage, memory="64 MiB") as cluster,
    ):
        assert cluster.nodes[1].member.address.startswith(f"tcp:{made.address(1)}:")
        assert read_as(cluster.nodes[1].pid, storage.at / "file") == b"hello"
        assert storage.opens(1) == {"file": 1}


def test_a_storage_for_fewer_nodes_is_refused(show: Show) -> None:
    with pytest.raises(
        errors.BadInput,
        match="CountingFS was created for 2 nodes, but 3 are starting; pass nodes=3",
    ):
        holdfast.local_cluster(nodes=3, storage=show(nodes=2))
