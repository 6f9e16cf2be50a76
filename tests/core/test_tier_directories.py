"""Whose the directories of tiers are, and who removes them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import HOLDFAST, run_at

import holdfast
from holdfast.errors import HoldfastError
from holdfast.session import processes, tiers
from holdfast.session import session as sessions

KEY = bytes(range(32))
LONG_AGO = 1_000_000_000


@pytest.fixture
def run_dirs() -> Iterator[list[Path]]:
    """Two directories of sessions, in each of which at most one session is left running."""
    with tempfile.TemporaryDirectory() as made:  # a short path: sockets lie below it
        both = [Path(made, name) for name in "ab"]
        yield both
        for one in filter(os.path.exists, both):
            down = [HOLDFAST, "down", "--set", f"run_dir={one}"]
            subprocess.run(down, capture_output=True, timeout=60)


def test_two_sessions_of_one_name_keep_what_they_have(run_dirs: list[Path]) -> None:
    keys = [f"{tier}/{number}" for tier in ("memory", "disk") for number in range(5)]
    small = ("--nodes", "2", "--memory", "32 MiB", "--disk", "32 MiB", "--set", "huge_pages=off")

    def data(run_dir: Path, key: str) -> bytes:
        return f"{run_dir.name}/{key}".encode() * 10_000

    def check(run_dir: Path) -> None:
        with holdfast.connect(run_dir=str(run_dir)) as job:
            for key in keys:
                assert job.objects.get(key) == data(run_dir, key)

    for run_dir in run_dirs:
        run_at(run_dir, "up", *small)
        with holdfast.connect(run_dir=str(run_dir)) as job:
            for key in keys:
                tier = key.partition("/")[0]
                job.objects.put(key, data(run_dir, key), copies=2, tier=tier)
    for run_dir in run_dirs:
        check(run_dir)
    first, second = run_dirs
    run_at(first, "down")
    check(second)
    [agent, _] = sessions.agents(second / "local")
    agent.tiers.remove()  # whoever thinks that it may
    check(second)


def test_what_killed_agents_left_is_removed_by_the_next_start_or_the_end(
    run_dirs: list[Path],
) -> None:
    run_dir, _ = run_dirs
    run_at(run_dir, "up", "--nodes", "1")
    for command in (["up", "--nodes", "1"], ["down"]):
        [agent] = sessions.agents(run_dir / "local")
        os.kill(agent.process.pid, signal.SIGKILL)
        assert processes.wait([agent.process], 10)
        assert there(agent.tiers) == [True, True]
        run_at(run_dir, *command)
        assert there(agent.tiers) == [False, False]


def made(place: Path, session: str, key: bytes = KEY, when: float = LONG_AGO) -> tiers.Tiers:
    """Tiers as an agent that was killed left them."""
    left = tiers.of_agent(str(place), str(place), session, "node-0", key)
    for directory in (left.memory_dir, left.disk_dir):
        os.mkdir(directory, 0o700)
        Path(directory, "0").touch()
        os.utime(directory, (when, when))
    return left


def there(left: tiers.Tiers) -> list[bool]:
    return [os.path.exists(directory) for directory in (left.memory_dir, left.disk_dir)]


def test_a_name_is_of_one_session_and_does_not_tell_the_key(tmp_path: Path) -> None:
    names = {
        tiers.of_agent("/m", "/d", "local", node, key).memory_dir
        for node in ("node-0", "node-1")
        for key in (KEY, bytes(32))
    }
    assert len(names) == 4
    assert all(name.startswith(f"/m/holdfast-{os.getuid()}-") for name in names)
    assert not any(key.hex()[:8] in name for name in names for key in (KEY, bytes(32)))


def test_who_holds_tiers_keeps_them_and_nobody_else_does(tmp_path: Path) -> None:
    left = made(tmp_path, "local")
    with left.held():
        left.remove()
        tiers.sweep(str(tmp_path), str(tmp_path))
        assert there(left) == [True, True]
        with pytest.raises(HoldfastError, match="start it again"), left.held():
            pass
        child = subprocess.Popen(["sleep", "60"], close_fds=False)  # has none of our locks
    try:
        left.remove()
        assert there(left) == [False, False]
    finally:
        child.kill()
        child.wait()


def test_tiers_that_were_swept_away_during_the_start_are_missed(tmp_path: Path) -> None:
    left = made(tmp_path, "local")
    tiers.sweep(str(tmp_path), str(tmp_path))
    assert there(left) == [False, False]
    with pytest.raises(HoldfastError, match="start it again"), left.held():
        pass


def test_a_sweep_takes_what_is_old_and_an_agents_and_nothing_else(tmp_path: Path) -> None:
    old = made(tmp_path, "gone")
    young = made(tmp_path, "starting", when=tmp_path.stat().st_mtime)
    uid = os.getuid()
    host = os.path.basename(old.memory_dir).split("-")[2]
    code = "0123456789abcdef"
    others = [
        tmp_path / f"holdfast-{uid}",
        tmp_path / f"holdfast-{uid}-{host}-mine-results",
        tmp_path / f"holdfast-{uid + 1}-{host}-local-node-0-{code}",
        tmp_path / f"holdfast-{uid}-{int(host, 16) ^ 1:08x}-local-node-0-{code}",
        tmp_path / code,
    ]
    for other in others:
        other.mkdir()
        os.utime(other, (LONG_AGO, LONG_AGO))
    link = tmp_path / f"holdfast-{uid}-{host}-local-node-0-{code}"
    link.symlink_to(others[0])
    os.utime(link, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    tiers.sweep(str(tmp_path), str(tmp_path))
    assert there(old) == [False, False]
    assert there(young) == [True, True]
    assert link.is_symlink()
    assert all(other.exists() for other in others)


@pytest.mark.skipif(os.getuid() != 0, reason="directories of other users need root")
def test_a_directory_of_another_user_stays(tmp_path: Path) -> None:
    left = made(tmp_path, "local")
    os.chown(left.memory_dir, 65534, 65534)
    left.remove()
    assert there(left) == [True, False]


def test_leftovers_of_sessions_that_nobody_knows_go_at_the_next_start() -> None:
    left = made(Path(os.environ["HOLDFAST_MEMORY_DIR"]), "forgotten")
    descriptor = os.open(left.disk_dir, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # an agent that lives, wherever its session went
        with holdfast.local_cluster(nodes=1, disk_dir=os.environ["HOLDFAST_MEMORY_DIR"]):
            assert there(left) == [False, True]
    finally:
        os.close(descriptor)
        left.remove()
