"""Libraries read through `holdfast://`, and the storage is read once."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.tar import TarFileSystem

import holdfast
from holdfast.errors import BadInput, NoSession, Unavailable
from holdfast.integrations.fsspec import HoldfastFileSystem
from holdfast.testing.countfs import CountingFS


@pytest.fixture(autouse=True)
def _no_instances() -> Iterator[None]:
    yield
    HoldfastFileSystem.clear_instance_cache()
    AsyncFileSystemWrapper.clear_instance_cache()
    gc.collect()


@pytest.fixture(scope="module")
def zarr() -> Any:
    """zarr, with the event loop that it keeps for all of a process."""
    module = pytest.importorskip("zarr")
    module.create_group({})
    return module


@pytest.fixture
def data() -> dict[str, bytes]:
    """Some files, of many sizes."""
    rng = random.Random(7)
    return {f"a/{n:02}": rng.randbytes(n * 3000) for n in range(12)} | {"top": b"0123456789"}


@pytest.fixture
def fs(
    data: dict[str, bytes], storage: CountingFS, options: dict[str, Any]
) -> Iterator[HoldfastFileSystem]:
    made = fsspec.filesystem("holdfast", root=storage.at, **options)
    yield made
    vars(made).clear()  # its connections with it: pytest itself lets go of it later


def test_archives_are_read_through_a_chain_of_urls(
    backing: Path, storage: CountingFS, options: dict[str, Any]
) -> None:
    content = random.Random(8).randbytes(50_000)
    (backing / "member").write_bytes(content)
    for name in ("plain.tar", "packed.tar.gz"):
        with tarfile.open(backing / name, "w:gz" if name.endswith("gz") else "w") as archive:
            archive.add(backing / "member", "in/member")
        url = f"tar://in/member::holdfast://{storage.at}/{name}"
        with fsspec.open(url, holdfast={"root": storage.at, **options}) as file:
            assert file.read() == content
    assert storage.opens() == {"plain.tar": 1, "packed.tar.gz": 1}
    TarFileSystem.clear_instance_cache()


def test_reads_are_right_and_open_each_file_of_the_storage_once(
    fs: HoldfastFileSystem, data: dict[str, bytes], storage: CountingFS
) -> None:
    for _ in range(2):
        assert fs.cat(fs.find(storage.at)) == {
            f"{storage.at}/{name}": content for name, content in data.items()
        }
        assert fs.cat_file(f"holdfast://{storage.at}/top", 2, -3) == b"23456"
        assert pickle.loads(pickle.dumps(fs)).cat_file(f"{storage.at}/top") == data["top"]
        with fs.open(f"{storage.at}/a/11") as file:
            file.seek(1000)
            assert file.read() == data["a/11"][1000:]
        with fs.open(f"{storage.at}/top", "r") as text:
            assert text.read() == "0123456789"
    assert storage.opens() == dict.fromkeys(data, 1)


def test_what_it_says_of_files_is_what_the_storage_says(
    fs: HoldfastFileSystem, data: dict[str, bytes], storage: CountingFS, backing: Path
) -> None:
    os.symlink("nowhere", backing / "dangling")
    at = str(storage.at)
    local = fsspec.filesystem("file")
    assert fs.find(at) == local.find(at)
    assert next(fs.walk(at)) == (at, ["a"], ["dangling", "top"])
    assert [(one["name"], one["type"]) for one in fs.ls(at)] == [
        (f"{at}/a", "directory"),
        (f"{at}/dangling", "other"),
        (f"{at}/top", "file"),
    ]
    assert fs.ls(f"{at}/top", detail=False) == [f"{at}/top"]
    assert fs.glob(f"{at}/a/1*") == [f"{at}/a/10", f"{at}/a/11"]
    for path in (f"{at}/a", f"{at}/top"):
        ours, theirs = fs.info(path), local.info(path)
        assert {name: theirs[name] for name in ours if name != "created"} == {
            name: value for name, value in ours.items() if name != "created"
        }
        assert fs.modified(path) == local.modified(path)
    assert fs.info(f"{at}/top")["created"] == os.stat(f"{at}/top").st_ctime
    assert fs.created(f"{at}/top") >= fs.modified(f"{at}/top")
    assert fs.isdir(f"{at}/a")
    assert fs.isfile(f"{at}/top")
    assert not fs.exists(f"{at}/top/of/a/file")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{at}/missing")
    assert storage.opens() == {}


def test_pandas(storage: CountingFS, backing: Path, options: dict[str, Any]) -> None:
    frame = pd.DataFrame({"x": range(1000), "y": np.linspace(0, 1, 1000)})
    frame.to_csv(backing / "frame.csv", index=False)
    frame.to_parquet(backing / "frame.parquet")
    reach = {"root": str(storage.at), **options}
    for _ in range(2):
        csv = pd.read_csv(f"holdfast://{storage.at}/frame.csv", storage_options=reach)
        parquet = pd.read_parquet(f"holdfast://{storage.at}/frame.parquet", storage_options=reach)
        pd.testing.assert_frame_equal(csv, frame)
        pd.testing.assert_frame_equal(parquet, frame)
    assert storage.opens() == {"frame.csv": 1, "frame.parquet": 1}


def test_zarr(zarr: Any, storage: CountingFS, backing: Path, options: dict[str, Any]) -> None:
    field = np.random.default_rng(1).random((64, 64))
    group = zarr.open_group(backing / "run.zarr", mode="w")
    array = group.create_array("field", shape=field.shape, chunks=(16, 16), dtype=field.dtype)
    array[:] = field
    reach = {"root": str(storage.at), **options}
    for _ in range(2):
        url = f"holdfast://{storage.at}/run.zarr"
        seen = zarr.open_group(url, mode="r", storage_options=reach)
        assert (seen["field"][:] == field).all()
    opens = storage.opens()
    assert len([name for name in opens if "/c/" in name]) == 16
    assert set(opens.values()) == {1}


def test_pyarrow(storage: CountingFS, backing: Path, options: dict[str, Any]) -> None:
    table = pa.table({"part": [n // 500 for n in range(2000)], "x": range(2000)})
    pq.write_to_dataset(table, backing / "table", partition_cols=["part"])
    fs = fsspec.filesystem("holdfast", root=storage.at, **options)
    for _ in range(2):
        seen = pa.dataset.dataset(f"{storage.at}/table", filesystem=fs, partitioning="hive")
        assert (
            seen.to_table(columns=["part", "x"])
            .sort_by("x")
            .equals(table.cast(pa.schema([("part", pa.int32()), ("x", pa.int64())])))
        )
    assert list(storage.opens().values()) == [1] * 4


def test_it_may_be_carried_to_other_processes(
    data: dict[str, bytes], storage: CountingFS, options: dict[str, Any]
) -> None:
    reach = json.dumps({"root": str(storage.at), **options})
    paths = [f"{storage.at}/{name}" for name in data]
    program = [sys.executable, Path(__file__).with_name("carried.py"), reach, *paths]
    ran = subprocess.run(program, check=True, capture_output=True, timeout=60)
    hashes = [hashlib.sha256(content).hexdigest() for content in data.values()]
    assert json.loads(ran.stdout) == {"here": hashes, "fork": hashes, "spawn": hashes}
    assert storage.opens() == dict.fromkeys(data, 1)


def test_an_owner_that_dies_is_replaced(
    fs: HoldfastFileSystem,
    data: dict[str, bytes],
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
) -> None:
    everything = {f"{storage.at}/{name}": content for name, content in data.items()}
    assert fs.cat(list(everything)) == everything
    lost = storage.opens(1)
    cluster.kill(1)
    for _ in range(2):
        assert fs.cat(list(everything)) == everything
    assert storage.opens() == {name: 1 + (name in lost) for name in data}


def test_a_failure_is_not_taken_for_a_missing_file(
    data: dict[str, bytes],
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    options: dict[str, Any],
) -> None:
    fs = fsspec.filesystem("holdfast", root=storage.at, on_failure="abort", **options)
    for name in data:
        fs.cat_file(f"{storage.at}/{name}")
    lost = next(iter(storage.opens(1)))
    cluster.kill(1)
    for ask in (fs.exists, fs.isfile, fs.isdir, fs.cat_file):
        with pytest.raises(Unavailable):
            ask(f"{storage.at}/{lost}")


def test_writing_is_refused_and_changes_nothing(
    fs: HoldfastFileSystem, data: dict[str, bytes], storage: CountingFS, backing: Path
) -> None:
    at = f"{storage.at}/top"
    attempts = [
        lambda: fs.open(at, "wb"),
        lambda: fs.open(at, "ab"),
        lambda: fs.open(at, "r+b"),
        lambda: fs.pipe(at, b"x"),
        lambda: fs.pipe_file(at, b"x"),
        lambda: fs.put(str(backing / "a/01"), at),
        lambda: fs.touch(at),
        lambda: fs.rm(at),
        lambda: fs.rm_file(at),
        lambda: fs.mv(at, at + "2"),
        lambda: fs.copy(at, at + "2"),
        lambda: fs.mkdir(at + "2"),
        lambda: fs.makedirs(at + "2", exist_ok=True),
        lambda: fs.rmdir(f"{storage.at}/a"),
    ]
    for attempt in attempts:
        with pytest.raises(BadInput, match="read-only"):
            attempt()
    assert {str(p.relative_to(backing)) for p in backing.rglob("*") if p.is_file()} == set(data)
    assert (backing / "top").read_bytes() == data["top"]


def test_roots_come_from_the_settings_and_mistakes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="no root was given"):
        fsspec.filesystem("holdfast")
    with pytest.raises(BadInput, match="did you mean 'session'"):
        fsspec.filesystem("holdfast", root=tmp_path, sesion="x")
    with pytest.raises(BadInput, match="on_failure='retry'"):
        fsspec.filesystem("holdfast", root=tmp_path, on_failure="retry")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.setenv("HOLDFAST_ROOTS", f"{tmp_path}/one:{tmp_path}/two")
    fs = fsspec.filesystem("holdfast")
    with pytest.raises(BadInput, match="is not below any of the roots"):
        fs.cat_file(f"{tmp_path}/three")
    with pytest.raises(NoSession):
        fs.cat_file(f"{tmp_path}/two/file")
