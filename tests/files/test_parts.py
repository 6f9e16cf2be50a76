"""Large files of other nodes come in parts: the first is read before the last has come."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from support.counters import nodes_of
from support.settings import UNHURRIED
from support.waits import wait_for

import holdfast
from holdfast import _core
from holdfast.files import Files
from holdfast.files.parts import PartFile
from holdfast.session import session as sessions
from holdfast.testing.countfs import HOST, CountingFS

PART = _core.PART_BYTES
NODES = 2
#: Ten parts, the last one short.
CONTENT = random.Random(7).randbytes(9 * PART + 12_345)


@pytest.fixture
def nodes() -> int:
    """Who does not own a file is the other."""
    return NODES


@pytest.fixture
def data() -> dict[str, bytes]:
    """One large file."""
    return {"large": CONTENT}


@pytest.fixture
def settings() -> dict[str, str]:
    """Nobody dies unless it is killed, and who is slow is not to be given up."""
    return {**UNHURRIED, "deadline": "20 s"}


@pytest.fixture
def owner(cluster: holdfast.LocalCluster, storage: CountingFS) -> int:
    """Which node has the file, whole."""
    with cluster.connect() as job:
        assert job.files(storage.at).read("large") == CONTENT
    (node,) = (node for node in range(NODES) if storage.opens(node))
    storage.reset()
    return node


@pytest.fixture
def remote(cluster: holdfast.LocalCluster, storage: CountingFS, owner: int) -> Iterator[Files]:
    """Files as a program of the other node sees them."""
    with cluster.connect(1 - owner) as job:
        yield job.files(storage.at)


def opened(files: Files) -> io.BufferedReader:
    """Open the file, which comes in parts."""
    file = files.open("large")
    assert isinstance(file, io.BufferedReader)
    assert isinstance(file.raw, PartFile)
    return file


def held() -> int:
    """How many files this process has open; connections are kept for a while."""
    files = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one by which we look
            files += not os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return files


def test_every_byte_is_where_it_belongs(remote: Files, storage: CountingFS) -> None:
    rng = random.Random(3)
    with opened(remote) as file:
        assert file.read() == CONTENT
        assert file.read(1) == b""
        places = [0, PART - 1, PART, 9 * PART - 5, len(CONTENT) - 1, len(CONTENT) + 7]
        for place in places + [rng.randrange(len(CONTENT)) for _ in range(20)]:
            size = rng.choice([1, 100, 70_000, PART + 3])
            assert file.seek(place) == file.tell() == place
            assert file.read(size) == CONTENT[place : place + size]
        assert file.seek(-3, os.SEEK_END) == len(CONTENT) - 3
        assert file.read() == CONTENT[-3:]
        with pytest.raises(OSError, match="Invalid"):
            file.raw.seek(-1)
    assert storage.total().opens == 0
    with pytest.raises(ValueError, match="closed"):
        file.raw.readinto(bytearray(1))


def test_the_first_part_comes_without_the_rest(
    remote: Files, owner: int, cluster: holdfast.LocalCluster, backing: Path
) -> None:
    with opened(remote) as file:
        assert file.read(PART) == CONTENT[:PART]
        cluster.kill(owner)
        (backing / "large").unlink()
        with pytest.raises(FileNotFoundError):  # nobody has it any more, nor had we
            file.read()


def test_a_program_reads_what_has_come_while_the_storage_still_gives(
    tmp_path: Path, backing: Path, settings: dict[str, str]
) -> None:
    at = tmp_path / "slow"
    with (
        CountingFS(backing, at, nodes=NODES, bandwidth="8 MB/s") as storage,
        holdfast.local_cluster(nodes=NODES, storage=storage, **settings) as cluster,
    ):
        for node in range(NODES):  # one of them owns it
            with cluster.connect(node) as job, job.files(at).open("large") as file:
                if node == 0:
                    assert file.read(100) == CONTENT[:100]
                    assert storage.total().bytes < len(CONTENT)
                assert file.read() == (CONTENT if node else CONTENT[100:])


def test_a_child_that_is_forked_in_the_middle_reads_on(remote: Files) -> None:
    with opened(remote) as file:
        first = file.read(3 * PART + 5)
        child = os.fork()
        if child == 0:
            os._exit(0 if first + file.read() == CONTENT else 1)
        assert first + file.read() == CONTENT
        assert os.waitpid(child, 0)[1] == 0


def test_nothing_is_left_of_parts_that_nobody_reads(remote: Files) -> None:
    before = held()
    for size in (1, PART + 1, 3 * PART, 3 * PART + 1, len(CONTENT)):
        with opened(remote) as file:
            assert file.read(size) == CONTENT[:size]
            file.seek(PART // 2)
            assert file.read(size) == CONTENT[PART // 2 : PART // 2 + size]
    assert held() == before


def test_who_asks_for_a_descriptor_gets_the_whole_file(remote: Files) -> None:
    with opened(remote) as file:
        assert file.read(10) == CONTENT[:10]
        number = file.fileno()
        assert os.fstat(number).st_size == len(CONTENT)
        file.seek(PART)
        assert file.read() == CONTENT[PART:]
        assert os.pread(number, 5, 20) == CONTENT[20:25]
        assert file.fileno() == number
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_fsspec_knows_the_size_without_fetching_the_file(
    remote: Files, owner: int, cluster: holdfast.LocalCluster, backing: Path
) -> None:
    fsspec = pytest.importorskip("holdfast.integrations.fsspec")
    with fsspec._File(opened(remote).detach()) as file:
        cluster.kill(owner)
        (backing / "large").unlink()
        assert file.size == len(CONTENT)  # of which nobody has more now than the first part


def test_an_owner_that_dies_between_two_parts_costs_no_byte(
    remote: Files, owner: int, cluster: holdfast.LocalCluster
) -> None:
    with opened(remote) as file:
        first = file.read(PART + 10)
        cluster.kill(owner)
        assert first + file.read() == CONTENT


def test_parts_of_two_versions_are_never_mixed(remote: Files, backing: Path) -> None:
    with opened(remote) as file:
        assert file.read(PART) == CONTENT[:PART]
        (backing / "large").write_bytes(CONTENT[::-1])
        remote.refresh()
        with pytest.raises(OSError, match="changed") as failure:
            file.read()
        assert failure.value.errno == errno.ESTALE
        with pytest.raises(OSError, match="changed"):
            file.fileno()
    with remote.open("large") as file:
        assert file.read() == CONTENT[::-1]


def test_a_file_that_changes_while_its_owner_still_reads_it(
    tmp_path: Path, backing: Path, settings: dict[str, str]
) -> None:
    at = tmp_path / "slow"
    with (
        CountingFS(backing, at, nodes=NODES, bandwidth="8 MB/s") as storage,
        holdfast.local_cluster(nodes=NODES, storage=storage, **settings) as cluster,
        cluster.connect() as job,
        job.files(at).open("large") as file,
    ):
        assert file.read(100) == CONTENT[:100]
        storage.hang("large", "read")
        storage.reset()
        file.seek(2 * PART)
        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(file.read, PART)
            wait_for(lambda: storage.total().lookups)  # the owner has found it the same as before
            with open(backing / "large", "r+b") as original:
                original.write(CONTENT[::-1])
            storage.heal()
            with pytest.raises(OSError, match="changed"):
                rest.result()


def test_a_part_that_was_damaged_is_not_served(
    remote: Files, cluster: holdfast.LocalCluster, storage: CountingFS
) -> None:
    (copy,) = (
        path
        for agent in sessions.agents(cluster.directory)
        for path in map(Path, agent.tiers.in_memory())
        if path.stat().st_size == len(CONTENT)
    )
    copy.chmod(0o600)
    with open(copy, "r+b") as file:
        file.seek(4 * PART + 99)
        file.write(bytes([CONTENT[4 * PART + 99] ^ 1]))
    with opened(remote) as part_by_part:
        assert part_by_part.read() == CONTENT
    assert sum(node.counters["damaged"] for node in nodes_of(cluster).values()) == 1
    assert storage.total().opens == 1  # by whoever has read it since


def test_a_large_file_that_is_too_young_to_be_kept_is_read_once(
    storage: CountingFS, settings: dict[str, str]
) -> None:
    young = {**settings, "file_settled": "1 h"}
    with holdfast.local_cluster(nodes=NODES, storage=storage, **young) as cluster:
        for node in range(NODES):
            storage.reset()
            with cluster.connect(node) as job, job.files(storage.at).open("large") as file:
                assert file.read() == CONTENT
            assert storage.total().opens == 1


def test_files_that_drive_each_other_out_are_not_read_anew_for_each_part(
    storage: CountingFS, backing: Path, settings: dict[str, str]
) -> None:
    tight = {**settings, "memory": "52 MiB", "disk": "1 MiB", "file_largest": "48 MiB"}
    with (
        holdfast.local_cluster(nodes=NODES, storage=storage, **tight) as cluster,
        cluster.connect(0) as job,
    ):
        files = job.files(storage.at)
        for number in range(16):
            (backing / f"f{number}").write_bytes(b"small")
            files.read(f"f{number}")
        names = sorted(storage.opens(1))[:2]  # those of the other node
        for name in names:
            (backing / name).write_bytes(CONTENT)
        files.refresh()
        storage.reset()
        with files.open(names[0]) as file:
            for at in range(0, len(CONTENT), PART):
                assert file.read(PART) == CONTENT[at : at + PART]
                # No fill is on its way, so there is room for the other if the first one goes.
                wait_for(lambda: not nodes_of(cluster)["node-1"].tiers["memory"]["reserved"])
                assert files.read(names[1]) == CONTENT
                wait_for(lambda: not nodes_of(cluster)["node-1"].tiers["memory"]["reserved"])
        assert storage.opens(1)[names[0]] == 1
        assert storage.opens(HOST) == {names[0]: 1}
