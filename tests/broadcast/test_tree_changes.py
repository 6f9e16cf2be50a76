"""Files and directories change, tiers fill up, nodes stand in racks."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asking_trees import FILE, NODES, PART, SETTINGS, Programs, storm
from support import frames
from support.counters import counted, nodes_of
from support.waits import wait_for

import holdfast
from holdfast import _core
from holdfast.errors import NotCached
from holdfast.launch.launchers import local
from holdfast.launch.starter import Starter
from holdfast.session.node import Orders
from holdfast.testing.countfs import HOST, CountingFS


def everywhere(programs: Programs, data: dict[str, bytes]) -> None:
    """Let every node have all files and the listings of their directories."""

    def one(node: int, name: str) -> None:
        assert programs.ask(node, FILE, name) == data[name]
        programs.listing(node, os.path.dirname(name))

    storm(range(NODES), sorted(data), one)


def test_a_refresh_reaches_every_node_and_the_listing_of_the_directory(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes],
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
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, backing: Path
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
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, backing: Path
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
    small = {**SETTINGS, "memory": "2 MiB", "disk": "2 MiB"}  # of about 4.5 MB
    with (
        CountingFS(backing, tmp_path / "shared", nodes=3) as storage,
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
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes]
) -> None:
    name = sorted(data)[4]
    path = os.path.join(programs.root, os.fsencode(name))
    for _ in range(2):
        descriptor, _ = frames.tree(
            _socket(programs, 1), FILE, programs.root, path, settled_ns=3600 * 10**9
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
        CountingFS(backing, tmp_path / "shared", nodes=3) as storage,
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
        CountingFS(backing, tmp_path / "shared", nodes=NODES) as storage,
        holdfast.local_cluster(nodes=NODES, storage=storage, tree_tier="disk", **SETTINGS) as some,
    ):
        programs = Programs(some, storage.at)
        for _ in range(2):
            everywhere(programs, data)
        assert storage.opens() == dict.fromkeys(data, 1)
        for node in some.nodes:
            assert len(os.listdir(node.tiers.disk_dir)) >= len(data)
            assert node.tiers.in_memory() == []
        programs.client.close()


def test_one_look_at_everything_does_not_drive_out_what_is_in_use(
    tmp_path: Path, backing: Path
) -> None:
    names = [f"{number:02}" for number in range(60)]
    for name in names:
        (backing / name).write_bytes(name.encode() * 50_000)
    used, others = names[:5], names[5:]
    small = {**SETTINGS, "memory": "2 MiB", "disk": "2 MiB"}  # of 6 MB
    with (
        CountingFS(backing, tmp_path / "shared", nodes=2) as storage,
        holdfast.local_cluster(nodes=2, storage=storage, **small) as cluster,
    ):
        programs = Programs(cluster, storage.at)

        def one(node: int, name: str) -> None:
            assert programs.ask(node, FILE, name) == name.encode() * 50_000

        for _ in range(3):  # 4 programs on each node
            storm(range(2), used, one)
        for name in others:
            one(0, name)
            one(1, name)
        assert counted(cluster, "evicted") > 0
        storage.reset()
        storm(range(2), used, one)
        assert storage.opens() == {}
        programs.client.close()


def test_parts_are_kept_where_there_is_room_and_drive_nothing_out(
    tmp_path: Path, backing: Path, data: dict[str, bytes]
) -> None:
    content = os.urandom(6 * _core.PART_BYTES)
    (backing / "large").write_bytes(content)
    small = {**SETTINGS, "memory": "16 MiB"}  # 4.5 MB of small files, and 24 MiB
    with (
        CountingFS(backing, tmp_path / "shared", nodes=3) as storage,
        holdfast.local_cluster(nodes=3, storage=storage, **small) as cluster,
    ):
        programs = Programs(cluster, storage.at)
        small_files = [*data]
        storm(range(3), small_files, lambda node, name: programs.ask(node, FILE, name) and None)
        for _ in range(2):
            for node in range(3):
                parts = [programs.ask(node, PART, "large", part) for part in range(6)]
                assert b"".join(parts) == content
        [head] = [node for node in range(3) if "large" in storage.opens(node)]
        readers = [node for node in range(3) if node != head]
        for node, status in nodes_of(cluster).items():
            memory = status.tiers["memory"]
            assert memory["occupied"] + memory["reserved"] <= memory["capacity"]
            if node != f"node-{head}":
                assert status.counters["evicted"] == 0
                kept = memory["bytes"] - sum(map(len, data.values()))
                assert kept >= _core.PART_BYTES  # what there is room for
        storage.reset()
        storm(readers, small_files, lambda node, name: programs.ask(node, FILE, name) and None)
        assert storage.opens() == {}
        programs.client.close()


def test_each_file_enters_a_rack_once(
    tmp_path: Path, backing: Path, data: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents with labels, and what each of them passed on: as the trees of racks have it."""
    racks = {f"node-{node}": "abc"[node // 3] for node in range(NODES)}
    start = local.start

    def with_label(orders: Orders, node: str, *rest: Any, **more: Any) -> Starter:
        config = msgspec.structs.replace(orders.config, rack=racks[node])
        return start(msgspec.structs.replace(orders, config=config), node, *rest, **more)

    monkeypatch.setattr(local, "start", with_label)
    with (
        CountingFS(backing, tmp_path / "shared", nodes=NODES) as storage,
        holdfast.local_cluster(nodes=NODES, storage=storage, **SETTINGS) as cluster,
    ):
        assert {node.member.node: node.member.rack for node in cluster.nodes} == racks
        programs = Programs(cluster, storage.at)
        storm(
            range(NODES), sorted(data), lambda node, name: programs.ask(node, FILE, name) and None
        )
        sent = {name: node.counters["tree_bytes_down"] for name, node in nodes_of(cluster).items()}
        assert counted(cluster, "tree_hops") == (NODES - 1) * len(data)  # nobody asked twice
        assert storage.opens() == dict.fromkeys(data, 1)
        ring = _core.Ring(sorted(racks), cluster.config.virtual_nodes)
        trees = _core.Trees(ring, [racks[node] for node in ring.nodes], SETTINGS["tree_degree"])
        expected = dict.fromkeys(racks, 0)
        for name, content in data.items():
            above = {
                node: trees.ancestors(_core.FILE_PREFIX + os.fsencode(storage.at / name), node)[:1]
                for node in racks
            }
            for way in above.values():
                for parent in way:
                    expected[parent] += len(content)
            crossings = [n for n, way in above.items() if way and racks[way[0]] != racks[n]]
            assert len({racks[node] for node in crossings}) == len(crossings) == 2
        assert sent == expected
        programs.client.close()
