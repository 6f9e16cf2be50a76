"""Memory that is full of objects, which nobody evicts: files find room on the disk, or none."""

from __future__ import annotations

import os
import subprocess

import pytest
from epochs import epoch
from support.commands import HOLDFAST, leading_to
from support.counters import counted, nodes_of
from support.settings import SETTINGS

import holdfast
from holdfast.errors import Full
from holdfast.files import Files, broadcast
from holdfast.testing.countfs import CountingFS


def fill_up(job: holdfast.Job, tier: str, size: int = 1 << 20) -> None:
    """Put objects until nothing more fits, on both nodes."""
    number = 0
    while size >= 4096:
        try:
            job.objects.put(f"{tier}/{number}", os.urandom(size), copies=2, tier=tier)
        except Full:
            size //= 2
        number += 1


def opened(files: Files, data: dict[str, bytes]) -> None:
    """Read every file by the descriptor that our own agent passes."""
    for name, content in data.items():
        with files.open(name) as file:
            assert file.read() == content, name


def run_cat(cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes]) -> None:
    """Read every file by a program that knows nothing of Holdfast."""
    environment = os.environ | leading_to(cluster.directory) | {"HOLDFAST_NODE": "node-0"}
    settings = [f"--set={name}={value}" for name, value in SETTINGS.items() if "file" in name]
    holdfast_run = [HOLDFAST, "run", *settings]
    root = storage.at
    names = [str(root / name) for name in data]
    ran = subprocess.run(
        [*storage.under(0), *holdfast_run, "--root", str(root), "--", "cat", *names],
        env=environment,
        capture_output=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == b"".join(data.values())


@pytest.mark.parametrize("file_tier", ["memory", "disk"])
def test_files_of_other_nodes_go_through_the_disk(
    storage: CountingFS, data: dict[str, bytes], file_tier: str
) -> None:
    settings = {**SETTINGS, "memory": "8 MiB", "disk": "64 MiB", "file_tier": file_tier}
    settings["file_largest"] = "1 MiB"
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
        cluster.connect() as job,
    ):
        fill_up(job, "memory")
        kept = {info.key for info in job.objects.list()}
        files = job.files(storage.at)
        warmed = files.warm()
        assert (warmed.cached, warmed.left_out) == (len(data), 0)
        storage.reset()
        for read in (epoch, opened):
            read(files, data)
            assert storage.opens() == {}, read.__name__
        run_cat(cluster, storage, data)
        assert storage.opens() == {}
        assert counted(cluster, "file_spilled") > 0
        assert counted(cluster, "file_no_room") == 0
        assert {info.key for info in job.objects.list()} == kept
        for node in nodes_of(cluster).values():
            for tier in node.tiers.values():
                assert tier["occupied"] + tier["reserved"] <= tier["capacity"]
        for key in sorted(kept)[:3]:  # and the room is still that of objects
            job.objects.drop(key)
            job.objects.put(key + "/again", bytes(1 << 19), copies=2)


def test_broadcast_copies_go_to_the_disk(storage: CountingFS, data: dict[str, bytes]) -> None:
    settings = {**SETTINGS, "memory": "8 MiB", "disk": "64 MiB"}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
        cluster.connect() as job,
    ):
        fill_up(job, "memory")
        done = broadcast.broadcast(job._connection, job._config, str(storage.at), lambda _: None)
        assert (done.fetched, done.left_out) == (2 * len(data), 0)
        assert counted(cluster, "file_spilled") > 0


def test_without_any_room_the_original_is_read_once_and_that_is_counted(
    storage: CountingFS, data: dict[str, bytes]
) -> None:
    settings = {**SETTINGS, "memory": "4 MiB", "disk": "4 MiB", "file_largest": "1 MiB"}
    some = {name: content for name, content in data.items() if len(content) > 10_000}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
        cluster.connect() as job,
    ):
        fill_up(job, "memory")
        fill_up(job, "disk")
        files = job.files(storage.at)
        warmed = files.warm()
        assert warmed.cached <= len(data) - len(some)
        assert warmed.left_out >= len(some)
        for read in (epoch, opened):
            before = counted(cluster, "file_no_room")
            storage.reset()
            read(files, some)
            assert storage.opens() == dict.fromkeys(some, 1)
            assert counted(cluster, "file_no_room") - before == len(some)
