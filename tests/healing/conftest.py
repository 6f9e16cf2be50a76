"""Clusters with short periods, so that deaths are noticed in a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from healing import Inside

import holdfast


@pytest.fixture(autouse=True)
def _short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PROBE_PERIOD", "0.1 s")


@pytest.fixture
def five() -> Iterator[holdfast.LocalCluster]:
    """Five agents."""
    with holdfast.local_cluster(nodes=5, memory="256 MiB", disk="64 MiB") as cluster:
        yield cluster


@pytest.fixture
def inside(five: holdfast.LocalCluster) -> Iterator[Inside]:
    """Looks into the five."""
    with Inside(five) as looking:
        yield looking
