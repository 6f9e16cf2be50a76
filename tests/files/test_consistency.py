"""Rule 12: what is seen of files that change, and of what is no plain file."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from support.settings import SETTINGS
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.testing.countfs import CountingFS

NAME = "part-0/003"


def test_rule_12_a_change_behind_our_back_is_seen_after_refresh(
    cluster: holdfast.LocalCluster, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    with cluster.connect(0) as job, cluster.connect(2) as other:
        files, others = job.files(storage.at), other.files(storage.at)
        assert files.read(NAME) == data[NAME]
        for change in (b"replaced", b"replaced again, and longer", b""):
            (backing / "new").write_bytes(change)
            before = files.read(NAME)
            (backing / "new").replace(backing / NAME)
            assert files.read(NAME) == others.read(NAME) == before
            done = files.refresh(NAME)
            assert sorted(done.nodes) == [f"node-{n}" for n in range(4)]
            assert done.missed == []
            storage.reset()
            assert files.read(NAME) == others.read(NAME) == change
            assert storage.opens() == {NAME: 1}


@pytest.mark.parametrize("change", ["truncated", "appended to", "deleted"])
def test_rule_12_what_becomes_of_a_file_in_place_is_seen_after_refresh_and_not_before(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path, change: str
) -> None:
    files = job.files(storage.at)
    assert files.read(NAME) == data[NAME]
    if change == "truncated":
        os.truncate(backing / NAME, 7)
    elif change == "appended to":
        with open(backing / NAME, "ab") as file:
            file.write(b"more")
    else:
        (backing / NAME).unlink()
    storage.reset()
    assert files.read(NAME) == data[NAME]
    assert storage.opens() == {}
    files.refresh(NAME)
    if change == "deleted":
        with pytest.raises(FileNotFoundError):
            files.read(NAME)
    else:
        for _ in range(2):
            assert files.read(NAME) == (backing / NAME).read_bytes()
        assert storage.opens() == {NAME: 1}


def test_rule_12_a_refresh_of_what_did_not_change_reads_nothing_again(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    for name in data:
        files.read(name)
    storage.reset()
    files.refresh()
    for name, content in data.items():
        assert files.read(name) == content
    assert storage.opens() == {}
    assert storage.total().lookups > 0  # it did look


def test_rule_12_validate_open_sees_every_change(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    files = job.files(storage.at, validate="open")
    assert files.read(NAME) == data[NAME]
    assert files.read(NAME) == data[NAME]
    assert storage.opens() == {NAME: 1}
    (backing / NAME).write_bytes(b"changed")
    assert files.read(NAME) == b"changed"
    with open(backing / NAME, "ab") as file:
        file.write(b" and appended to")
    assert files.read(NAME) == b"changed and appended to"
    os.truncate(backing / NAME, 3)
    assert files.read(NAME) == b"cha"
    assert files.stat(NAME).st_size == 3
    (backing / NAME).unlink()
    with pytest.raises(FileNotFoundError):
        files.read(NAME)


def test_rule_12_a_deleted_file_is_served_until_refreshed(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    files = job.files(storage.at)
    files.read(NAME)
    (backing / NAME).unlink()
    assert files.read(NAME) == data[NAME]
    files.refresh("part-0")  # a directory, with all below it
    with pytest.raises(FileNotFoundError):
        files.read(NAME)


def test_rule_12_more_names_than_one_message_holds_are_all_refreshed(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    files = job.files(storage.at)
    assert files.read(NAME) == data[NAME]
    (backing / "new").write_bytes(b"another version")
    (backing / "new").rename(backing / NAME)
    nowhere = [f"{number:0200}" for number in range(500)]
    done = files.refresh(*nowhere, NAME)
    assert (len(done.nodes), done.missed) == (4, [])
    assert files.read(NAME) == b"another version"


def test_rule_12_a_young_file_is_served_and_not_kept(
    storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    young = {**SETTINGS, "file_settled": "1 h"}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **young) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        for _ in range(3):
            assert files.read(NAME) == data[NAME]
        assert storage.opens()[NAME] == 3
        os.utime(backing / NAME, (1e9, 1e9))
        for _ in range(3):
            assert files.read(NAME) == data[NAME]
        assert storage.opens()[NAME] == 4


def test_rule_12_a_file_that_changes_while_it_is_read_is_read_again(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path
) -> None:
    name = "part-2/005"  # 300,000 bytes
    storage.hang(name, "read")
    files = job.files(storage.at)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(files.read(name)))
    reader.start()
    wait_for(lambda: storage.opens().get(name, 0) == 1)
    os.utime(backing / name)  # its time of change is another one now
    storage.heal()
    reader.join(30)
    assert got == [data[name]]
    assert storage.opens() == {name: 2}
    assert files.read(name) == data[name]
    assert storage.opens() == {name: 2}


def test_rule_12_a_version_that_was_away_for_a_moment_is_not_taken_for_an_old_one(
    cluster: holdfast.LocalCluster, storage: CountingFS, backing: Path
) -> None:
    """An old version leaves the cache for good: a reader must be sure that it is one."""
    for version in ("first", "second"):
        (backing / version).mkdir()
        (backing / version / "file").write_text(version)
    (backing / "latest").symlink_to("first")
    with cluster.connect() as job:
        files = job.files(storage.at, validate="open")
        assert files.read("latest/file") == b"first"
        storage.hang("second/file", "stat")
        _switch(backing, "second")
        reader = threading.Thread(target=files.read, args=("latest/file",))
        reader.start()
        wait_for(lambda: "second/file" in storage.counts())
        _switch(backing, "first")
        storage.heal()
        reader.join()
        storage.reset()
        for _ in range(2):
            assert files.read("latest/file") == b"first"
        assert storage.opens() == {}


def _switch(backing: Path, version: str) -> None:
    (backing / "next").symlink_to(version)
    (backing / "next").replace(backing / "latest")


def test_what_is_no_plain_file_is_the_storage_s_own(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes], backing: Path, tmp_path: Path
) -> None:
    files = job.files(storage.at)
    (tmp_path / "outside").write_bytes(b"outside")
    (backing / "inside").symlink_to(NAME)
    (backing / "foreign").symlink_to(tmp_path / "outside")
    (backing / "loop").symlink_to("loop")
    os.mkfifo(backing / "fifo")
    assert files.read("inside") == data[NAME]
    assert files.read("foreign") == b"outside"
    for name, code in {
        "loop": errno.ELOOP,
        "part-0": errno.EISDIR,
        "missing": errno.ENOENT,
        "part-0/000/below": errno.ENOTDIR,
        "x" * 300: errno.ENAMETOOLONG,
    }.items():
        with pytest.raises(OSError, match=r"Errno") as caught:
            files.read(name)
        assert caught.value.errno == code, name
    assert files.stat("fifo").st_mode == os.stat(backing / "fifo").st_mode  # and nobody waits
    assert files.stats().local + files.stats().remote == 1  # the link that stays inside


@pytest.mark.parametrize(
    ("setting", "limit"),
    [({"file_largest": "64 KiB"}, 65_536), ({"memory": "1 MiB"}, 262_144)],
    ids=["as set", "a quarter of the tier"],
)
def test_a_file_above_the_limit_is_not_cached_but_read(
    storage: CountingFS, data: dict[str, bytes], setting: dict[str, str], limit: int
) -> None:
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **{**SETTINGS, **setting}) as cluster,
        cluster.connect() as job,
    ):
        files = job.files(storage.at)
        for name, content in list(data.items())[:6]:  # of each size
            assert files.read(name) == files.read(name) == content
            assert storage.opens()[name] == (2 if len(content) > limit else 1)


def test_a_large_sparse_file_is_read_from_the_storage(
    job: holdfast.Job, storage: CountingFS, backing: Path
) -> None:
    with open(backing / "sparse", "wb") as file:
        file.truncate(5 << 30)
        file.seek(3 << 30)
        file.write(b"island")
    with job.files(storage.at).open("sparse") as file:
        file.seek(3 << 30)
        assert file.read(6) == b"island"
        assert os.fstat(file.fileno()).st_blocks * 512 < 1 << 30


def test_an_error_of_the_storage_is_the_program_s_and_passes(
    job: holdfast.Job, storage: CountingFS, data: dict[str, bytes]
) -> None:
    files = job.files(storage.at)
    name = "part-1/004"
    for operation in ("open", "read"):
        storage.fail(name, operation, errno.EIO)
        with pytest.raises(OSError, match=r"Errno") as caught:
            files.read(name)
        assert caught.value.errno == errno.EIO
        assert not isinstance(caught.value, errors.HoldfastError)
        storage.heal()
    assert files.read(name) == data[name]
    storage.reset()
    assert files.read(name) == data[name]
    assert storage.opens() == {}


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_files_in_one_directory_are_listed_and_read_like_others(
    job: holdfast.Job, storage: CountingFS, backing: Path, count: int
) -> None:
    (backing / "many").mkdir()
    for number in range(count):
        os.close(os.open(backing / f"many/{number}", os.O_WRONLY | os.O_CREAT, 0o600))
    files = job.files(storage.at)
    assert len(files.listdir("many")) == count
    for _ in range(2):
        assert files.read("many/17777") == b""
    assert storage.opens() == {"many/17777": 1}
