"""The checkpoint model: closed form, chain and blocks are one model; known values; the optimum."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BadInput
from holdfast.planner.checkpoint import blocks, chain, optimum, two_level
from holdfast.planner.checkpoint.machine import Machine, enough_threads, needed_bandwidth, staging
from holdfast.planner.checkpoint.optimum import daly, young
from holdfast.planner.checkpoint.system import Schedule, System, level_of

#: The machine of the reference values.
REFERENCE = System((72.5, 6380.0), (72.5, 6380.0), (2.0e-5, 1.33e-6), 6380.0, 0.00184)
ATLAS = (7.78e-6, 5.19e-7)
COASTAL = (8.54e-7, 2.01e-7)
TSUBAME = (2.133e-5 * 0.9375, 2.133e-5 * 0.0625)
THREE = System((5.0, 20.0, 300.0), (6.0, 25.0, 310.0), (1e-4, 5e-5, 1e-5), 700.0, 0.1)


def machine(rates: tuple[float, float], failures: float = 1, shared: float = 1) -> System:
    return System((72.5, 6380.0), (72.5, 6380.0), rates, 6380.0, 0.00184).scaled(failures, shared)


def test_reference_values() -> None:
    schedule = Schedule(1500.0, (5,))
    sync = two_level.evaluate(REFERENCE, schedule, asynchronous=False)
    drained = two_level.evaluate(REFERENCE, schedule, asynchronous=True)
    assert sync.expected == pytest.approx(17105.40798, abs=5e-6)
    assert drained.expected == pytest.approx(9875.25675, abs=5e-6)
    assert drained.draining == 5


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3, 6, 9, 40])
@pytest.mark.parametrize("failures", [1, 10])
@pytest.mark.parametrize("rates", [TSUBAME, ATLAS, COASTAL])
def test_closed_form_is_the_chain(rates, failures, segments, asynchronous) -> None:
    system = machine(rates, failures)
    interval = max(400.0, 6380.0 / segments)
    schedule = Schedule(interval, (segments - 1,))
    closed = two_level.evaluate(system, schedule, asynchronous=asynchronous)
    solved = chain.evaluate(system, schedule, asynchronous=asynchronous)
    assert closed.expected == pytest.approx(solved.expected, rel=1e-13)
    assert closed.draining == solved.draining


def test_blocks_are_the_chain_at_the_reference_point() -> None:
    for rates in (TSUBAME, ATLAS, COASTAL):
        for asynchronous in (False, True):
            schedule = Schedule(1500.0, (5,))
            folded = blocks.evaluate(machine(rates), schedule, asynchronous=asynchronous)
            closed = two_level.evaluate(machine(rates), schedule, asynchronous=asynchronous)
            assert folded.expected == pytest.approx(closed.expected, rel=1e-13)


@pytest.mark.parametrize("counts", [(2, 1), (0, 2), (3, 0), (2, 3), (4, 2), (1, 1, 1), (2, 0, 3)])
@pytest.mark.parametrize("interval", [60.0, 100.0, 300.0, 1000.0])
def test_blocks_are_the_chain_for_many_levels(counts, interval) -> None:
    system = THREE
    if len(counts) == 3:
        system = System(
            (2.0, *THREE.costs), (2.0, *THREE.recoveries), (2e-4, *THREE.rates), 700.0, 0.1
        )
    schedule = Schedule(interval, counts)
    for asynchronous in (False, True):
        if asynchronous and system.draining_segments(interval) > schedule.segments:
            continue
        folded = blocks.evaluate(system, schedule, asynchronous=asynchronous)
        solved = chain.evaluate(system, schedule, asynchronous=asynchronous)
        assert folded.expected == pytest.approx(solved.expected, rel=2e-13)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.floats(10, 500),
    st.floats(0, 2000),
    st.floats(0, 0.5),
    st.integers(0, 10_000),
)
def test_blocks_are_the_chain_anywhere(counts, interval, drain, overhead, seed) -> None:
    rng = np.random.default_rng(seed)
    levels = len(counts) + 1
    system = System(
        tuple(sorted(rng.uniform(0, 50, levels))),
        tuple(sorted(rng.uniform(0, 50, levels))),
        tuple(rng.uniform(0, 2e-4, levels)),
        drain,
        overhead,
    )
    schedule = Schedule(interval, tuple(counts))
    for asynchronous in (False, True):
        if asynchronous and system.draining_segments(interval) > schedule.segments:
            continue
        folded = blocks.evaluate(system, schedule, asynchronous=asynchronous)
        solved = chain.evaluate(system, schedule, asynchronous=asynchronous)
        assert folded.expected == pytest.approx(solved.expected, rel=1e-10)


def test_a_rollback_behind_the_drain_stays_drained(monkeypatch) -> None:
    """With three levels a failure after the drain can go back to where it was in flight.

    The copy on the shared file system exists by then: nothing is drained again.
    """
    system = System((5.0, 20.0, 300.0), (6.0, 25.0, 310.0), (1e-3, 5e-4, 1e-6), 700.0, 1.0)
    schedule = Schedule(100.0, (2, 3))
    right = chain.evaluate(system, schedule, asynchronous=True)
    assert 0 < right.draining < schedule.segments
    after = chain._Chain.after

    def trapped(self, state):
        following = after(self, state)
        if following and following.mode == "F" and following.done < self.draining:
            return following._replace(mode="I")
        return following

    monkeypatch.setattr(chain._Chain, "after", trapped)
    wrong = chain.evaluate(system, schedule, asynchronous=True)
    assert wrong.expected > 1.003 * right.expected
    folded = blocks.evaluate(system, schedule, asynchronous=True)
    assert folded.expected == pytest.approx(right.expected, rel=2e-13)


@pytest.mark.parametrize("segments", [1, 2, 6, 50])
def test_without_failures_only_the_costs_are_left(segments) -> None:
    rates = (1e-14, 1e-15)
    system = machine(rates)
    t = 7000.0 if segments < 5 else 1500.0
    schedule = Schedule(t, (segments - 1,))
    sync = two_level.evaluate(system, schedule, asynchronous=False)
    assert sync.expected == pytest.approx((segments - 1) * (t + 72.5) + t + 6380, abs=1e-5)
    drained = two_level.evaluate(system, schedule, asynchronous=True)
    bare = segments * (t + 72.5) + 0.00184 * drained.draining * t
    assert drained.expected == pytest.approx(bare, abs=1e-5)
    for model in (chain, blocks, two_level):
        never = model.evaluate(machine((0.0, 0.0)), schedule, asynchronous=True)
        assert never.expected == pytest.approx(bare, rel=1e-12)


def test_levels_of_checkpoints() -> None:
    assert [level_of(q, (2, 1)) for q in range(1, 7)] == [1, 1, 2, 1, 1, 3]
    assert [level_of(q, (0, 2)) for q in range(1, 4)] == [2, 2, 3]


# Efficiencies of checkpoint-model.md, section 6, by (failure factor, cost factor).
TABLE = {
    TSUBAME: {(1, 1): (0.810, 0.922), (1, 2): (0.747, 0.900), (1, 10): (0.407, 0.691),
              (2, 1): (0.725, 0.877), (2, 2): (0.627, 0.830), (2, 10): (0.109, 0.352),
              (10, 1): (0.305, 0.555), (10, 2): (0.075, 0.264)},
    ATLAS: {(1, 1): (0.884, 0.955), (1, 2): (0.847, 0.948), (1, 10): (0.674, 0.877),
            (2, 1): (0.833, 0.934), (2, 2): (0.780, 0.917), (2, 10): (0.497, 0.762),
            (10, 1): (0.601, 0.800), (10, 2): (0.443, 0.697), (10, 10): (0.001, 0.033)},
    COASTAL: {(1, 1): (0.938, 0.982), (1, 2): (0.917, 0.981), (1, 10): (0.825, 0.955),
              (2, 1): (0.912, 0.975), (2, 2): (0.882, 0.969), (2, 10): (0.749, 0.919),
              (10, 1): (0.802, 0.930), (10, 2): (0.731, 0.900), (10, 10): (0.421, 0.665)},
}  # fmt: skip


@pytest.mark.parametrize("rates", TABLE)
def test_best_efficiencies_of_the_papers_machine(rates) -> None:
    gaps = {}
    for (failures, shared), (sync, drained) in TABLE[rates].items():
        system = machine(rates, failures, shared)
        ours = [optimum.best(system, asynchronous=mode).efficiency for mode in (False, True)]
        assert ours[0] == pytest.approx(sync, abs=1.1e-3)
        assert ours[1] == pytest.approx(drained, abs=1.1e-3)
        assert ours[1] > ours[0]  # the paper: asynchronous wins everywhere
        gaps[failures, shared] = ours[1] / ours[0]
    # ... and the gap grows with failures and with cost
    for (failures, shared), gap in gaps.items():
        for more in ((10 if failures == 2 else 2, shared), (failures, 10 if shared == 2 else 2)):
            if more in gaps and more > (failures, shared):
                assert gaps[more] > gap


def test_where_both_are_hopeless() -> None:
    system = machine(TSUBAME, 10, 10)
    for asynchronous in (False, True):
        best = optimum.best(system, asynchronous=asynchronous)
        assert best is None or best.efficiency < 1e-4


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("failures", "shared"), [(1, 1), (10, 1), (1, 10)])
def test_no_point_of_a_fine_grid_beats_the_optimum(failures, shared, asynchronous) -> None:
    system = machine(TSUBAME, failures, shared)
    best = optimum.best(system, asynchronous=asynchronous)
    t = np.geomspace(50, 30_000, 4000)[None, :]
    n = np.arange(1, 250)[:, None]
    grid = t * n / two_level.expected(system, t, n, asynchronous=asynchronous)
    assert grid.max() <= best.efficiency + 1e-9
    assert grid.max() >= best.efficiency - 1e-3


def test_the_next_drain_starts_when_the_last_one_ends() -> None:
    for rates in (TSUBAME, ATLAS):
        for failures, shared in itertools.product((1, 2, 10), (1, 2)):
            best = optimum.best(machine(rates, failures, shared), asynchronous=True)
            assert best.draining == best.schedule.segments


@pytest.mark.parametrize("asynchronous", [False, True])
def test_four_levels_against_all_counts(asynchronous) -> None:
    system = System(
        (5.0, 20.0, 60.0, 300.0), (6.0, 25.0, 60.0, 310.0), (1e-4, 5e-5, 2e-5, 1e-5), 700.0, 0.1
    )
    best = optimum.best(system, asynchronous=asynchronous)
    everywhere = 0.0
    for counts in itertools.product(range(4), range(4), range(5)):
        for interval in np.geomspace(best.schedule.interval / 2, best.schedule.interval * 2, 9):
            schedule = Schedule(float(interval), counts)
            if asynchronous and system.draining_segments(interval) > schedule.segments:
                continue
            outcome = blocks.evaluate(system, schedule, asynchronous=asynchronous)
            everywhere = max(everywhere, outcome.efficiency)
    assert everywhere <= best.efficiency + 1e-9


def test_synchronous_wins_where_draining_slows_a_lot_and_little_fails() -> None:
    """Figure 12: at today's rates a large overhead makes synchronous better, later it does not."""

    def gap(system: System, overhead: float) -> float:
        slowed = System(system.costs, system.recoveries, system.rates, system.drain, overhead)
        sync = optimum.best(slowed, asynchronous=False)
        return optimum.best(slowed, asynchronous=True).efficiency - sync.efficiency

    today, later = machine(COASTAL), machine(COASTAL, 2, 2)
    assert gap(today, 1.0) > 0 > gap(today, 1.2)
    assert gap(later, 3.0) > 0 > gap(later, 4.0)
    assert gap(machine(TSUBAME), 4.0) > 0


def tsubame(failures: float = 1) -> Machine:
    rates = (TSUBAME[0] * failures, TSUBAME[1] * failures)
    return Machine(
        nodes=1408, checkpoint=29e9, local=400e6, shared=6.4e9, rates=rates, overhead=0.00184
    )


def test_costs_from_bandwidths() -> None:
    system = tsubame().system()
    assert system.costs == pytest.approx((72.5, 6380.0))
    assert system.drain == pytest.approx(6380.0)


@pytest.mark.parametrize(
    ("efficiency", "failures", "drained", "sync"),
    [(0.8, 1, 1.05, 5.6), (0.8, 8, 31.6, 256), (0.7, 4, 3.4, 13.75), (0.9, 1, 3.2, 49.1)],
)
def test_bandwidth_for_an_efficiency(efficiency, failures, drained, sync) -> None:
    """Figure 13 by our model; section 6 of the worked-out model has the same numbers."""
    for asynchronous, wanted in ((True, drained), (False, sync)):
        got = needed_bandwidth(tsubame(failures), efficiency, asynchronous=asynchronous)
        assert got / 1e9 == pytest.approx(wanted, rel=0.03)


def test_no_bandwidth_is_enough_where_local_checkpoints_cost_too_much() -> None:
    assert needed_bandwidth(tsubame(16), 0.8, asynchronous=True) is None
    assert needed_bandwidth(tsubame(4), 0.9, asynchronous=True) is None
    with pytest.raises(BadInput, match="between 0 and 100"):
        needed_bandwidth(tsubame(), 1.2, asynchronous=True)


def test_staging_nodes_of_the_papers_curve() -> None:
    """Figure 8 as the text has it: up to 6.4 GB/s at 32 nodes, then saturating near 8."""
    curve = [(1, 0.3e9), (2, 0.6e9), (4, 1.2e9), (8, 2.2e9), (16, 4.0e9), (32, 6.4e9),
             (64, 7.6e9), (128, 8.0e9)]  # fmt: skip
    points = staging(tsubame(), curve, lambda rate: 0.008768 * rate / 1e9)
    best = max(points, key=lambda point: point.useful(1408))
    assert best.nodes in (16, 32)
    at_32 = next(point for point in points if point.nodes == 32)
    assert at_32.overhead == pytest.approx(0.008768 * 0.2, rel=1e-6)
    assert at_32.outcome.efficiency == pytest.approx(0.922, abs=1e-3)
    assert enough_threads([(1, 0.3), (2, 0.6), (4, 1.0), (8, 1.4), (16, 1.6), (32, 1.55)]) == (
        16, 1.6,
    )  # fmt: skip


def test_rules_of_thumb_meet_the_exact_optimum_where_failures_are_rare() -> None:
    cost, rate = 60.0, 1e-7
    t = np.geomspace(1e3, 1e6, 20_001)
    system = System((cost, cost), (0.0, 0.0), (0.0, rate), 0.0)
    exact = t[(t / two_level.expected(system, t, 1, asynchronous=False)).argmax()]
    assert young(cost, rate) == pytest.approx(math.sqrt(2 * cost / rate))
    assert daly(cost, rate) == pytest.approx(exact, rel=1e-3)
    assert daly(100.0, 0.1) == 10.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": (1.0,)}, "at least two levels"),
        ({"rates": (1.0, 1.0, 1.0)}, "3 failure rates"),
        ({"drain": -1.0}, "drain time is -1"),
        ({"overhead": math.nan}, "overhead factor is nan"),
    ],
)
def test_impossible_systems_are_refused(change, message) -> None:
    values = {
        "costs": (1.0, 2.0), "recoveries": (1.0, 2.0), "rates": (1e-5, 1e-6), "drain": 2.0,
    } | change  # fmt: skip
    with pytest.raises(BadInput, match=message):
        System(**values)


def test_a_drain_longer_than_its_period_is_refused() -> None:
    for model in (two_level, chain, blocks):
        with pytest.raises(BadInput, match="at least 13 segments"):
            model.evaluate(REFERENCE, Schedule(430.0, (2,)), asynchronous=True)
