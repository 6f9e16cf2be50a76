"""Mounts whose storage takes longer than any deadline: it is waited for, and read once."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mounted import through
from support.waits import WITHIN

import holdfast
from holdfast.testing.countfs import HOST, CountingFS


def test_a_slow_storage_is_read_once_by_all_nodes(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (backing / name).mkdir()
        (backing / name / "file").write_text(name)
    with (
        through(cluster, tmp_path / "m0", storage.at, 0) as first,
        through(cluster, tmp_path / "m1", storage.at, 1) as second,
        ThreadPoolExecutor(8) as pool,
    ):
        views = (first, second)
        for view in views:
            assert sorted(os.listdir(view.top)) == ["a", "b"]
            assert os.listdir(view / "b") == ["file"]
        storage.reset()
        storage.hang("a", "stat")
        storage.hang("b/file", "open")
        listing = [pool.submit(os.listdir, view / "a") for view in views * 2]
        reading = [pool.submit((view / "b/file").read_text) for view in views * 2]
        time.sleep(2.5)  # the deadline is 1 s
        storage.heal()
        assert [one.result(WITHIN) for one in listing] == [["file"]] * 4
        assert [one.result(WITHIN) for one in reading] == ["b"] * 4
        for view in views:
            counters = view.counters()
            assert counters["files_from_storage"] == counters["listings_from_storage"] == 0
    assert storage.total(HOST).listings == 0
    assert storage.counts()["a"].listings == 1
    assert storage.opens() == {"b/file": 1}
