"""Warming, refreshing and looking at the cache from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from epochs import epoch
from support.commands import command

import holdfast
from holdfast.files.warm import Warmed
from holdfast.testing.countfs import HOST, CountingFS


def test_warm_fills_all_owners_and_sends_nothing_here(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    seen: list[int] = []
    total = files.warm(progress=lambda so_far: seen.append(so_far.files))
    size = sum(map(len, data.values()))
    assert total == Warmed(len(data), len(data), len(data), size, 0)
    assert seen[-1] == len(data)
    assert storage.opens() == dict.fromkeys(data, 1)
    assert storage.opens(HOST) == {}
    epoch(files, data)
    assert storage.opens() == dict.fromkeys(data, 1)


def test_a_warming_that_was_interrupted_goes_on(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)

    def interrupt(so_far: Warmed) -> None:
        if so_far.files >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.warm(parallel=1, progress=interrupt)
    before = storage.total().opens
    assert 0 < before < len(data)
    assert files.warm().cached == len(data)
    assert storage.opens() == dict.fromkeys(data, 1)


def test_warm_tells_what_it_left_out(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    os.mkfifo(backing / "fifo")
    with open(backing / "sparse", "wb") as file:
        file.truncate(5 << 30)
    total = job.files(storage.at).warm()
    assert (total.cached, total.left_out) == (len(data), 2)


def test_the_commands(
    cluster: holdfast.LocalCluster, job: holdfast.Job, storage: CountingFS, data: dict[str, bytes],
    backing: Path,
) -> None:  # fmt: skip
    done = command(cluster, "warm", str(storage.at))
    assert done.returncode == 0, done.stderr
    assert f"{len(data)} files are cached" in done.stdout
    again = json.loads(command(cluster, "warm", str(storage.at), "--json").stdout)
    assert (again["total"], again["cached"]) == (len(data), len(data))
    assert storage.opens() == dict.fromkeys(data, 1)

    name = "part-0/003"
    (backing / name).write_bytes(b"changed")
    files = job.files(storage.at)
    assert files.read(name) == data[name]
    done = command(cluster, "refresh", str(storage.at / name))
    assert done.returncode == 0, done.stderr
    assert files.read(name) == b"changed"

    status = json.loads(command(cluster, "status", "--json").stdout)
    assert sum(node["files"]["files"] for node in status["nodes"]) == len(data)
    assert sum(node["files"]["from_storage"] for node in status["nodes"]) == len(data) + 1
    before = {node["node"]: node["files"] for node in status["nodes"]}
    files.read("part-1/004")
    status = json.loads(command(cluster, "status", "--json").stdout)
    after = {node["node"]: node["files"] for node in status["nodes"]}
    [served] = [name for name in after if after[name] != before[name]]  # and no other
    kind = "local" if served == job.node else "remote"
    assert after[served] == before[served] | {kind: before[served][kind] + 1}
    shown = command(cluster, "status").stdout
    for column in ("files", "bytes", "local", "remote", "from shared", "file system", "failures"):
        assert column in shown

    wrong = command(cluster, "warm", str(storage.at / "missing"))
    assert wrong.returncode == 2
    assert "is not a directory" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_warm_says_so_when_no_agent_answers(
    cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes]
) -> None:
    for node in range(4):
        cluster.kill(node)
    done = command(cluster, "warm", str(storage.at))
    assert done.returncode != 0
    assert done.stderr == "holdfast: no agent answered; check them with `holdfast status`\n"
    assert storage.opens() == {}
