"""A tier's capacity: the least of what is set, what lies beneath and what the job may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import BadInput
from holdfast.session import capacity


def test_the_least_limit_of_the_control_groups_counts(tmp_path: Path) -> None:
    step = tmp_path / "sys" / "job" / "step"
    step.mkdir(parents=True)
    (step / "memory.max").write_text("max\n")
    (step.parent / "memory.max").write_text("1000000\n")
    groups = tmp_path / "cgroup"
    groups.write_text("0::/job/step\n")
    assert capacity.memory_limit(str(groups), str(tmp_path / "sys")) == 1_000_000
    (step / "memory.max").write_text("5000\n")
    assert capacity.memory_limit(str(groups), str(tmp_path / "sys")) == 5000


def test_control_groups_of_version_1(tmp_path: Path) -> None:
    job = tmp_path / "sys" / "memory" / "job"
    job.mkdir(parents=True)
    (job / "memory.limit_in_bytes").write_text("70000\n")
    groups = tmp_path / "cgroup"
    groups.write_text("5:cpu:/job\n4:hugetlb,memory:/job\n")
    assert capacity.memory_limit(str(groups), str(tmp_path / "sys")) == 70_000


def test_without_groups_the_machine_counts(tmp_path: Path) -> None:
    assert capacity.memory_limit(str(tmp_path / "missing"), str(tmp_path)) > 1 << 28


def test_what_others_have_of_the_memory_is_not_there(tmp_path: Path) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal:  9000 kB\nMemAvailable:    3000 kB\nCached: 1 kB\n")
    assert capacity.memory_left(str(memory)) == 3000 << 10
    assert capacity.memory_left(str(tmp_path / "missing")) > 1 << 50
    assert 1 << 20 < capacity.memory_left() <= capacity.memory_limit("/nowhere")


def test_agents_of_a_host_share_a_quarter_by_default(tmp_path: Path) -> None:
    one = capacity.resolve(None, str(tmp_path), 1, in_memory=False)
    four = capacity.resolve(None, str(tmp_path), 4, in_memory=False)
    assert one == pytest.approx(4 * four, rel=0.05)
    assert capacity.resolve(12345, str(tmp_path), 4, in_memory=True) == 12345
    with pytest.raises(BadInput, match="memory_dir"):
        capacity.resolve(None, "/nowhere", 1, in_memory=True)


def test_a_disk_tier_that_is_cut_down_leaves_room_and_shares_with_the_others(
    tmp_path: Path,
) -> None:
    info = os.statvfs(tmp_path)
    free = info.f_frsize * info.f_bavail
    one = capacity.resolve(1 << 60, str(tmp_path), 1, in_memory=False)
    assert 0.8 * free < one < 0.95 * free
    four = capacity.resolve(1 << 60, str(tmp_path), 4, in_memory=False)
    assert one == pytest.approx(4 * four, rel=0.05)
    assert capacity.resolve(12345, str(tmp_path), 4, in_memory=False) == 12345
