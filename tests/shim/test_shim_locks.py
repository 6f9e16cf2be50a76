"""Shared locks: they are the original's in every respect, and reading goes on from the copy."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from preloaded import Shell
from support.settings import UNHURRIED

FILES = 6
VALUES = 30_000


@pytest.fixture
def settings() -> dict[str, str]:
    """Nobody dies here."""
    return UNHURRIED


@pytest.fixture
def backing(backing: Path) -> Path:
    for number in range(FILES):
        with h5py.File(backing / f"{number}.h5", "w") as file:
            file.create_dataset("values", data=np.full(VALUES, number))
        (backing / str(number)).write_bytes(b"old %d." % number * 1000)
    return backing


def storage_reads(shell: Shell) -> dict[str, int]:
    return {name: one.bytes for name, one in shell.storage.counts().items() if one.bytes}


def test_hdf5_reads_from_the_cache(shell: Shell) -> None:
    program = f"""$PYTHON - $ROOT <<'END'
import sys, h5py
for number in range({FILES}):
    with h5py.File(f"{{sys.argv[1]}}/{{number}}.h5", "r", locking=True) as file:
        values = file["values"][:]
        assert len(values) == {VALUES} and (values == number).all()
END
"""
    shell.warm()
    for _ in range(2):
        assert shell.shimmed(program)[:3] == (0, b"", b"")
    assert storage_reads(shell) == {}
    # Each run opened each of them for its lock.
    assert shell.storage.opens() == {f"{number}.h5": 2 for number in range(FILES)}


#: Of a process under the shim; `other` is one without it that wants the file for itself.
BEGIN = '''$PYTHON - $ROOT <<'END'
import ctypes, fcntl, os, subprocess, sys
root = sys.argv[1]
c = ctypes.CDLL(None, use_errno=True)
c.syscall.restype = ctypes.c_long
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
def other(number, then=""):
    """Whether another process gets the file for itself, and does something to it."""
    ran = subprocess.run([sys.executable, "-c", f"""
import fcntl, os, sys
file = open(sys.argv[1], "r+b")
try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: sys.exit(7)
{then}""", f"{root}/{number}"], env=plain)
    assert ran.returncode in (0, 7), ran
    return ran.returncode == 0
def locked(number):
    file = os.open(f"{root}/{number}", os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert os.pread(file, 6, 0) == b"old %d." % number
    return file
'''


def runs(shell: Shell, lines: str) -> None:
    shell.warm()
    ran = shell.shimmed(f"{BEGIN}{lines}\nEND\n")
    assert (ran.code, ran.output, ran.errors) == (0, b"", b"")


def test_a_shared_lock_ends_when_it_would_without_the_shim(shell: Shell) -> None:
    runs(
        shell,
        """
file = locked(1)
assert not other(1)
fcntl.flock(file, fcntl.LOCK_UN)
assert other(1)

file = locked(2)
os.close(file)
assert other(2)

file = locked(3)  # all that were made of it share it
again = os.dup(file)
os.close(file)
assert not other(3)
assert os.pread(again, 6, 0) == b"old 3."
os.dup2(os.open("/dev/null", os.O_RDONLY), again)
assert other(3)

file = locked(4)  # a child too
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    assert os.pread(file, 6, 6000 - 6) == b"old 4."
    os.read(read, 1)
    os._exit(0)
os.close(file)
assert not other(4)
os.close(write)
os.wait()
assert other(4)

file = locked(5)  # and a program that it starts
running = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[file])
os.close(file)
assert not other(5)
running.communicate()
assert other(5)

file = locked(0)  # past the C library
c.close_range(file, file, 0)
assert other(0)
file = os.fdopen(locked(0), "rb")
file.close()
assert other(0)""",
    )
    assert set(storage_reads(shell)) == {"3"}  # what else was made of a descriptor is the original


def test_what_was_written_before_the_lock_was_granted_is_read_under_it(shell: Shell) -> None:
    runs(
        shell,
        """
writes = "file.write(b'NEW')"
early = os.open(root + "/1", os.O_RDONLY)
assert os.pread(early, 3, 0) == b"old"
assert other(1, writes)
fcntl.flock(early, fcntl.LOCK_SH)
assert os.pread(early, 3, 0) == os.read(early, 3) == b"NEW"

file = locked(2)  # again between two locks of the same descriptor
fcntl.flock(file, fcntl.LOCK_UN)
assert other(2, writes)
fcntl.flock(file, fcntl.LOCK_SH)
assert os.pread(file, 3, 0) == b"NEW"
again = os.open(root + "/2", os.O_RDONLY)  # and of another
fcntl.flock(again, fcntl.LOCK_SH)
assert os.pread(again, 3, 0) == b"NEW" """,
    )


def test_what_the_process_writes_itself_is_seen_under_its_lock(shell: Shell) -> None:
    runs(
        shell,
        """
file = locked(3)
writer = os.open(root + "/3", os.O_RDWR)
os.pwrite(writer, b"NEW", 0)
assert os.pread(file, 3, 0) == b"NEW" == os.read(file, 3)
same = locked(5)
other_number = os.dup(same)
fcntl.flock(other_number, fcntl.LOCK_UN)  # of both
assert other(5, "file.write(b'NEW')")
assert os.pread(same, 3, 0) == b"NEW" """,
    )


def test_a_number_that_stood_for_a_locked_file_is_the_next_file_s(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_bytes(b"elsewhere")
    runs(
        shell,
        f"""
close, openat = 3, 257
for again in range(3):
    file = locked(1)
    assert c.syscall(close, file) == 0  # nobody sees that
    assert os.open("{tmp_path}/elsewhere", os.O_RDONLY) == file
    assert os.pread(file, 9, 0) == b"elsewhere"
    os.close(file)
file = locked(2)
assert c.syscall(close, file) == 0
assert other(2, "file.write(b'NEW')")
assert c.syscall(openat, -100, os.fsencode(root + "/2"), 0) == file
assert os.pread(file, 3, 0) == b"NEW"
os.close(file)

# None is left behind, however they were closed; nor are there more than there is room for.
before = len(os.listdir("/proc/self/fd"))
for again in range(200): os.close(locked(4))
assert len(os.listdir("/proc/self/fd")) == before
many = [locked(4) for again in range(100)]
for file in many: os.close(file)
assert len(os.listdir("/proc/self/fd")) == before, os.listdir("/proc/self/fd")
os.closerange(3, 4096)
locked(4)""",
    )


def test_a_file_that_was_put_in_its_place_is_not_the_one_that_is_locked(shell: Shell) -> None:
    """Who has read half of the old one must not go on in the new one."""
    runs(
        shell,
        """
for number, lock in enumerate([fcntl.lockf, fcntl.flock]):
    path = f"{root}/{number}"
    file = os.open(path, os.O_RDONLY)
    assert os.read(file, 6) == b"old %d." % number
    put = "import os, sys; open(sys.argv[2], 'w').write('new!' * 9); os.replace(*sys.argv[:0:-1])"
    subprocess.run([sys.executable, "-c", put, path, path + "-"], env=plain, check=True)
    lock(file, fcntl.LOCK_SH)
    assert os.read(file, 6) == os.pread(file, 6, 6) == b"old %d." % number""",
    )


def test_a_process_that_locked_a_file_opens_it_itself_from_then_on(shell: Shell) -> None:
    lines = """
def is_copy(file):
    return os.readlink(f"/proc/self/fd/{file.fileno()}") != file.name
for number, lock in enumerate((fcntl.lockf, fcntl.flock)):
    file = open(f"{root}/{number}", "rb")
    assert is_copy(file)
    lock(file, fcntl.LOCK_SH if lock is fcntl.lockf else fcntl.LOCK_EX)
    again = open(f"{root}/{number}", "rb")
    assert not is_copy(file) and not is_copy(again), number
    assert is_copy(open(f"{root}/{number + 2}", "rb"))"""
    runs(shell, lines)
