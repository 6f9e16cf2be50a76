"""Files come from the nodes of the job, and the storage is asked once."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from epochs import epoch
from support.settings import SETTINGS, UNHURRIED

import holdfast
from holdfast import errors
from holdfast.testing.countfs import HOST, CountingFS


@pytest.fixture
def settings() -> dict[str, str]:
    """Nobody dies here."""
    return UNHURRIED


def test_each_file_is_opened_once_by_its_owner_whoever_reads(
    cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes]
) -> None:
    for node in range(4):
        with cluster.connect(node) as job:
            files = job.files(storage.at)
            epoch(files, data)
            epoch(files, data)
            stats = files.stats()
            assert stats.shared == 0
            assert stats.local > 0
            assert stats.remote > stats.local
            assert stats.bytes == 2 * sum(map(len, data.values()))
    assert storage.opens() == dict.fromkeys(data, 1)
    assert storage.opens(HOST) == {}
    assert all(storage.opens(node) for node in range(4))  # each had its share to read


def test_what_is_cached_needs_no_storage_at_all(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    files = job.files(storage.at)
    epoch(files, data)
    for name in data:
        (backing / name).unlink()
    storage.reset()
    epoch(files, data)
    assert storage.total().opens == storage.total().lookups == 0


def test_read_into_a_buffer(job: holdfast.Job, root: Path, data: dict[str, bytes]) -> None:
    files = job.files(root)
    out = bytearray(400_000)
    for name, content in data.items():
        assert files.read(name, out=out) == len(content)
        assert out[: len(content)] == content
    with pytest.raises(errors.BadInput, match=r"10 bytes.*300000"):
        files.read("part-2/005", out=bytearray(10))


def test_open_gives_a_real_file(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    for name, content in data.items():
        with files.open(name) as file:
            assert file.read() == content
            file.seek(len(content) // 2)
            assert file.read() == content[len(content) // 2 :]
            assert os.pread(file.fileno(), 10, 5) == content[5:15]
            if content:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    assert mapped[:] == content
    assert storage.opens() == dict.fromkeys(data, 1)


def test_a_file_that_takes_several_deadlines_to_open_is_read_once_from_the_storage(
    tmp_path: Path,
) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    data = {str(number): os.urandom(2_000_000) for number in range(2)}
    for name, content in data.items():
        (slow / name).write_bytes(content)
    hasty = {**SETTINGS, "deadline": "0.5 s", "file_deadline": "0.3 s"}
    with (
        CountingFS(slow, tmp_path / "at", nodes=2, bandwidth="2 MB/s") as storage,
        holdfast.local_cluster(nodes=2, storage=storage, **hasty) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        for name, content in data.items():
            with files.open(name) as file:
                assert file.read() == content
        assert storage.opens() == dict.fromkeys(data, 1)
        assert storage.opens(HOST) == {}


def test_open_as_text_and_never_for_writing(
    job: holdfast.Job, storage: CountingFS, backing: Path
) -> None:
    (backing / "text").write_text("grüße\nzweite\n", encoding="utf-8")
    files = job.files(storage.at)
    with files.open("text", "r", encoding="utf-8") as file:
        assert file.read() == "grüße\nzweite\n"
    for mode in ("w", "r+", "a", "x", "rw"):
        with pytest.raises(errors.BadInput, match="can only be read"):
            files.open("text", mode)
    assert (backing / "text").read_text(encoding="utf-8") == "grüße\nzweite\n"


def test_stat_is_that_of_the_storage(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    fields = [
        "st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_mtime", "st_mtime_ns",
        "st_ctime_ns", "st_blocks",
    ]  # fmt: skip
    for name in data:
        ours, theirs = files.stat(name), os.stat(storage.at / name)
        for field in fields:
            assert getattr(ours, field) == getattr(theirs, field), field
    assert storage.opens() == {}  # nobody needs to open a file to look at it
    assert files.stat("part-0").st_mode == os.stat(storage.at / "part-0").st_mode
    with pytest.raises(FileNotFoundError):
        files.stat("missing")


def test_names_are_those_of_the_storage(
    job: holdfast.Job, root: Path, data: dict[str, bytes]
) -> None:
    files = job.files(root)
    assert sorted(files.listdir()) == ["part-0", "part-1", "part-2"]
    assert sorted(files.listdir("part-1")) == sorted(os.listdir(root / "part-1"))
    assert list(files.walk()) == sorted(data)
    assert list(files.walk("part-2")) == sorted(name for name in data if name.startswith("part-2"))


def test_one_file_has_many_names(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    content = data["part-0/003"]
    names = ["part-0/003", "./part-0//003", storage.at / "part-0/003", b"part-0/003"]
    for name in names:
        assert files.read(name) == content
    assert storage.opens() == {"part-0/003": 1}
    assert files.read("part-1/../part-0/003") == content  # only the storage knows where that leads
    assert files.stats().shared == 1


def test_strange_names_are_read_like_others(
    job: holdfast.Job, storage: CountingFS, backing: Path
) -> None:
    for name in (b"new\nline", b"not-utf-8-\xff\xfe", b" ", b"x" * 255):
        with open(os.path.join(os.fsencode(backing), name), "wb") as file:
            file.write(name)
        files = job.files(storage.at)
        assert files.read(name) == files.read(name) == name
        assert files.stats().shared == 0
    assert storage.total().opens == 4


def test_a_wrong_root_or_path_is_refused(job: holdfast.Job, root: Path, tmp_path: Path) -> None:
    for wrong in ("/", "/proc", "/dev/shm", root / "missing", root / "part-0/000"):
        with pytest.raises(errors.BadInput, match="root"):
            job.files(wrong)
    files = job.files(root)
    with pytest.raises(errors.BadInput, match="below the root"):
        files.read(tmp_path / "elsewhere")
    with pytest.raises(errors.BadInput, match="zero byte"):
        files.read("a\0b")
    with pytest.raises(errors.BadInput, match="abort, redirect or recache"):
        job.files(root, on_failure="ignore")  # type: ignore[arg-type]
    with pytest.raises(errors.BadInput, match="never or open"):
        job.files(root, validate="always")  # type: ignore[arg-type]
    with pytest.raises(errors.BadInput, match="copies"):
        job.files(root, copies=0)


def test_cached_files_are_no_objects_of_the_user(
    job: holdfast.Job, root: Path, data: dict[str, bytes]
) -> None:
    job.objects.put("mine", b"bytes")
    epoch(job.files(root), data)
    assert [info.key for info in job.objects.list()] == ["mine"]
    with pytest.raises(errors.BadInput, match="@file"):
        job.objects.put(f"@file{root}/part-0/000", b"poison")


def test_many_threads_that_open_at_once_read_each_file_once(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    wrong: list[str] = []
    start = threading.Barrier(16)

    def read() -> None:
        start.wait()
        for name, content in data.items():
            with files.open(name) as file:
                if file.read() != content or files.read(name) != content:
                    wrong.append(name)

    threads = [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert storage.opens() == dict.fromkeys(data, 1)


def test_an_open_file_is_named_by_its_path(job: holdfast.Job, root: Path) -> None:
    for _ in range(2):  # from the storage, and from its copy
        with job.files(root).open("part-0/003") as file:
            assert file.name == str(root / "part-0/003")
        with job.files(root).open(b"part-0/003", "r", encoding="latin-1") as text:
            assert text.name == str(root / "part-0/003")


def test_a_child_after_fork_reads_as_its_parent_does(
    job: holdfast.Job, root: Path, data: dict[str, bytes]
) -> None:
    files = job.files(root)
    epoch(files, data)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            epoch(files, data)
            code = 0
        finally:
            os._exit(code)
    epoch(files, data)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


#: Threads that all but always hold a lock, and children that need it. A child that hangs is killed.
_FORKS = """
import os, signal, sys, threading
from pathlib import Path
from holdfast import config
from holdfast.job import Job

directory, root, name = sys.argv[1:]
job = Job(Path(directory), config.load().config, "node-0")
files = job.files(root)
content = files.read(name)
done = threading.Event()

def count():
    while not done.is_set():
        files.stats()

def merge():
    while not done.is_set():
        with job._connection._merging:
            job._connection.routing.entries()

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=target) for target in (count, merge)]
for thread in threads:
    thread.start()
codes = []
for _ in range(40):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        job._connection.refresh()
        os._exit(files.read(name) != content)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if codes[-1]:
        break
done.set()
for thread in threads:
    thread.join()
print(*codes)
"""


def test_children_that_are_forked_while_threads_read_do_not_hang(
    cluster: holdfast.LocalCluster, root: Path, data: dict[str, bytes]
) -> None:
    arguments = [str(cluster.directory), str(root), "part-0/003"]
    ran = subprocess.run(
        [sys.executable, "-c", _FORKS, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    assert ran.stdout.split() == ["0"] * 40


def test_reading_leaves_nothing_behind_in_an_agent(
    cluster: holdfast.LocalCluster, job: holdfast.Job, root: Path, data: dict[str, bytes]
) -> None:
    def resident() -> int:
        pages = [Path(f"/proc/{node.pid}/statm").read_text().split() for node in cluster.nodes]
        return sum(int(fields[1]) - int(fields[2]) for fields in pages) * 4096  # not shared

    def descriptors() -> int:
        return sum(len(os.listdir(f"/proc/{node.pid}/fd")) for node in cluster.nodes)

    files = job.files(root)
    for _ in range(5):
        epoch(files, data)
        for name in data:
            files.open(name).close()
    memory, open_files = resident(), descriptors()
    for _ in range(40):
        epoch(files, data)
        for name in data:
            files.open(name).close()
    reads = 2 * 40 * len(data)
    assert resident() - memory < reads * 1000  # bytes
    assert descriptors() <= open_files + 100  # spare files come and go
