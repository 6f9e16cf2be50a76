"""Refreshing where a mount is stuck: all others look again, and nobody waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from mounted import through
from support.commands import HOLDFAST, run_in
from support.settings import config_of
from support.waits import WITHIN

import holdfast
from holdfast.client.connection import Connection
from holdfast.client.messages import ViewReply, ViewRequest
from holdfast.files.mount import control
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def nodes() -> int:
    return 1


def refresh(cluster: holdfast.LocalCluster, *words: object) -> subprocess.CompletedProcess[str]:
    return run_in(cluster.directory, HOLDFAST, "refresh", *words)


def change(backing: Path, text: str) -> None:
    (backing / "new").write_text(text)
    (backing / "new").replace(backing / "file")


def test_a_stuck_mount_is_named_and_the_others_look_again(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    points = [tmp_path / f"m{number}" for number in range(3)]
    with (
        through(cluster, points[0], storage.at) as first,
        through(cluster, points[1], storage.at) as second,
        through(cluster, points[2], storage.at) as third,
    ):
        for view in (first, second, third):
            assert (view / "file").read_text() == "old"
        change(backing, "new, and longer")
        with first.stopped(), second.stopped():
            done = refresh(cluster, storage.at)
            assert done.returncode == 5
            assert done.stdout == f"Refreshed {storage.at} on 0 nodes.\n"
            for point in points[:2]:
                assert f"node-0:{point}" in done.stderr
            assert str(points[2]) not in done.stderr
            assert "refresh again" in done.stderr
            assert (third / "file").read_text() == "new, and longer"
        done = refresh(cluster, storage.at, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert msgspec.json.decode(done.stdout) == {"nodes": ["node-0"], "missed": [], "mounts": []}
        for view in (first, second):
            assert (view / "file").read_text() == "new, and longer"


def test_a_mount_without_a_supervisor_is_told_as_well(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    with through(cluster, tmp_path / "mnt", storage.at) as view:
        assert (view / "file").read_text() == "old"
        [mount] = control.of_session(cluster.directory).values()
        os.kill(mount.supervisor.pid, signal.SIGKILL)
        change(backing, "new, and longer")
        with view.stopped(), cluster.connect() as job:
            assert job.files(storage.at).refresh().mounts == [f"node-0:{view.point}"]
        with cluster.connect() as job:
            assert job.files(storage.at).refresh().nodes == ["node-0"]
        assert (view / "file").read_text() == "new, and longer"


def test_the_agent_goes_on_while_a_mount_is_stuck(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    with (
        through(cluster, tmp_path / "mnt", storage.at) as view,
        cluster.connect() as job,
        ThreadPoolExecutor(1) as pool,
        view.stopped(),
    ):
        connection = Connection(cluster.directory, config_of(cluster))
        [member] = connection.routing.live
        answered = False
        for _ in range(5):  # a busy machine may need several
            refreshed = pool.submit(job.files(storage.at).refresh)
            time.sleep(0.2)  # so that the agent has heard of it: it answers in that order
            answer = connection.client.call(
                member.socket, "membership", "view", msgspec.msgpack.encode(ViewRequest()), WITHIN
            )
            assert msgspec.msgpack.decode(answer, type=ViewReply).entries
            answered = not refreshed.done()
            assert refreshed.result(WITHIN).missed == ["node-0"]
            if answered:
                break
        assert answered, "the agent waited for a mount"
        connection.client.close()
