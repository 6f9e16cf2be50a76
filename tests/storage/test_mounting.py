"""A storage leaves nothing behind, whoever of those involved dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from showing import Show, running
from support.waits import wait_for

from holdfast import errors
from holdfast.session import mounts
from holdfast.testing import countfs
from holdfast.testing.countfs import CountingFS

LONG = 30.0


def points() -> list[Path]:
    return [point for point, _ in mounts.existing()]


def test_it_is_gone_after_the_block_and_what_was_written_is_there(
    tmp_path: Path, backing: Path
) -> None:
    with CountingFS(backing, tmp_path / "a b\\c", nodes=2) as made:
        assert made.at in points()
        assert len([pid for _, pid in mounts.existing() if pid == made.pid]) == 3
        (made.at / "file").write_bytes(b"kept")
    assert not made.at.exists()
    assert (backing / "file").read_bytes() == b"kept"
    made.close()  # twice does no harm
    with pytest.raises(errors.HoldfastError, match="has ended"):
        made.opens()


def test_it_can_lie_over_what_it_shows(backing: Path) -> None:
    (backing / "file").write_bytes(b"below")
    with CountingFS(backing, backing) as made:
        assert (backing / "file").read_bytes() == b"below"
        assert made.opens() == {"file": 1}
    assert os.listdir(backing) == ["file"]


def test_it_ends_under_open_files(backing: Path, tmp_path: Path) -> None:
    (backing / "file").write_bytes(b"x" * 100_000)
    code = "import sys; open(sys.argv[1], 'rb').read()"
    command = [sys.executable, "-c", code, str(tmp_path / "shared" / "file")]
    with ExitStack() as stack:
        with CountingFS(backing, tmp_path / "shared") as made:
            made.hang("file", "read")
            file = stack.enter_context((made.at / "file").open("rb"))
            reader = stack.enter_context(running(command))
            wait_for(lambda: made.total().opens >= 2)
        with pytest.raises(OSError, match=r"not connected|connection abort"):
            os.pread(file.fileno(), 10, 50_000)
        reader.wait(LONG)  # it hangs no longer


def test_a_killed_process_is_noticed_and_cleaned_up_after(backing: Path, show: Show) -> None:
    made = show(nodes=1)
    os.kill(made.pid, signal.SIGKILL)
    os.waitid(os.P_PID, made.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(errors.HoldfastError, match="has ended"):
        made.opens()
    with pytest.raises(OSError, match="not connected"):
        os.listdir(made.at)
    made.close()
    assert made.at not in points()
    assert not made.at.exists()


def test_a_terminated_process_unmounts_itself(backing: Path, show: Show) -> None:
    made = show()
    os.kill(made.pid, signal.SIGTERM)
    wait_until_unmounted(made.at)


def test_a_stopped_process_is_ended(
    backing: Path, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = show()
    os.kill(made.pid, signal.SIGSTOP)
    monkeypatch.setattr(countfs, "_WITHIN", 0.2)
    assert made._socket is not None
    made._socket.settimeout(0.2)
    with pytest.raises(errors.DeadlineMissed, match=r"did not answer in 0\.2 s"):
        made.opens()
    made.close()
    assert made.at not in points()


OWNER = (
    "import os, signal, sys\n"
    "from holdfast.testing.countfs import CountingFS\n"
    "made = CountingFS(sys.argv[1], sys.argv[2], nodes=1)\n"
    "for pid in ([made.pid] if sys.argv[3] == 'both' else []) + [os.getpid()]:\n"
    "    os.kill(pid, signal.SIGKILL)\n"
)


def own_and_die(backing: Path, at: Path, who: str) -> None:
    """Make a storage for two in a process that is killed, alone or with the one that serves it."""
    command = [sys.executable, "-c", OWNER, str(backing), str(at), who]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == -signal.SIGKILL, done.stderr


def private_points() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(mounts.PREFIX)]


def wait_until_unmounted(at: Path) -> None:
    wait_for(lambda: at not in points() and not private_points())


def test_a_killed_owner_leaves_nothing(backing: Path, tmp_path: Path) -> None:
    own_and_die(backing, tmp_path / "shared", "owner")
    wait_until_unmounted(tmp_path / "shared")
    assert os.listdir(tmp_path) == ["backing"]


def test_what_both_left_that_were_killed_is_removed_by_the_next(
    backing: Path, tmp_path: Path
) -> None:
    (backing / "file").write_bytes(b"x")
    own_and_die(backing, tmp_path / "shared", "both")
    assert tmp_path / "shared" in points()
    assert len(private_points()) == 1
    with CountingFS(backing, tmp_path / "shared") as made:
        assert points().count(made.at) == 1
        assert private_points() == []
        assert (made.at / "file").read_bytes() == b"x"
    assert made.at not in points()


def test_storages_of_others_stay(backing: Path, show: Show, tmp_path: Path) -> None:
    first = show()
    with CountingFS(backing, tmp_path / "second") as second:
        assert {first.at, second.at} <= set(points())
    assert first.opens() == {}
    with pytest.raises(errors.BadInput, match=r"something is already mounted at .*shared"):
        CountingFS(backing, first.at)


def test_a_storage_inside_what_it_shows_is_refused(
    backing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(backing)
    for inside in (backing / "shared", tmp_path / "link" / "shared"):
        with pytest.raises(errors.BadInput, match=r"is below .*backing"):
            CountingFS(backing, inside)
    monkeypatch.setattr(tempfile, "tempdir", str(backing))
    with pytest.raises(errors.BadInput, match=r"is below .*backing"):
        CountingFS(backing, tmp_path / "shared", nodes=1)
    assert os.listdir(backing) == []


def test_mistakes_of_mounting_are_said(backing: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match="is not a directory; name the directory to show"):
        CountingFS(tmp_path / "missing", tmp_path / "shared")
    with pytest.raises(errors.HoldfastError, match=r"could not mount .* at .*nowhere/shared"):
        CountingFS(backing, tmp_path / "nowhere" / "shared", nodes=1)
    with pytest.raises(errors.BadInput, match="'fast' is not a rate"):
        CountingFS(backing, tmp_path / "shared", bandwidth="fast")
    assert os.listdir(tmp_path) == ["backing"]


def test_who_cannot_mount_is_told_why(
    backing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(errors.Refused, match="needs root"):
            CountingFS(backing, tmp_path / "shared")
    monkeypatch.setattr(countfs, "PROGRAM", tmp_path / "missing")
    with pytest.raises(errors.Refused, match="built without libfuse3; install libfuse3-dev"):
        CountingFS(backing, tmp_path / "shared")
