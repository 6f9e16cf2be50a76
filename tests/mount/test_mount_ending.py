"""How mounts end whose supervisor, command or session did not go the usual way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from mounted import bare, ours, through
from support.commands import HOLDFAST, run_in
from support.settings import config_of
from support.waits import WITHIN, wait_for

import holdfast
from holdfast.config import load
from holdfast.errors import BadInput
from holdfast.files.mount import control
from holdfast.session import mounts, processes
from holdfast.session import session as sessions
from holdfast.testing.countfs import CountingFS


def files_of_mounts(alone: holdfast.LocalCluster) -> list[str]:
    return [name for name in os.listdir(alone.directory) if ".mount-" in name]


def test_a_mount_that_nobody_waits_for_is_unmounted(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when `holdfast mount` is interrupted."""
    (tmp_path / "mnt").mkdir()
    orders: list[control.MountOrders] = []
    monkeypatch.setattr(control, "_supervise", orders.append)
    with contextlib.suppress(FileNotFoundError):  # nobody has written what is mounted
        control.start(config_of(alone), str(tmp_path / "mnt"), [str(root)])
    nobody, ear = os.pipe()
    os.close(nobody)
    ended, lives = os.pipe()
    with open(ended, "rb") as end:
        subprocess.run(
            [sys.executable, "-c", control._SUPERVISOR],
            input=msgspec.json.encode(orders[0]) + b"\n",
            stdout=ear,
            stderr=subprocess.DEVNULL,
            pass_fds=(lives,),
            timeout=WITHIN,
        )
        os.close(ear)
        os.close(lives)
        assert end.read() == b""  # the last to hold it was the supervisor
    assert tmp_path / "mnt" not in ours()
    assert files_of_mounts(alone) == []


def test_a_link_is_as_good_as_the_directory(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path
) -> None:
    point = tmp_path / "real/mnt"
    point.mkdir(parents=True)
    (tmp_path / "link").symlink_to("second")
    (tmp_path / "second").symlink_to("real/mnt")
    config = config_of(alone)
    assert control.start(config, str(tmp_path / "link"), [str(root)]).point == str(point)
    assert Path(f"{tmp_path}/link{root}/file").read_text() == "content"
    mounted = control.at(point)
    assert mounted is not None
    pid = control.server(mounted)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)  # it is started again where it was

    def is_back() -> bool:
        mounted = control.at(point)
        return mounted is not None and control.server(mounted) not in (None, pid)

    wait_for(is_back)
    assert control.stop(config, str(tmp_path / "link"), lazily=True) == point
    assert point not in ours()
    assert files_of_mounts(alone) == []


def test_one_that_cannot_be_mounted_again_can_be_unmounted(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path
) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    with through(alone, outer / "mnt", root) as view:
        pid = view.pid
        [mount] = control.of_session(alone.directory).values()
        outer.rename(tmp_path / "moved")
        try:
            os.kill(pid, signal.SIGKILL)
            log = view.control.with_name(view.control.name + ".log")
            wait_for(lambda: log.read_text().count("\n") > 1)  # it has tried in vain
            [one] = control.status(alone.directory, WITHIN)
            assert one.state == "restarting"
            assert control.stop(config_of(alone), str(outer / "mnt")) == outer / "mnt"
            assert not mount.supervisor.running
            assert files_of_mounts(alone) == []
            with pytest.raises(BadInput, match="there is no Holdfast mount"):
                control.stop(config_of(alone), str(outer / "mnt"))
        finally:
            with contextlib.suppress(OSError):  # it may be gone with its process
                mounts.detach(tmp_path / "moved/mnt")


def test_mounts_of_others_are_left_alone(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path
) -> None:
    with bare(root, tmp_path) as theirs:
        gone = processes.Process(2**22, 1, processes.boot())
        elsewhere = processes.Process(os.getpid(), 1, "another host")
        for number, supervisor in enumerate((gone, elsewhere)):
            state = control.MountRecord(str(theirs.point), "node-0", (), supervisor)
            path = alone.directory / f"node-0.mount-{number}.state"
            path.write_bytes(msgspec.json.encode(state))
        # Hosts may share the directory: that one is for the other host to show and to end.
        assert [one.state for one in control.status(alone.directory, WITHIN)] == ["ended"]
        control.stop_all(alone.directory)
        assert (theirs / "file").read_text() == "content"
        assert files_of_mounts(alone) == ["node-0.mount-1.state"]


def test_what_a_killed_supervisor_left_goes_at_the_next_start(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path
) -> None:
    with through(alone, tmp_path / "first", root) as view:
        [mount] = control.of_session(alone.directory).values()
        pid = view.pid
        for victim in (mount.supervisor.pid, pid):
            os.kill(victim, signal.SIGKILL)
        assert processes.wait([mount.supervisor, processes.process(pid)], WITHIN)
        with through(alone, tmp_path / "second", root):
            [left] = control.of_session(alone.directory).values()
            assert left.point == str(tmp_path / "second")


def test_a_session_starts_again_over_a_mount_in_its_directory(root: Path, tmp_path: Path) -> None:
    session = tmp_path / "run/again"
    session.parent.mkdir(mode=0o700)
    (tmp_path / "mnt").mkdir()

    def run(*words: object) -> str:
        done = run_in(session, HOLDFAST, *words)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    up = ("up", "--nodes", 1, "--memory", "64MiB", "--disk", "64MiB")
    run(*up, "--mount", tmp_path / "mnt", "--root", root)
    try:
        other = tmp_path / "other"
        other.mkdir()
        run("run", "--mount", "--root", other, "--", "true")
        [view] = session.glob("*.view-*")
        assert {view, tmp_path / "mnt"} <= set(ours())
        [agent] = sessions.agents(session)
        os.kill(agent.process.pid, signal.SIGKILL)
        assert "Removed what session 'again' left" in run(*up)
        assert not {view, tmp_path / "mnt"} & set(ours())
        assert not view.exists()
        assert msgspec.json.decode(run("status", "--json"))["mounts"] == []
    finally:
        run("down")
    assert list(session.parent.iterdir()) == []


def test_what_is_mounted_in_a_sessions_directory_is_not_removed(root: Path, tmp_path: Path) -> None:
    directory = tmp_path / "session"
    (directory / "data").mkdir(parents=True)
    config = load().config
    session = sessions.Session(
        name="session",
        created=0.0,
        virtual_nodes=100,
        tree_largest=1,
        tree_ttl=0.0,
        launcher="local",
        home=sessions.Home(config, ()),
    )
    sessions.make(directory, session, b"k" * 32)
    subprocess.run(["mount", "--bind", root, directory / "data"], check=True)
    try:
        sessions.clear(directory)
        assert (root / "file").read_text() == "content"
    finally:
        mounts.detach(directory / "data")
    sessions.clear(directory)
    assert not directory.exists()


def test_nobody_waits_for_a_process_that_hangs_in_the_kernel(
    backing: Path, storage: CountingFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose storage hangs while it reads does not end, not even by SIGKILL."""
    monkeypatch.setattr(processes, "_KILLED_WITHIN", 0.2)
    (backing / "file").write_text("content")
    storage.hang("file", "open")
    reader = subprocess.Popen(["cat", storage.at / "file"], stdout=subprocess.DEVNULL)
    stuck = processes.process(reader.pid)
    waits_in = Path(f"/proc/{reader.pid}/wchan")
    wait_for(lambda: waits_in.read_text() == "request_wait_answer")
    time.sleep(0.3)  # the storage has heard of it as well, which makes it wait for ever
    assert waits_in.read_text() == "request_wait_answer"
    os.kill(storage.pid, signal.SIGSTOP)
    try:
        assert processes.end([stuck], 0.1) == [stuck]
    finally:
        os.kill(storage.pid, signal.SIGCONT)
        storage.heal()
        assert reader.wait(WITHIN) < 0
    assert processes.end([stuck], 0.1) == []
