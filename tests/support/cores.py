"""The native half of an agent, without the Python side."""

from __future__ import annotations

from pathlib import Path

from holdfast import _core


def core_in(place: Path, key: bytes, capacity: int = 1 << 20) -> _core.Agent:
    """Make one whose tiers lie in a directory."""
    return _core.Agent(
        key,
        memory_dir=str(place / "memory"),
        memory_capacity=capacity,
        disk_dir=str(place / "disk"),
        disk_capacity=capacity,
    )
