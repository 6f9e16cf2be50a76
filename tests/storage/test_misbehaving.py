"""A storage can be slow, fail and fall silent, for as long as a test wants it."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from showing import Show, running
from support.waits import wait_for

from holdfast import errors
from holdfast.testing.countfs import CountingFS

#: Against hangs only.
LONG = 30.0


def wait_for_opens(storage: CountingFS, count: int) -> None:
    wait_for(lambda: storage.total().opens >= count)


def test_every_open_takes_its_time_and_nothing_else_does(backing: Path, show: Show) -> None:
    storage = show(open_delay="20 ms")
    (backing / "file").write_bytes(b"x")
    start = time.monotonic()
    for _ in range(20):
        (storage.at / "file").read_bytes()
    assert time.monotonic() - start >= 20 * 0.02
    start = time.monotonic()
    for _ in range(20):
        (storage.at / "file").stat()
    asked = time.monotonic() - start
    start = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: (storage.at / "file").read_bytes(), range(20)))
    together = time.monotonic() - start
    assert asked < 20 * 0.02
    assert together < 20 * 0.02  # opens wait side by side


def test_operations_of_all_nodes_are_served_one_at_a_time(backing: Path, show: Show) -> None:
    storage = show(nodes=2, operation_delay="10 ms")
    (backing / "directory").mkdir()
    (backing / "directory" / "file").write_bytes(b"x" * 1000)
    storage.reset()
    start = time.monotonic()
    with ExitStack() as stack:
        commands = [
            ["cat", f"{storage.at}/directory/file"],
            ["ls", "-l", f"{storage.at}/directory"],
        ]
        processes = [
            stack.enter_context(running([*storage.under(node), *command]))
            for node in range(2)
            for command in commands
        ]
        for process in processes:
            assert process.wait(LONG) == 0
    took = time.monotonic() - start
    asked = storage.total()
    assert min(asked.opens, asked.reads, asked.lookups, asked.getattrs, asked.listings) >= 2
    operations = asked.opens + asked.reads + asked.lookups + asked.getattrs + asked.listings
    assert operations * 0.01 - 0.02 <= took < LONG


@pytest.mark.parametrize("readers", [1, 4])
def test_all_readers_of_all_nodes_share_one_bandwidth(
    backing: Path, show: Show, readers: int
) -> None:
    storage = show(nodes=readers, bandwidth="20 MB/s")
    size = 8_000_000 // readers
    for reader in range(readers):
        (backing / f"{reader}").write_bytes(b"x" * size)
    start = time.monotonic()
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                running([*storage.under(reader), "cat", str(storage.at / f"{reader}")])
            )
            for reader in range(readers)
        ]
        for process in processes:
            assert process.wait(LONG) == 0
    took = time.monotonic() - start
    assert storage.total().bytes == 8_000_000
    assert 8_000_000 / 20e6 - 0.02 <= took < LONG


def test_errors_reach_the_reader_until_they_are_healed(backing: Path, show: Show) -> None:
    storage = show()
    for name in ("bad", "barred", "gone", "badly"):
        (backing / name).write_bytes(b"x" * 10_000)
    storage.fail("bad", "read", errno.EIO)
    storage.fail("barred", "open", errno.EACCES)
    storage.fail("gone", "stat", errno.ESTALE)
    with (
        (storage.at / "bad").open("rb") as file,  # it opens, and cannot be read
        pytest.raises(OSError, match="Input/output"),
    ):
        file.read()
    with pytest.raises(PermissionError):
        (storage.at / "barred").open("rb")
    with pytest.raises(OSError, match="Stale"):
        (storage.at / "gone").stat()
    assert (storage.at / "badly").read_bytes() == b"x" * 10_000
    storage.heal()
    for name in ("bad", "barred", "gone"):
        assert (storage.at / name).read_bytes() == b"x" * 10_000


def test_a_storage_that_is_full_takes_no_more_until_it_is_healed(backing: Path, show: Show) -> None:
    storage = show()
    storage.fail("full", "write", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        (storage.at / "full").write_bytes(b"x")
    (storage.at / "other").write_bytes(b"y")
    assert (backing / "other").read_bytes() == b"y"
    storage.heal()
    (storage.at / "full").write_bytes(b"x")
    assert (backing / "full").read_bytes() == b"x"


def test_trouble_with_a_directory_is_with_all_below(backing: Path, show: Show) -> None:
    storage = show()
    (backing / "a" / "b").mkdir(parents=True)
    (backing / "a" / "b" / "file").write_bytes(b"x")
    (backing / "ab").write_bytes(b"x")
    storage.fail("a", "open", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        (storage.at / "a" / "b" / "file").read_bytes()
    assert (storage.at / "ab").read_bytes() == b"x"
    storage.fail("", "open", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        (storage.at / "ab").read_bytes()


READ = "import sys; print(len(open(sys.argv[1], 'rb').read()))"


@pytest.mark.parametrize("operation", ["open", "read", "stat"])
def test_what_hangs_goes_on_when_it_is_healed(backing: Path, show: Show, operation: str) -> None:
    storage = show()
    (backing / "file").write_bytes(b"x" * 10_000)
    (backing / "other").write_bytes(b"y")
    (storage.at / "other").stat()  # its name is known from now on
    storage.hang("file", operation)
    with subprocess.Popen(
        [sys.executable, "-c", READ, str(storage.at / "file")], stdout=subprocess.PIPE
    ) as reader:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                reader.wait(0.5)
            assert (storage.at / "other").read_bytes() == b"y"
            storage.heal()
            assert reader.communicate(timeout=LONG)[0] == b"10000\n"
        finally:
            reader.kill()


@pytest.mark.parametrize("operation", ["open", "read"])
def test_who_hangs_can_be_killed(backing: Path, show: Show, operation: str) -> None:
    storage = show()
    (backing / "file").write_bytes(b"x")
    storage.hang("file", operation)
    with running([sys.executable, "-c", READ, str(storage.at / "file")]) as reader:
        wait_for_opens(storage, 1)
        assert reader.poll() is None
        reader.kill()
        assert reader.wait(LONG) == -9


def test_many_may_hang_and_others_still_read(backing: Path, show: Show) -> None:
    storage = show()
    (backing / "other").write_bytes(b"y" * 1_000_000)
    for number in range(30):
        (backing / f"{number}").write_bytes(b"x")
    for number in range(30):
        storage.hang(f"{number}", "read")
    with ThreadPoolExecutor(30) as pool:
        reads = [pool.submit((storage.at / f"{number}").read_bytes) for number in range(30)]
        try:
            wait_for_opens(storage, 30)
            assert (storage.at / "other").read_bytes() == b"y" * 1_000_000
            assert not any(read.done() for read in reads)
        finally:
            storage.heal()
        assert all(read.result(LONG) == b"x" for read in reads)


def test_mistakes_are_said(show: Show) -> None:
    storage = show()
    with pytest.raises(errors.BadInput, match="there is no operation 'seek'; use open,"):
        storage.fail("file", "seek", errno.EIO)
    with pytest.raises(errors.BadInput, match="is not an error number"):
        storage.fail("file", "read", 0)
    with pytest.raises(errors.BadInput, match="is not a path below"):
        storage.hang(str(storage.at / "file"), "read")
