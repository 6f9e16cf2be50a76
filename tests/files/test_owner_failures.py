"""Owners of files die, stop, are cut off and return: a read is right, and the storage is spared."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from epochs import epoch
from support.counters import copies_in, nodes_of
from support.requirements import needs_networks
from support.settings import SETTINGS
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.launch.networks import Networks
from holdfast.session import session as sessions
from holdfast.testing.countfs import HOST, CountingFS

VICTIM = 2


def share_of(storage: CountingFS, node: int) -> set[str]:
    """The files that a node has read from the storage."""
    return set(storage.opens(node))


def test_recache_costs_one_read_of_the_storage_for_each_lost_file(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    lost = share_of(storage, VICTIM)
    assert lost
    storage.reset()
    cluster.kill(VICTIM)
    for _ in range(3):
        epoch(files, data)
    assert storage.opens() == dict.fromkeys(lost, 1)
    assert storage.opens(HOST) == {}
    assert files.stats().failures >= 1


def test_redirect_reads_the_storage_each_time(
    cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes]
) -> None:
    with cluster.connect() as job:
        files = job.files(storage.at, on_failure="redirect")
        epoch(files, data)
        lost = share_of(storage, VICTIM)
        storage.reset()
        cluster.stop(VICTIM)  # stopped, not dead: its share has no other owner for a while
        name = sorted(lost)[0]
        for count in range(1, 3):
            assert files.read(name) == data[name]
            assert storage.opens(HOST) == {name: count}
        cluster.resume(VICTIM)


def test_abort_raises_and_names_the_node(
    cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes]
) -> None:
    with cluster.connect() as job:
        files = job.files(storage.at, on_failure="abort")
        epoch(files, data)
        name = sorted(share_of(storage, VICTIM))[0]
        cluster.kill(VICTIM)
        with pytest.raises(errors.Unavailable, match=f"node-{VICTIM}.*recache"):
            files.read(name)


def test_with_two_copies_a_death_costs_no_read_of_the_storage(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at, copies=2)
    epoch(files, data)
    assert storage.opens() == dict.fromkeys(data, 1)
    wait_for(lambda: copies_in(cluster) == 2 * len(data))
    cluster.kill(VICTIM)
    for _ in range(2):
        epoch(files, data)
    assert storage.opens() == dict.fromkeys(data, 1)


def test_with_two_copies_lost_ones_are_restored_so_that_a_second_death_costs_none_either(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at, copies=2)
    epoch(files, data)
    wait_for(lambda: copies_in(cluster) == 2 * len(data))
    for victim in (VICTIM, 3):
        cluster.kill(victim)
        epoch(files, data)
        if victim == VICTIM:
            wait_for(lambda: copies_in(cluster) == 2 * len(data))
    epoch(files, data)
    assert storage.opens() == dict.fromkeys(data, 1)


def test_a_stopped_owner_is_done_without_and_used_again_when_it_goes_on(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    lost = share_of(storage, VICTIM)
    storage.reset()
    cluster.stop(VICTIM)
    epoch(files, data)
    epoch(files, data)
    assert storage.opens() == dict.fromkeys(lost, 1)
    assert files.stats().failures <= int(SETTINGS["file_strikes"])  # so many deadlines, no more
    cluster.resume(VICTIM)
    wait_for(lambda: len(job.nodes) == 4 or epoch(files, data) is not None)
    epoch(files, data)
    # Programs leave it alone for a little while yet; its stand-in may have given its copy back.
    assert set(storage.opens().values()) <= {1, 2}
    wait_for(lambda: any(node.restoring.trimmed for node in nodes_of(cluster).values()))
    served = nodes_of(cluster)[f"node-{VICTIM}"].files.remote
    wait_for(
        lambda: epoch(files, data) or nodes_of(cluster)[f"node-{VICTIM}"].files.remote > served
    )


def test_two_of_four_killed(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    lost = share_of(storage, 1) | share_of(storage, VICTIM)
    storage.reset()
    cluster.kill(1)
    cluster.kill(VICTIM)
    for _ in range(2):
        epoch(files, data)
    assert storage.opens() == dict.fromkeys(lost, 1)


def test_all_killed_and_the_program_still_ends_right(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    opened = files.open("part-0/003")
    for node in range(4):
        cluster.kill(node)
    epoch(files, data)
    assert opened.read() == data["part-0/003"]  # a descriptor outlives who passed it
    opened.close()
    with files.open("part-1/004") as file:
        assert file.read() == data["part-1/004"]
    assert files.stat("part-1/004").st_size == len(data["part-1/004"])
    assert storage.total(HOST).opens > 0


def test_a_node_that_returns_gets_its_share_back_without_the_storage_and_serves_it(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    share = share_of(storage, VICTIM)
    cluster.kill(VICTIM)
    epoch(files, data)
    storage.reset()
    cluster.restart(VICTIM)

    back = f"node-{VICTIM}"
    wait_for(
        lambda: (
            back in (nodes := nodes_of(cluster))
            and nodes[back].tiers["memory"]["objects"] == len(share)
        )
    )
    with cluster.connect() as later:
        epoch(later.files(storage.at), data)
    assert storage.opens() == {}
    assert nodes_of(cluster)[back].files.remote == len(share)
    # A program that was there before hears of it in a moment; until then it asks those who took
    # over, and they may have given their copies back.
    wait_for(lambda: epoch(files, data) or nodes_of(cluster)[back].files.remote > len(share))
    assert storage.opens().keys() <= share
    assert set(storage.opens().values()) <= {1}


def test_who_was_away_when_a_file_was_refreshed_looks_again_before_it_serves(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes],
    backing: Path,
) -> None:  # fmt: skip
    files = job.files(storage.at)
    epoch(files, data)
    names = sorted(share_of(storage, VICTIM))
    cluster.stop(VICTIM)
    for name in names:
        (backing / name).write_bytes(b"new " + data[name])
    done = files.refresh()
    assert done.missed in ([], [f"node-{VICTIM}"])  # not counted any more, or named
    cluster.resume(VICTIM)
    with cluster.connect(VICTIM) as there:
        others = there.files(storage.at)
        for name in names:
            assert files.read(name) == b"new " + data[name]
            assert others.read(name) == b"new " + data[name]


@pytest.mark.parametrize("failed", ["killed", "stopped"])
def test_an_owner_that_fails_between_two_reads_of_one_open_file_costs_no_byte(
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    storage: CountingFS,
    data: dict[str, bytes],
    failed: str,
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    name = next(name for name in sorted(share_of(storage, VICTIM)) if len(data[name]) > 100)
    with files.open(name) as file:
        first = file.read(50)
        (cluster.kill if failed == "killed" else cluster.stop)(VICTIM)
        assert first + file.read() == data[name]
    if failed == "stopped":
        cluster.resume(VICTIM)


def test_killed_in_the_middle_of_a_fill_and_another_takes_over(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    name = next(name for name in sorted(share_of(storage, VICTIM)) if len(data[name]) > 100)
    os.utime(storage.backing / name)
    files.refresh(name)
    storage.hang(name, "read")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(files.read(name)))
    reader.start()
    wait_for(lambda: storage.opens(VICTIM).get(name, 0) == 2)
    cluster.kill(VICTIM)
    storage.heal()
    reader.join(30)
    assert got == [data[name]]


def test_a_dataset_larger_than_the_cache_works(storage: CountingFS, data: dict[str, bytes]) -> None:
    small = {**SETTINGS, "memory": "1 MiB", "disk": "64 KiB", "file_largest": "1 MiB"}
    total = sum(map(len, data.values()))
    assert total > 2 << 20
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **small) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        for _ in range(3):
            epoch(files, data)
        for node in nodes_of(cluster).values():
            memory = node.tiers["memory"]
            assert 0 < memory["occupied"] + memory["reserved"] <= memory["capacity"]
            assert node.counters["evicted"] > 0


def test_a_corrupted_copy_is_found_and_read_again(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    spoilt = 0
    for agent in sessions.agents(cluster.directory):
        for path in map(Path, agent.tiers.in_memory()):
            if path.stat().st_size >= 4096:
                path.chmod(0o600)
                with open(path, "r+b") as file:
                    byte = file.read(1)[0]
                    file.seek(0)
                    file.write(bytes([byte ^ 1]))
                spoilt += 1
    assert spoilt > 10
    for _ in range(3):
        epoch(files, data)
    found = sum(node.counters["damaged"] for node in nodes_of(cluster).values())
    assert found == spoilt  # each was counted, once


def test_a_tier_that_is_removed_costs_the_cache_and_nothing_else(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    for agent in sessions.agents(cluster.directory):
        for path in agent.tiers.in_memory():
            os.unlink(path)
        shutil.rmtree(agent.tiers.memory_dir)
    for _ in range(2):
        epoch(files, data)
        with files.open("part-2/005") as file:
            assert file.read() == data["part-2/005"]


@needs_networks
def test_a_cut_and_its_healing_show_in_no_byte(storage: CountingFS, data: dict[str, bytes]) -> None:
    timers = {**SETTINGS, "partition_wait": "0.5 s"}
    with (
        Networks.make(4) as made,
        holdfast.local_cluster(nodes=4, networks=made, storage=storage, **timers) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        epoch(files, data)
        for other in (0, 1, 3):
            made.cut(VICTIM, other)
            made.cut(other, VICTIM)
        wait_for(lambda: nodes_of(cluster)["node-0"].state == "alive" and _dead(cluster, VICTIM))
        epoch(files, data)
        with cluster.connect(VICTIM) as there:
            epoch(there.files(storage.at), data)  # on the other side of the cut
        made.heal()
        wait_for(lambda: not _dead(cluster, VICTIM))
        for _ in range(2):
            epoch(files, data)


@needs_networks
def test_who_was_taken_for_dead_behind_a_cut_looks_again_before_it_serves(
    storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    with (
        Networks.make(4) as made,
        holdfast.local_cluster(nodes=4, networks=made, storage=storage, **SETTINGS) as cluster,
        cluster.connect(VICTIM) as there,
    ):
        files = there.files(storage.at)
        epoch(files, data)
        names = sorted(share_of(storage, VICTIM))
        assert names
        for other in (0, 1, 3):
            made.cut(VICTIM, other)
            made.cut(other, VICTIM)
        wait_for(lambda: _dead(cluster, VICTIM))
        # Nobody refreshes them, so that nothing tells the node of the change but its own doubt.
        for name in names:
            (backing / name).write_bytes(b"new " + data[name])
            assert files.read(name) == data[name]
        made.heal()
        wait_for(lambda: not _dead(cluster, VICTIM))
        for name in names:
            assert files.read(name) == b"new " + data[name]


def _dead(cluster: holdfast.LocalCluster, node: int) -> bool:
    return nodes_of(cluster)[f"node-{node}"].state == "dead"
