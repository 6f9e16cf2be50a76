"""`holdfast warm --broadcast`, and what is shown of trees."""

from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asking_trees import FILE, NODES, SETTINGS, Programs, node_view, storm
from support.commands import command
from support.counters import nodes_of
from support.waits import wait_for

import holdfast
from holdfast.testing.countfs import HOST, CountingFS


def test_warm_brings_everything_to_every_node_and_reads_it_once(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes],
    backing: Path,
) -> None:  # fmt: skip
    (backing / "large").write_bytes(bytes(2 << 20))
    os.symlink("lib", backing / "link")
    done = command(cluster, "warm", "--broadcast", str(storage.at), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["nodes"]) == NODES
    assert told["missed"] == []
    assert told["fetched"] == NODES * len(data)
    assert told["bytes"] == NODES * sum(map(len, data.values()))
    assert told["left_out"] == NODES
    assert storage.opens() == dict.fromkeys(data, 1)
    assert storage.opens(HOST) == {}
    assert max(one.listings for one in storage.counts().values()) == 1

    storage.reset()

    def one(node: int, name: str) -> None:
        assert programs.ask(node, FILE, name) == data[name]

    storm(range(NODES), sorted(data), one)
    assert storage.total().opens + storage.total().lookups == 0

    again = command(cluster, "warm", "--broadcast", str(storage.at))
    assert again.returncode == 0, again.stderr
    assert f"{NODES} nodes have all files that could be kept" in again.stdout
    assert "Skipped " in again.stdout
    assert storage.opens() == {}

    shown = command(cluster, "status")
    assert "broadcast" in shown.stdout
    status = json.loads(command(cluster, "status", "--json").stdout)
    hits = [node["counters"]["tree_hits"] for node in status["nodes"]]
    assert all(hits)
    assert status["trees"]["tree_hits"] == sum(hits)
    wrong = command(cluster, "warm", "--broadcast", str(storage.at / "missing"))
    assert wrong.returncode == 2
    assert "is not a directory" in wrong.stderr


def test_a_node_that_does_not_answer_is_named(
    cluster: holdfast.LocalCluster, programs: Programs, storage: CountingFS, data: dict[str, bytes]
) -> None:
    cluster.stop(6)
    done = command(cluster, "warm", "--broadcast", str(storage.at))
    said = command(cluster, "status", "--json").stdout
    cluster.resume(6)
    assert done.returncode == 0, done.stderr
    assert f"{NODES - 1} nodes have all files:" in done.stdout
    [state] = [one["state"] for one in json.loads(said)["nodes"] if one["node"] == "node-6"]
    assert "Could not reach node-6" in done.stdout or state != "alive"  # it was known to be dead
    for name in sorted(data)[:10]:
        assert programs.ask(6, FILE, name) == data[name]


def test_what_failed_before_a_node_died_is_asked_for_again(
    cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes]
) -> None:
    first, second = sorted(data)[:2]
    storage.fail(first, "open", errno.EIO)
    storage.hang(second, "open")  # as long as the broadcast goes on
    with ThreadPoolExecutor(1) as pool:
        warm = pool.submit(command, cluster, "warm", "--broadcast", str(storage.at), "--json")
        try:
            wait_for(lambda: storage.opens().get(first) and storage.opens().get(second))
            cluster.kill(6)
            wait_for(
                lambda: all(len(node_view(cluster, n)) == NODES - 1 for n in range(NODES) if n != 6)
            )
        finally:
            storage.heal()
        done = warm.result()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["left_out"] == 0
    assert told["fetched"] == (NODES - 1) * len(data)


def test_counters_of_trees_are_offered_as_metrics(
    tmp_path: Path, backing: Path, data: dict[str, bytes]
) -> None:
    with (
        CountingFS(backing, tmp_path / "shared", nodes=3) as storage,
        holdfast.local_cluster(
            nodes=3, storage=storage, metrics_file=str(tmp_path / "{node}.prom"), **SETTINGS
        ) as cluster,
    ):
        programs = Programs(cluster, storage.at)
        for _ in range(2):
            for node in range(3):
                for name, content in data.items():
                    assert programs.ask(node, FILE, name) == content
        counters = {name: node.counters for name, node in nodes_of(cluster).items()}
        programs.client.close()
    for node, counted in counters.items():
        lines = (tmp_path / f"{node}.prom").read_text().splitlines()
        for name, value in counted.items():
            if name.startswith("tree_"):
                kind = "gauge" if name == "tree_depth" else "counter"
                suffix = "_total" if kind == "counter" else ""
                assert f"# TYPE holdfast_{name} {kind}" in lines
                assert f'holdfast_{name}{suffix}{{node="{node}"}} {value}' in lines
        assert counted["tree_hits"] >= len(data)
        assert counted["tree_misses_file"] > 0
        assert counted["tree_hops"] > 0
        assert counted["tree_hop_us"] > 0
