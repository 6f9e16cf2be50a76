"""The simulated import storm: near constant, and as the formula has it where that is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast.planner import imports
from holdfast.planner.imports_simulated import broadcast

COPPER = imports.Import(degree=8)


def test_from_64_to_10000_nodes_it_hardly_grows() -> None:
    seconds = {n: broadcast(COPPER, n, np.random.default_rng(n)) for n in (64, 8300, 10_000)}
    assert seconds[8300] < 1.5 * seconds[64]
    assert seconds[10_000] < 1.5 * seconds[64]
    assert seconds[8300] < imports.direct(COPPER, 8300) / 3


def test_one_node_reads_everything_itself() -> None:
    job = replace(COPPER, files=100)
    expected = job.start + job.requests * job.latency + job.size / job.storage_rate
    assert broadcast(job, 1, np.random.default_rng(1)) == pytest.approx(expected)


@pytest.mark.parametrize("nodes", [64, 2048])
def test_it_agrees_with_the_formula_about_whole_storms(nodes: int) -> None:
    job = replace(COPPER, files=200)
    simulated = broadcast(job, nodes, np.random.default_rng(2))
    assert simulated == pytest.approx(imports.broadcast(job, nodes), rel=0.1)


def test_a_slow_network_makes_the_degree_felt() -> None:
    slow = replace(COPPER, files=100, latency=0.0, network=1e8)
    wide, narrow = replace(slow, degree=64), replace(slow, degree=4)
    rng = np.random.default_rng(3)
    assert broadcast(wide, 4096, rng) > 2 * broadcast(narrow, 4096, rng)
