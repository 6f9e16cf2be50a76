"""Tiers that are full or cannot be written, and files that this user may not read."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from epochs import epoch
from support.counters import nodes_of
from support.settings import SETTINGS
from support.waits import wait_for

import holdfast
from holdfast.session.capacity import memory_left
from holdfast.testing.countfs import CountingFS

NOBODY, FRIENDS, STRANGERS = 65534, 4242, 4243


@contextmanager
def tmpfs(at: Path, size: str) -> Iterator[Path]:
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "holdfast-test", at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def test_a_disk_that_becomes_read_only_serves_what_it_has_until_memory_takes_its_place(
    storage: CountingFS, data: dict[str, bytes], tmp_path: Path
) -> None:
    with tmpfs(tmp_path / "disk", "64m") as at:
        settings = {**SETTINGS, "file_tier": "disk", "disk_dir": str(at)}
        with (
            holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
            cluster.connect() as job,
        ):
            files = job.files(storage.at)
            before, after = dict(list(data.items())[:30]), dict(list(data.items())[30:])
            epoch(files, before)
            storage.reset()
            subprocess.run(["mount", "-o", "remount,ro", at], check=True)
            epoch(files, before)
            assert storage.opens() == {}
            for _ in range(2):
                epoch(files, after)  # the first ones cannot be written, and the disk is given up
            epoch(files, before)
            storage.reset()
            epoch(files, data)
            assert storage.opens() == {}


def test_programs_that_hold_more_open_than_the_tmpfs_has_read_the_storage(
    storage: CountingFS, backing: Path, tmp_path: Path
) -> None:
    size, number = 1 << 20, 64
    for one in range(number):
        (backing / f"large-{one}").write_bytes(bytes([one]) * size)
    with tmpfs(tmp_path / "memory", "24m") as at:
        settings = {**SETTINGS, "memory": "16 MiB", "memory_dir": str(at), "file_tier": "disk"}
        with (
            holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
            cluster.connect() as job,
        ):
            files = job.files(storage.at)
            held = [files.open(f"large-{one}") for one in range(number)]
            for one, file in enumerate(held):
                assert file.read() == bytes([one]) * size
                file.close()
            # The room is the readers' until they close: then it is to be had again.
            wait_for(lambda: os.statvfs(at).f_bavail * os.statvfs(at).f_frsize > 12 << 20)
            storage.reset()
            for one in range(number):
                with files.open(f"large-{one}") as file:
                    assert file.read() == bytes([one]) * size
            assert storage.opens() == {}
            assert all(node.state == "alive" for node in nodes_of(cluster).values())


_PROGRAM = """
import errno, sys, holdfast
root, run_dir = sys.argv[1:]
with holdfast.local_cluster(nodes=2, run_dir=run_dir, file_settled="0 s") as cluster:
    with cluster.connect() as job:
        files = job.files(root)
        assert files.read("of-friends") == files.read("of-friends") == b"for friends"
        assert files.stats().local + files.stats().remote == 2, files.stats()
        for read in (files.read, files.open):
            try: read("of-strangers")
            except PermissionError as error: assert error.errno == errno.EACCES
            else: raise SystemExit("it was read")
print("done")
"""


def _as_nobody(directory: Path) -> list[str | Path]:
    """A command that drops all privileges, where the interpreter can be reached without them."""
    script = ["set -e"]
    for number, prefix in enumerate({sys.base_prefix, sys.prefix}):
        closed = [one for one in reversed(Path(prefix).parents) if not one.stat().st_mode & 0o001]
        if closed:
            kept = directory / f"kept-{number}"
            kept.mkdir()
            script += [
                f"mount --bind '{prefix}' '{kept}'",
                f"mount -t tmpfs -o mode=755 holdfast-test '{closed[0]}'",
                f"mkdir -p '{prefix}'",
                f"mount --bind '{kept}' '{prefix}'",
            ]
    drop = f"setpriv --reuid {NOBODY} --regid {NOBODY} --groups {FRIENDS}"
    script.append(f'exec {drop} "$@"')
    return ["unshare", "--mount", "bash", "-c", "\n".join(script), "bash"]


def test_a_file_of_a_group_that_this_user_is_not_in_gives_eacces_and_others_are_cached() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:  # which all may enter
        root, run_dir = Path(directory, "root"), Path(directory, "run")
        root.mkdir()
        run_dir.mkdir(mode=0o700)
        Path(directory).chmod(0o755)
        os.chown(run_dir, NOBODY, NOBODY)
        for name, group in {"of-friends": FRIENDS, "of-strangers": STRANGERS}.items():
            (root / name).write_bytes(b"for friends")
            os.chown(root / name, 0, group)
            (root / name).chmod(0o640)
        ran = subprocess.run(
            [*_as_nobody(Path(directory)), sys.executable, "-c", _PROGRAM, root, run_dir],
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": directory, "TMPDIR": str(run_dir)},
            capture_output=True,
            timeout=60,
        )
        assert (ran.returncode, ran.stdout) == (0, b"done\n"), ran.stderr


def test_a_tier_without_room_for_a_file_leaves_it_to_the_storage(
    storage: CountingFS, backing: Path
) -> None:
    (backing / "large").write_bytes(b"x" * (3 << 20))
    settings = {**SETTINGS, "memory": "2 MiB", "disk": "2 MiB", "file_largest": "8 MiB"}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        for _ in range(2):
            assert files.read("large") == b"x" * (3 << 20)
        assert files.stats().shared == 2


@pytest.mark.soak
def test_a_copy_beyond_two_gibibytes_is_whole_on_its_owner_and_elsewhere(
    storage: CountingFS, backing: Path
) -> None:
    size = (2 << 30) + (100 << 20) + 123
    if memory_left() < 3 * size:
        pytest.skip(f"the machine has not {3 * size >> 20} MiB of memory left")
    marks = {at: os.urandom(64) for at in (0, (2 << 30) - 32, (2 << 30) + 5000, size - 64)}
    with open(backing / "large", "wb") as file:
        file.truncate(size)
        for at, mark in marks.items():
            os.pwrite(file.fileno(), mark, at)
    patient = {"deadline": "30 s", "file_deadline": "30 s"}
    settings = {**SETTINGS, **patient, "memory": "4 GiB", "file_largest": "3 GiB"}
    with holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster:
        for node in range(2):
            with cluster.connect(node) as job, job.files(storage.at).open("large") as file:
                assert os.fstat(file.fileno()).st_size == size
                for at, mark in marks.items():
                    file.seek(at)
                    assert file.read(64) == mark
                    assert os.pread(file.fileno(), 64, at) == mark
    assert storage.opens()["large"] == 1
