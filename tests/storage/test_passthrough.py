"""Through the storage a file is what it is in the backing directory."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

NOBODY = 65534


def as_nobody(work: Callable[[], None], *groups: int) -> int:
    """Run it as another user in a process of its own; returns the error it met, or 0."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            os.setgroups(groups)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
            code = 0
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def open_up(shared: Path) -> None:
    """Let other users through to the storage, which lies in a private directory of pytest's."""
    for directory in shared.parents:
        if stat.S_IMODE(directory.stat().st_mode) & 0o001 == 0:
            directory.chmod(directory.stat().st_mode | 0o011)


def same_attributes(one: os.stat_result, other: os.stat_result) -> None:
    for name in (
        "st_ino", "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_mtime_ns",
        "st_ctime_ns", "st_blocks", "st_rdev",
    ):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name


def test_bytes_and_attributes_are_the_backing_files(backing: Path, shared: Path) -> None:
    for size in (0, 1, 4095, 4096, 131_073, 3_000_001):
        data = os.urandom(size)
        (backing / f"{size}").write_bytes(data)
        assert (shared / f"{size}").read_bytes() == data
        same_attributes((shared / f"{size}").stat(), (backing / f"{size}").stat())
        with (shared / f"{size}").open("rb") as file:
            same_attributes(os.fstat(file.fileno()), (backing / f"{size}").stat())
    (backing / "directory").mkdir(0o750)
    os.mkfifo(backing / "fifo", 0o640)
    (backing / "link").symlink_to("no/where")
    for name in ("directory", "fifo", "link"):
        same_attributes((shared / name).lstat(), (backing / name).lstat())
    assert os.readlink(shared / "link") == "no/where"
    with pytest.raises(FileNotFoundError):
        (shared / "missing").stat()


def test_what_is_written_is_in_the_backing_directory(backing: Path, shared: Path) -> None:
    file = shared / "file"
    file.write_bytes(b"0123456789")
    with file.open("ab") as out:
        out.write(b"more")
    assert (backing / "file").read_bytes() == b"0123456789more"
    with file.open("r+b") as out:
        out.seek(2)
        out.write(b"XY")
        out.flush()
        os.fsync(out.fileno())
        assert (backing / "file").read_bytes() == b"01XY456789more"
        out.truncate(6)
        os.posix_fallocate(out.fileno(), 0, 100)
    assert (backing / "file").read_bytes() == b"01XY45" + bytes(94)
    os.truncate(file, 3)
    assert (backing / "file").read_bytes() == b"01X"
    file.write_bytes(b"again")  # O_TRUNC
    assert (backing / "file").read_bytes() == b"again"
    with pytest.raises(FileExistsError):
        file.open("x")
    big = os.urandom(5_000_000)
    (shared / "big").write_bytes(big)
    assert (backing / "big").read_bytes() == big


def test_attributes_that_are_set_are_the_backing_files(backing: Path, shared: Path) -> None:
    file = shared / "file"
    file.touch()
    file.chmod(0o4711)
    os.chown(file, 12, 34)
    os.utime(file, ns=(1_000_000_000_123_456_789, 1_100_000_000_987_654_321))
    found = (backing / "file").stat()
    assert stat.S_IMODE(found.st_mode) == 0o711  # giving a file away takes its set-uid bit
    assert (found.st_uid, found.st_gid) == (12, 34)
    assert found.st_mtime_ns == 1_100_000_000_987_654_321
    same_attributes(file.stat(), found)
    (shared / "link").symlink_to("file")
    os.utime(shared / "link", ns=(5, 6), follow_symlinks=False)
    os.chown(shared / "link", 56, 78, follow_symlinks=False)
    assert (backing / "link").lstat().st_mtime_ns == 6
    assert (backing / "link").lstat().st_uid == 56
    assert found == (backing / "file").stat()


def test_names_can_be_made_moved_and_removed(backing: Path, shared: Path) -> None:
    (shared / "a").mkdir()
    (shared / "a" / "one").write_text("one")
    (shared / "two").write_text("two")
    os.link(shared / "a" / "one", shared / "again")
    assert (backing / "again").stat().st_nlink == 2
    assert (shared / "again").stat().st_ino == (shared / "a" / "one").stat().st_ino
    (shared / "link").symlink_to("a/one")
    assert (shared / "link").read_text() == "one"
    (shared / "two").rename(shared / "a" / "one")
    assert (backing / "a" / "one").read_text() == "two"
    assert (shared / "again").read_text() == "one"
    (shared / "a").rename(shared / "b")
    assert (shared / "b" / "one").read_text() == "two"
    assert not (shared / "a").exists()
    with pytest.raises(OSError, match="not empty"):
        (shared / "b").rmdir()
    (shared / "b" / "one").unlink()
    (shared / "b").rmdir()
    os.mkfifo(shared / "fifo")
    assert sorted(os.listdir(backing)) == ["again", "fifo", "link"] == sorted(os.listdir(shared))


@pytest.mark.parametrize("name", [b"line\nbreak", b"\xff\xfe raw", b"x" * 255, b" ", b"-rf"])
def test_a_name_may_be_any_bytes(backing: Path, shared: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(shared), name)
    with open(path, "wb") as out:
        out.write(name)
    assert os.listdir(os.fsencode(backing)) == [name] == os.listdir(os.fsencode(shared))
    with open(path, "rb") as file:
        assert file.read() == name


def test_a_large_directory_is_listed_whole(backing: Path, shared: Path) -> None:
    names = {f"a-rather-long-name-of-a-file-{number}" for number in range(2000)}
    for name in names:
        (backing / name).touch()
    listed = os.listdir(shared)
    assert len(listed) == len(names)
    assert set(listed) == names
    assert all(entry.is_file() for entry in os.scandir(shared))


def test_a_removed_file_stays_readable_while_it_is_open(backing: Path, shared: Path) -> None:
    (shared / "file").write_bytes(b"old")
    with (shared / "file").open("r+b") as file:
        (shared / "file").unlink()
        (shared / "file").write_bytes(b"new")
        assert os.fstat(file.fileno()).st_nlink == 0
        assert file.read() == b"old"
        os.ftruncate(file.fileno(), 1)
        assert os.fstat(file.fileno()).st_size == 1
    assert (backing / "file").read_bytes() == b"new"


def test_holes_are_holes(backing: Path, shared: Path, tmp_path: Path) -> None:
    with (backing / "sparse").open("wb") as out:
        out.seek(1 << 20)
        out.write(b"x" * 4096)
        out.truncate(5 << 30)
    with (shared / "sparse").open("rb") as file, (backing / "sparse").open("rb") as same:
        for offset, whence in ((0, os.SEEK_DATA), (1 << 20, os.SEEK_HOLE), (0, os.SEEK_HOLE)):
            expected = os.lseek(same.fileno(), offset, whence)
            assert os.lseek(file.fileno(), offset, whence) == expected
        with pytest.raises(OSError, match="No such device or address"):
            os.lseek(file.fileno(), 2 << 30, os.SEEK_DATA)
    subprocess.run(["cp", "--sparse=always", shared / "sparse", tmp_path / "copy"], check=True)
    assert (tmp_path / "copy").stat().st_size == 5 << 30
    assert (tmp_path / "copy").stat().st_blocks < 1000


def test_files_can_be_mapped(backing: Path, shared: Path) -> None:
    data = os.urandom(300_000)
    (backing / "file").write_bytes(data)
    with (
        (shared / "file").open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
    ):
        assert mapped[:] == data
        assert (shared / "file").read_bytes() == data  # opened again, while it is mapped
        assert mapped[:] == data
    with (shared / "file").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[100_000:100_005] = b"HELLO"
        mapped.flush()
    assert (backing / "file").read_bytes() == data[:100_000] + b"HELLO" + data[100_005:]


def test_direct_reads(backing: Path, shared: Path) -> None:
    data = os.urandom(8192)
    (backing / "file").write_bytes(data)
    descriptor = os.open(shared / "file", os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 8192) as aligned:
            assert os.preadv(descriptor, [aligned], 0) == 8192
            assert aligned[:] == data
    finally:
        os.close(descriptor)


def test_extended_attributes(backing: Path, shared: Path) -> None:
    (shared / "file").touch()
    (shared / "link").symlink_to("file")
    os.setxattr(shared / "file", "user.colour", b"blue\0green")
    os.setxattr(shared / "link", "trusted.colour", b"red", follow_symlinks=False)
    for place in (backing, shared):
        assert os.listxattr(place / "file") == ["user.colour"]
        assert os.getxattr(place / "file", "user.colour") == b"blue\0green"
        assert os.getxattr(place / "link", "trusted.colour", follow_symlinks=False) == b"red"
        with pytest.raises(OSError, match="No data available"):
            os.getxattr(place / "file", "user.size")
    with pytest.raises(FileExistsError):
        os.setxattr(shared / "file", "user.colour", b"", os.XATTR_CREATE)
    os.removexattr(shared / "file", "user.colour")
    assert os.listxattr(backing / "file") == []


@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_locks_exclude_others(shared: Path, kind: str) -> None:
    (shared / "file").touch()
    code = (
        "import errno, fcntl, sys\n"
        "with open(sys.argv[1], 'r+') as file:\n"
        f"    try: fcntl.{kind}(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except BlockingIOError: sys.exit(9)\n"
    )
    command = [sys.executable, "-c", code, str(shared / "file")]
    with (shared / "file").open("r+") as file:
        getattr(fcntl, kind)(file, fcntl.LOCK_EX)
        assert subprocess.run(command).returncode == 9
    assert subprocess.run(command).returncode == 0


def test_what_changes_behind_its_back_is_seen_at_once(backing: Path, shared: Path) -> None:
    (backing / "file").write_bytes(b"first")
    assert (shared / "file").read_bytes() == b"first"
    (backing / "file").write_bytes(b"other")  # same size, same inode
    assert (shared / "file").read_bytes() == b"other"
    (backing / "new").write_bytes(b"replaced")
    (backing / "new").rename(backing / "file")
    assert (shared / "file").read_bytes() == b"replaced"
    (backing / "file").unlink()
    assert not (shared / "file").exists()
    (backing / "file").mkdir()
    assert (shared / "file").is_dir()


def test_permissions_are_kept_for_every_user(backing: Path, shared: Path) -> None:
    open_up(shared)
    backing.chmod(0o777)
    (backing / "secret").write_text("for root")
    (backing / "secret").chmod(0o600)
    (backing / "group").write_text("for a group")
    os.chown(backing / "group", 0, 4321)
    (backing / "group").chmod(0o640)
    (backing / "open").write_text("for all")
    assert as_nobody(lambda: (shared / "secret").read_bytes() and None) == errno.EACCES
    assert as_nobody(lambda: (shared / "group").read_bytes() and None) == errno.EACCES
    assert as_nobody(lambda: (shared / "group").read_bytes() and None, 4321) == 0
    assert as_nobody(lambda: (shared / "open").read_bytes() and None) == 0
    assert as_nobody(lambda: (shared / "open").write_text("mine") and None) == errno.EACCES


def test_new_files_belong_to_who_made_them(backing: Path, shared: Path) -> None:
    open_up(shared)
    backing.chmod(0o777)
    (backing / "team").mkdir()
    os.chown(backing / "team", 0, 4321)
    (backing / "team").chmod(0o2777)

    def work() -> None:
        os.umask(0o027)
        (shared / "file").write_text("mine")
        (shared / "directory").mkdir()
        (shared / "link").symlink_to("file")
        (shared / "team" / "file").touch()
        os.umask(0)
        (shared / "open").touch()

    assert as_nobody(work) == 0
    for name in ("file", "directory", "link"):
        found = (backing / name).lstat()
        assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY)
    assert stat.S_IMODE((backing / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((backing / "open").stat().st_mode) == 0o666
    found = (backing / "team" / "file").stat()
    assert (found.st_uid, found.st_gid) == (NOBODY, 4321)


def test_a_tree_copied_in_and_out_is_the_same(tmp_path: Path, shared: Path) -> None:
    source = tmp_path / "source"
    for number in range(40):
        directory = source / f"{number % 7}" / f"{number % 3}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}").write_bytes(os.urandom(number * 1000))
    (source / "link").symlink_to("0/0")
    subprocess.run(["cp", "-a", source, shared / "in"], check=True)
    subprocess.run(["diff", "-r", "--no-dereference", source, shared / "in"], check=True)
    subprocess.run(["tar", "-C", shared, "-cf", tmp_path / "tar", "in"], check=True)
    subprocess.run(["tar", "-C", shared, "--compare", "-f", tmp_path / "tar"], check=True)
    subprocess.run(["cp", "-a", shared / "in", tmp_path / "out"], check=True)
    subprocess.run(["diff", "-r", "--no-dereference", source, tmp_path / "out"], check=True)
    assert os.statvfs(shared).f_blocks == os.statvfs(tmp_path).f_blocks
