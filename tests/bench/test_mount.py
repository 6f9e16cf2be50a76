"""The benchmark of the mount, in small sizes on real mounts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.requirements import needs_storage

from holdfast.bench import mount
from holdfast.bench.figures import Report
from holdfast.bench.mount import plots
from holdfast.bench.mount.setup import SMALL, Sizes
from holdfast.testing import countfs


def values(report: Report) -> dict[str, float]:
    return {figure.name: figure.value for figure in report.figures if figure.value is not None}


@needs_storage
def test_a_small_run_has_every_row(tmp_path: Path) -> None:
    report = mount.run(SMALL)
    assert report.invalid == []
    assert report.notes == ["The sizes were small: the figures show that it works, not how fast."]
    found = values(report)
    assert len(found) == len(report.figures)
    for row in (
        "warm stat, 100 files",
        "warm open and read of 4 KB, 100 files",
        "warm stat of a missing name, 100 files",
        "warm read of a file of 8 MB",
        'python -c "import numpy" through the mount, warm',
        'python -c "import numpy" through the mount, cold, one node',
        "cold stat through a tree of 3, 40 files",
        "cold 4 KB read through a tree of 3, 40 files",
        "round trip of less than 131,072 bytes, the slowest size",
        "memory of mount and agent after import numpy",
        "simulated tree, 728 files: 8,300 nodes",
    ):
        assert found[row] > 0, row
    storm = "3 agents, 2 processes each, import numpy, 0.1 ms per operation"
    assert found[f"{storm}: opens of the file opened most"] == 1
    assert found["the same: listings of the directory listed most"] == 1
    assert found["the same: files that the shared file system opened"] > 50
    plots.draw(report, tmp_path)
    assert (tmp_path / "mount-round-trips.png").read_bytes().startswith(b"\x89PNG")


def test_the_sizes_are_those_of_the_targets() -> None:
    full = Sizes()
    assert (full.files, full.agents, full.processes, full.operation) == (5000, 16, 12, "2 ms")
    assert full.imported == ("numpy", "pandas")
    assert (full.payloads[0], full.payloads[-1]) == (64, 1 << 20)


def test_nothing_is_measured_where_nothing_can_be_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(countfs, "why_not", lambda: "/dev/fuse is missing")
    report = mount.run()
    assert report.invalid == ["nothing was measured: /dev/fuse is missing"]
    plots.draw(report, tmp_path)
    assert list(tmp_path.iterdir()) == []
