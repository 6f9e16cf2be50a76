"""Programs on the host of a spare: its agent owns nothing, and serves them like any other."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import HOLDFAST, run_in
from support.settings import UNHURRIED

import holdfast
from holdfast.files.mount import control

FILES = {f"file-{number}": os.urandom(5000 + number) for number in range(20)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    return path


@pytest.fixture
def cluster() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=3, spares=1, **UNHURRIED) as agents:
        yield agents
        control.stop_all(agents.directory)


def on_spare(cluster: holdfast.LocalCluster, *command: object) -> str:
    variables = {f"HOLDFAST_{name.upper()}": value for name, value in UNHURRIED.items()}
    done = run_in(cluster.directory, *command, **variables, HOLDFAST_NODE="node-2")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def status(cluster: holdfast.LocalCluster) -> list[dict[str, dict[str, int]]]:
    found: list[dict[str, dict[str, int]]] = json.loads(
        run_in(cluster.directory, HOLDFAST, "status", "--json").stdout
    )["nodes"]
    return found


def counted(cluster: holdfast.LocalCluster, counter: str) -> list[int]:
    return [node["counters"][counter] for node in status(cluster)]


def test_files_are_read_from_their_owners(cluster: holdfast.LocalCluster, root: Path) -> None:
    with cluster.connect(node=2) as job:
        files = job.files(root)
        assert files.warm().files == len(FILES)
        assert {name: files.read(name) for name in FILES} == FILES
    first, second, spare = counted(cluster, "file_fills")
    assert first + second == len(FILES)
    assert spare == 0
    assert status(cluster)[2]["files"]["files"] == 0


def test_programs_run_with_copies(cluster: holdfast.LocalCluster, root: Path) -> None:
    code = "import sys, zlib; print(*(zlib.crc32(open(f, 'rb').read()) for f in sys.argv[1:]))"
    names = sorted(FILES)
    program = ["python", "-c", code, *(root / name for name in names)]
    for _ in range(2):
        said = on_spare(cluster, HOLDFAST, "run", "--root", root, "--", *program)
        assert said.split() == [str(zlib.crc32(FILES[name])) for name in names]
    assert counted(cluster, "file_fetched")[2] == 2 * len(FILES)
    assert sum(counted(cluster, "file_fills")) == len(FILES)
    assert counted(cluster, "file_fills")[2] == 0


def test_a_mount_shows_the_files(
    cluster: holdfast.LocalCluster, root: Path, tmp_path: Path
) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    on_spare(cluster, HOLDFAST, "mount", point, "--root", root)
    shown = Path(f"{point}{root}")
    assert {path.name: path.read_bytes() for path in shown.iterdir()} == FILES
    read = counted(cluster, "tree_read_files")
    assert sum(read[:2]) == len(FILES)
    assert read[2] == 0, "a spare is no head of a tree"
    assert counted(cluster, "tree_hops")[2] > 0
    on_spare(cluster, HOLDFAST, "umount", point)
