"""How mounts begin and end, what may be mounted where, and who looks after them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from mounted import View, bare, ours, through
from support.commands import HOLDFAST, run_in
from support.settings import config_of
from support.waits import WITHIN, wait_for

import holdfast
from holdfast.errors import BadInput, Busy, Unavailable
from holdfast.files.mount import control, everywhere
from holdfast.session import mounts

HELPER = Path(sys.executable).with_name("mount.fuse.holdfast")


@pytest.fixture
def point(tmp_path: Path) -> Path:
    path = tmp_path / "mnt"
    path.mkdir()
    return path


def test_mounting_and_unmounting(alone: holdfast.LocalCluster, root: Path, point: Path) -> None:
    done = run_in(alone.directory, HOLDFAST, "mount", point, "--root", root)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{root} is mounted at {point}{root}.\n"
    shown = Path(f"{point}{root}")
    assert (shown / "file").read_text() == "content"
    [line] = [one for one in Path("/proc/mounts").read_text().splitlines() if f" {point} " in one]
    options = line.split()[3].split(",")
    assert {"ro", "nosuid", "nodev", "default_permissions"} <= set(options)
    assert "allow_other" not in options

    report = msgspec.json.decode(run_in(alone.directory, HOLDFAST, "status", "--json").stdout)
    [one] = report["mounts"]
    assert (one["point"], one["state"], one["node"]) == (str(point), "up", "node-0")

    # Who names a file by the mount means the original.
    (root / "file").write_text("changed")
    refreshed = run_in(alone.directory, HOLDFAST, "refresh", shown / "file")
    assert refreshed.stdout == f"Refreshed {root}/file on 1 node.\n"
    assert (shown / "file").read_text() == "changed"

    config = config_of(alone)
    with pytest.raises(BadInput, match="is already mounted; unmount it first"):
        control.start(config, str(point), [str(root)])
    with (shown / "file").open(), pytest.raises(Busy, match="is in use; end the programs"):
        control.stop(config, str(point))
    assert run_in(alone.directory, HOLDFAST, "umount", point).stdout == f"{point} is unmounted.\n"
    assert point not in ours()
    assert control.of_session(alone.directory) == {}
    with pytest.raises(BadInput, match="there is no Holdfast mount"):
        control.stop(config, str(point))


def test_lazily_it_is_taken_from_programs(
    alone: holdfast.LocalCluster, root: Path, point: Path
) -> None:
    with through(alone, point, root) as view:
        descriptor = os.open(view / "file", os.O_RDONLY)
        control.stop(config_of(alone), str(point), lazily=True)
        assert point not in ours()
        with pytest.raises(OSError, match=r"not connected|aborted"):
            os.read(descriptor, 10)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def refused(alone: holdfast.LocalCluster, point: object, root: object) -> str:
    with pytest.raises(BadInput) as caught:
        control.start(config_of(alone), str(point), [str(root)])
    assert "\n" not in str(caught.value), "not one sentence"
    return str(caught.value)


def test_what_cannot_be_mounted_is_refused_in_a_sentence(
    alone: holdfast.LocalCluster, root: Path, point: Path, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    assert "is not empty" in refused(alone, full, root)
    assert "make it first" in refused(alone, tmp_path / "missing", root)
    assert "Not a directory" in refused(alone, full / "x", root)
    assert "not a directory here" in refused(alone, point, tmp_path / "missing")
    subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
    try:
        assert "something else is mounted" in refused(alone, point, root)
    finally:
        mounts.detach(point)
    for top in ("/", "/proc", "/sys/fs", "/dev"):
        assert "cannot mount at" in refused(alone, top, root)
        assert "cannot be a root" in refused(alone, point, top)
    (root / "inside").mkdir()
    assert "contain one another" in refused(alone, root / "inside", root)
    assert "contain one another" in refused(alone, point, tmp_path)
    assert control.of_session(alone.directory) == {}
    assert [path for path in alone.directory.iterdir() if ".mount-" in path.name] == []


def test_a_machine_that_cannot_mount_says_why(
    alone: holdfast.LocalCluster, root: Path, point: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a namespace of its own, where /dev has nothing in it.
    bare_dev = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev && exec "$0" "$@"')
    done = run_in(alone.directory, *bare_dev, HOLDFAST, "mount", point, "--root", root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "holdfast: /dev/fuse is missing; load the kernel's module: `modprobe fuse`\n"
    )
    # As an ordinary user, without the helper that lets users mount.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(holdfast.HoldfastError, match="fusermount3 is missing"):
        control.start(config_of(alone), str(point), [str(root)])
    monkeypatch.setattr(control, "PROGRAM", Path("/nonexistent"))
    with pytest.raises(holdfast.HoldfastError, match="built without libfuse3"):
        control.start(config_of(alone), str(point), [str(root)])


def test_a_mount_does_not_look_at_mounts(
    alone: holdfast.LocalCluster, root: Path, point: Path, tmp_path: Path
) -> None:
    """It would wait for itself, and nothing would end that."""
    shutil.copy(control.PROGRAM, root / "holdfast_mount")
    with through(alone, point, root) as view:
        other = tmp_path / "other"
        other.mkdir()
        assert "is on a Holdfast mount" in refused(alone, other, view.top)
        # Its own program and libraries may not lie on one either.
        done = subprocess.run(
            [view / "holdfast_mount", f"point={other}", f"broadcast={root}"],
            capture_output=True,
            text=True,
            timeout=WITHIN,
        )
        assert (done.returncode, "run it from elsewhere" in done.stdout) == (1, True)
    # A mount of ours that is there when another one starts is not entered.
    inner = root / "inner"
    inner.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "work").mkdir()
    with bare(elsewhere, tmp_path / "work"):
        subprocess.run(["mount", "--bind", tmp_path / "work/mnt", inner], check=True)
        try:
            with bare(root, tmp_path) as view:
                assert "inner" in os.listdir(view.top)
                with pytest.raises(OSError, match="Too many levels") as caught:
                    os.listdir(view / "inner")
                assert caught.value.errno == errno.ELOOP
        finally:
            mounts.detach(inner)


def test_sigterm_unmounts(root: Path, tmp_path: Path) -> None:
    with bare(root, tmp_path) as view:
        os.kill(view.pid, signal.SIGTERM)
        wait_for(lambda: view.point not in ours())


@pytest.mark.parametrize("command", [["umount"], ["fusermount3", "-u"]], ids="".join)
def test_unmounting_by_other_means_ends_it(
    alone: holdfast.LocalCluster, root: Path, point: Path, command: list[str]
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here: `scripts/packages test` installs it")
    with through(alone, point, root) as view:
        one = control.read(view.control.with_name(view.control.name + ".state"))
        subprocess.run([*command, point], check=True)
        wait_for(lambda: not one.supervisor.running)
        assert control.of_session(alone.directory) == {}


def test_a_process_that_dies_is_started_again(
    alone: holdfast.LocalCluster, root: Path, point: Path
) -> None:
    with through(alone, point, root) as view:
        descriptor = os.open(view / "file", os.O_RDONLY)
        first = view.pid
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: control.at(point) is not None and _reads(view))
        assert view.pid != first
        # What was open then is lost: limitations say so.
        with pytest.raises(OSError, match=r"not connected|aborted"):
            os.read(descriptor, 10)
        with contextlib.suppress(OSError):
            os.close(descriptor)
        assert len([one for one in ours() if one == point]) == 1


def _reads(view: View) -> bool:
    try:
        return (view / "file").read_text() == "content"
    except OSError:
        return False


def test_a_stuck_mount_is_aborted_so_that_df_ends(
    alone: holdfast.LocalCluster, root: Path, point: Path
) -> None:
    with through(alone, point, root, mount_stuck_after="0.5 s") as view:
        first = view.pid
        os.kill(first, signal.SIGSTOP)
        done = subprocess.run(["df", point], capture_output=True, timeout=WITHIN)
        assert done.returncode in (0, 1)
        wait_for(lambda: control.at(point) is not None and _reads(view))
        assert view.pid != first
        assert not Path(f"/proc/{first}").exists()


def test_a_stale_mount_is_cleaned_up_at_the_next_start(
    alone: holdfast.LocalCluster, root: Path, point: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [control.PROGRAM, f"point={point}", f"broadcast={root}"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"mounted\n"
    process.kill()
    process.wait()
    with pytest.raises(OSError, match="not connected"):
        os.listdir(point)
    with through(alone, point, root) as view:
        assert (view / "file").read_text() == "content"


def test_down_unmounts(root: Path, point: Path, tmp_path: Path) -> None:
    session = tmp_path / "run/mounts"
    session.parent.mkdir(mode=0o700)
    mounting = ("--memory", "64MiB", "--mount", point, "--root", root)
    up = run_in(session, HOLDFAST, "up", "--nodes", 1, *mounting)
    try:
        assert up.returncode == 0, up.stderr
        assert Path(f"{point}{root}/file").read_text() == "content"
    finally:
        down = run_in(session, HOLDFAST, "down")
    assert down.returncode == 0, down.stderr
    assert point not in ours()


def test_up_that_cannot_mount_leaves_nothing(root: Path, tmp_path: Path) -> None:
    session = tmp_path / "run/mounts"
    mounting = ("--mount", tmp_path / "missing", "--root", root)
    done = run_in(session, HOLDFAST, "up", "--nodes", 1, *mounting)
    left = session.exists()
    if left:
        run_in(session, HOLDFAST, "down").check_returncode()
    assert (done.returncode, done.stdout) == (2, "")
    assert "make it first" in done.stderr
    assert not left


def test_a_host_elsewhere_is_mounted_by_its_agent(
    alone: holdfast.LocalCluster, root: Path, point: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `holdfast up --mount` does for hosts other than its own."""
    member = msgspec.structs.replace(alone.nodes[0].member, host="elsewhere")
    monkeypatch.chdir(root.parent)  # which is not where the agent is

    def mount(where: Path) -> None:
        everywhere.mount(config_of(alone), [member], str(where), ["root"])

    with pytest.raises(Unavailable, match=r"elsewhere: .* is missing; make it first"):
        mount(point / "missing")
    mount(point)
    assert Path(f"{point}{root}/file").read_text() == "content"


def test_mount_8(alone: holdfast.LocalCluster, root: Path, point: Path) -> None:
    """`mount -t fuse.holdfast`, in a namespace in which the helper is where mount(8) looks."""
    setting = f"session={alone.directory.name},run_dir={alone.directory.parent}"
    script = f"""
set -e
mount -t tmpfs none /sbin 2>/dev/null || exit 77
ln -s {HELPER} /sbin/mount.fuse.holdfast
/bin/mount -t fuse.holdfast {root} {point} -o ro,{setting}
cat {point}{root}/file
/bin/umount {point}
"""
    if not HELPER.exists():
        pytest.fail(f"{HELPER} is not installed")
    done = run_in(alone.directory, "unshare", "--mount", "bash", "-c", script)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no namespace in which /sbin may be changed")
    assert (done.returncode, done.stdout, done.stderr) == (0, "content", "")
    bad = run_in(alone.directory, HELPER, root, point, "-o", "rw,colour=blue")
    assert bad.returncode == 32
    assert bad.stderr.startswith("mount.fuse.holdfast: ")


def test_a_root_in_the_settings_is_enough(
    alone: holdfast.LocalCluster, root: Path, point: Path
) -> None:
    with pytest.raises(BadInput, match="use --root or set `roots`"):
        control.start(config_of(alone), str(point), [])
    control.start(config_of(alone, roots=str(root)), str(point), [])
    assert Path(f"{point}{root}/file").read_text() == "content"
