"""Heads, inner nodes and leaves die and stop in the middle: everybody reads the right bytes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from asking_trees import FILE, SETTINGS, Programs, node_view, storm
from support.counters import counted, nodes_of
from support.requirements import needs_networks
from support.waits import wait_for

import holdfast
from holdfast import _core
from holdfast.files.refresh import Refresh
from holdfast.launch import networks
from holdfast.membership.owners import Owners
from holdfast.membership.view import Entry, State, View
from holdfast.testing.countfs import CountingFS

NODES = 8


@pytest.fixture
def storage(tmp_path: Path, backing: Path) -> Iterator[CountingFS]:
    """A slow one, so that requests are under way when something happens."""
    with CountingFS(backing, tmp_path / "shared", nodes=NODES, open_delay="5 ms") as shown:
        yield shown


def above(cluster: holdfast.LocalCluster, root: Path, name: str, node: int) -> list[int]:
    """Who stands above a node in the tree of a file, while all live."""
    members = [one.member for one in cluster.nodes]
    owners = Owners(View([Entry(member, 0, State.ALIVE) for member in members]), 100)
    names = [member.node for member in members]
    racks = [members[names.index(node)].rack for node in owners.ring.nodes]
    trees = _core.Trees(owners.ring, racks, SETTINGS["tree_degree"])
    key = _core.FILE_PREFIX + os.fsencode(root / name)
    return [names.index(one) for one in trees.ancestors(key, names[node])]


def victims(cluster: holdfast.LocalCluster, root: Path, name: str) -> dict[str, int]:
    """A head, an inner node and a leaf of the tree of a file."""
    ways = {node: above(cluster, root, name, node) for node in range(NODES)}
    inner = {way[0] for way in ways.values() if way}
    return {
        "head": next(node for node, way in ways.items() if not way),
        "inner": next(node for node, way in ways.items() if way and node in inner),
        "leaf": next(node for node in ways if node not in inner),
    }


@pytest.mark.parametrize("who", ["head", "inner", "leaf"])
@pytest.mark.parametrize("way", ["kill", "stop"])
def test_nobody_notices_who_fails_in_the_middle(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes],
    who: str, way: str,
) -> None:  # fmt: skip
    victim = victims(cluster, storage.at, sorted(data)[0])[who]
    begun = threading.Event()

    def one(node: int, name: str) -> None:
        # From the agents alone: nobody needs the storage because of a failure.
        assert programs.ask(node, FILE, name) == data[name]
        begun.set()

    def fail() -> None:
        begun.wait()
        getattr(cluster, way)(victim)

    failing = threading.Thread(target=fail)
    failing.start()
    try:
        storm([node for node in range(NODES) if node != victim], sorted(data), one)
    finally:
        failing.join()
        if way == "stop":
            cluster.resume(victim)
    # What the victim had read, another head read once more; views may differ for a moment.
    assert max(storage.opens().values()) <= 3
    assert sum(storage.opens().values()) <= 2 * len(data)


def test_half_of_the_nodes_die_and_the_others_go_on(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes]
) -> None:
    def kill() -> None:
        time.sleep(0.05)
        for node in range(4, NODES):
            cluster.kill(node)

    killing = threading.Thread(target=kill)
    killing.start()

    def one(node: int, name: str) -> None:
        assert programs.read(node, name) == data[name]

    storm(range(4), sorted(data), one)
    killing.join()
    # Once the views agree the storage is at rest again.
    wait_for(lambda: all(len(node_view(cluster, node)) == 4 for node in range(4)))
    storm(range(4), sorted(data), one)
    storage.reset()
    storm(range(4), sorted(data), one)
    assert storage.opens() == {}


def test_a_stopped_node_that_goes_on_has_right_bytes_and_takes_part(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes],
    backing: Path,
) -> None:  # fmt: skip
    def one(node: int, name: str) -> None:
        assert programs.ask(node, FILE, name) == data[name]

    storm(range(NODES), sorted(data), one)
    cluster.stop(3)
    name = sorted(data)[5]
    (backing / name).write_bytes(b"changed meanwhile")
    with cluster.connect() as job:
        assert job.files(storage.at).refresh(name).missed == ["node-3"]
    assert programs.ask(0, FILE, name) == b"changed meanwhile"
    cluster.resume(3)
    data[name] = b"changed meanwhile"
    wait_for(lambda: programs.ask(3, FILE, name) == data[name])
    wait_for(lambda: len(nodes_of(cluster)) == NODES)
    storm(range(NODES), sorted(data), one)


def test_a_slow_storage_is_not_taken_for_a_dead_head(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes]
) -> None:
    """Longer than any deadline of a hop: the one above says that it lives."""
    name = sorted(data)[3]
    storage.hang(name, "open")
    got: list[bytes] = []
    asking = [
        threading.Thread(target=lambda node=node: got.append(programs.ask(node, FILE, name)))
        for node in range(NODES)
    ]
    for thread in asking:
        thread.start()
    time.sleep(2.5)  # file_deadline is 0.5 s
    storage.heal()
    for thread in asking:
        thread.join()
    assert got == [data[name]] * NODES
    assert storage.opens() == {name: 1}
    assert counted(cluster, "tree_failures") == 0


def test_a_refresh_that_comes_while_a_parent_is_silent_is_not_undone_by_the_one_above_it(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes],
    backing: Path,
) -> None:  # fmt: skip
    """Who has not heard of it yet gives the old version, which nobody may keep as the new one."""
    name, node, parent, upper = next(
        (name, node, way[0], way[1])
        for name in sorted(data)
        for node in range(NODES)
        if len(way := above(cluster, storage.at, name, node)) > 1
    )
    assert programs.ask(upper, FILE, name) == data[name]
    message = msgspec.msgpack.encode(Refresh([os.fsencode(storage.at / name)], 12345))

    def tell(node: int) -> None:
        agent = cluster.nodes[node].member.socket
        programs.client.wait(agent, "files", "refresh", message).result()

    cluster.stop(parent)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(programs.ask, node, FILE, name)
        time.sleep(0.2)  # it waits for its parent, for half a second at least
        assert not asking.done()
        (backing / name).write_bytes(b"a new version")
        tell(node)
        assert asking.result() in (data[name], b"a new version")
    cluster.resume(parent)
    for other in set(range(NODES)) - {node}:
        tell(other)
    assert programs.ask(node, FILE, name) == b"a new version"


@needs_networks
def test_both_sides_of_a_cut_read_on_and_are_one_again_when_it_is_healed(
    storage: CountingFS, data: dict[str, bytes]
) -> None:
    names = sorted(data)
    soon = {**SETTINGS, "avoid": "0.2 s"}  # until who failed is asked again
    with (
        networks.Networks.make(6) as nets,
        holdfast.local_cluster(nodes=6, networks=nets, storage=storage, **soon) as cluster,
    ):
        programs = Programs(cluster, storage.at)

        def one(node: int, name: str) -> None:
            assert programs.ask(node, FILE, name) == data[name]

        storm(range(6), names[:20], one)
        assert storage.opens() == dict.fromkeys(names[:20], 1)
        for near in range(3):
            for far in range(3, 6):
                nets.cut(near, far)
                nets.cut(far, near)
        storm(range(6), names[20:45], one)
        nets.heal()
        wait_for(lambda: all(len(node_view(cluster, node)) == 6 for node in range(6)))
        time.sleep(0.5)
        storage.reset()
        storm(range(6), names[45:], one)
        assert storage.opens() == dict.fromkeys(names[45:], 1)  # one head for each
        programs.client.close()
