"""Files and directories change, tiers fill up, nodes stand in racks."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from asking_trees import FILE, NODES, SETTINGS, Programs, counted, nodes_of, storm, wait_for

import holdfast
from holdfast.cluster.storage import HOST, Storage
from holdfast.errors import NotCached


def everywhere(programs: Programs, data: dict[str, bytes]) -> None:
    """Let every node have all files and the listings of their directories."""

    def one(node: int, name: str) -> None:
        assert programs.ask(node, FILE, name) == data[name]
        programs.listing(node, os.path.dirname(name))

    storm(range(NODES), sorted(data), one)


def test_a_refresh_reaches_every_node_and_the_listing_of_the_directory(
    cluster: holdfast.LocalCluster, programs: Programs, storage: Storage, data: dict[str, bytes],
    backing: Path,
) -> None:  # fmt: skip
    everywhere(programs, data)
    name, directory = "lib/package-0/005", "lib/package-0"
    (backing / name).write_bytes(b"a new version")
    (backing / directory / "new").write_bytes(b"new")
    assert programs.ask(2, FILE, name) == data[name]  # unseen, as long as nobody refreshes
    assert "new" not in programs.listing(2, directory)
    storage.reset()
    with cluster.connect() as job:
        assert job.files(storage.at).refresh(name).missed == []

    def one(node: int, wanted: str) -> None:
        assert programs.ask(node, FILE, wanted) == b"a new version"
        assert programs.listing(node, directory)["new"] == 3
        assert programs.listing(node, directory)["005"] == len(b"a new version")

    storm(range(NODES), [name], one)
    assert storage.opens() == {name: 1}
    assert storage.counts()[directory].listings == 1

    # In place, so that the directory itself stays as it is.
    (backing / name).write_bytes(b"once more")
    with cluster.connect() as job:
        job.files(storage.at).refresh(name)
    for node in range(NODES):
        assert programs.listing(node, directory)["005"] == len(b"once more")
        assert programs.ask(node, FILE, name) == b"once more"


def test_refreshes_while_nodes_ask_leave_nobody_with_the_old_version(
    cluster: holdfast.LocalCluster, programs: Programs, storage: Storage, backing: Path
) -> None:
    """Who was told early must not learn the old version again from one who is told late."""
    name = "lib/package-0/000"
    stop = threading.Event()
    seen: list[bytes] = []

    def asking(node: int) -> None:
        while not stop.is_set():
            seen.append(programs.read(node, name))

    threads = [threading.Thread(target=asking, args=(node,)) for node in range(NODES)]
    for thread in threads:
        thread.start()
    with cluster.connect() as job:
        files = job.files(storage.at)
        for version in range(20):
            content = b"version %d" % version
            (backing / "next").write_bytes(content)
            os.replace(backing / "next", backing / name)
            assert files.refresh(name).missed == []
            for node in range(NODES):
                assert programs.ask(node, FILE, name) == content
    stop.set()
    for thread in threads:
        thread.join()
    assert set(seen) <= {b"version %d" % version for version in range(20)} | {b""}


def test_a_file_replaced_or_deleted_in_the_middle_is_one_version_or_none(
    cluster: holdfast.LocalCluster, programs: Programs, storage: Storage, backing: Path
) -> None:
    versions = [bytes([n]) * (300_000 + n) for n in range(60)]
    changing = backing / "changing"
    changing.write_bytes(versions[0])
    stop = threading.Event()

    def change() -> None:
        for version in versions[1:]:
            if len(version) % 3 == 0:
                changing.unlink()
            (backing / "next").write_bytes(version)
            os.replace(backing / "next", changing)
            if stop.wait(0.01):
                return

    writer = threading.Thread(target=change)
    writer.start()
    try:
        for turn in range(40):
            try:
                assert programs.ask(turn % NODES, FILE, "changing") in versions
            except NotCached:
                continue
    finally:
        stop.set()
        writer.join()
    with cluster.connect() as job:
        job.files(storage.at).refresh("changing")
    for node in range(NODES):
        assert programs.ask(node, FILE, "changing") == changing.read_bytes()


def _socket(programs: Programs, node: int) -> str:
    return programs.cluster.nodes[node].member.socket


def test_a_tier_that_is_full_evicts_and_the_bytes_are_right(
    tmp_path: Path, backing: Path, data: dict[str, bytes]
) -> None:
    small = {**SETTINGS, "memory": "2 MiB"}  # of about 4.5 MB
    with (
        Storage(backing, tmp_path / "shared", nodes=3) as storage,
        holdfast.local_cluster(nodes=3, storage=storage, **small) as cluster,
    ):
        programs = Programs(cluster, storage.at)

        def one(node: int, name: str) -> None:
            assert programs.read(node, name) == data[name]

        for _ in range(2):
            storm(range(3), sorted(data), one)
        assert counted(cluster, "evicted") > 0
        for node in nodes_of(cluster).values():
            memory = node.tiers["memory"]
            assert memory["occupied"] + memory["reserved"] <= memory["capacity"]
        programs.client.close()


def test_young_files_are_passed_on_but_not_kept(
    cluster: holdfast.LocalCluster, programs: Programs, storage: Storage, data: dict[str, bytes]
) -> None:
    name = sorted(data)[4]
    path = os.path.join(programs.root, os.fsencode(name))
    for _ in range(2):
        descriptor, _ = programs.client.tree(
            _socket(programs, 1), FILE, programs.root, path, 0, 3600 * 10**9
        )
        assert os.pread(descriptor, 1 << 20, 0) == data[name]
        os.close(descriptor)
    assert storage.opens() == {name: 2}
    assert storage.opens(HOST) == {}
    assert all(node.files.files == 0 for node in nodes_of(cluster).values())


def test_a_time_to_live_makes_nodes_look_again(
    tmp_path: Path, backing: Path, data: dict[str, bytes]
) -> None:
    with (
        Storage(backing, tmp_path / "shared", nodes=3) as storage,
        holdfast.local_cluster(nodes=3, storage=storage, tree_ttl="0.3 s", **SETTINGS) as cluster,
    ):
        programs = Programs(cluster, storage.at)
        name = sorted(data)[6]
        for node in range(3):
            assert programs.ask(node, FILE, name) == data[name]
        (backing / name).write_bytes(b"changed")
        for node in range(3):
            wait_for(lambda node=node: programs.ask(node, FILE, name) == b"changed")
        programs.client.close()


def test_copies_may_lie_on_the_disk(tmp_path: Path, backing: Path, data: dict[str, bytes]) -> None:
    with (
        Storage(backing, tmp_path / "shared", nodes=NODES) as storage,
        holdfast.local_cluster(nodes=NODES, storage=storage, tree_tier="disk", **SETTINGS) as some,
    ):
        programs = Programs(some, storage.at)
        for _ in range(2):
            everywhere(programs, data)
        assert storage.opens() == dict.fromkeys(data, 1)
        for node in some.nodes:
            assert len(os.listdir(node.tiers.disk_dir)) >= len(data)
            assert os.listdir(node.tiers.memory_dir) == []
        programs.client.close()
