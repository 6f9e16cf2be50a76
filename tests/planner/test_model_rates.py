"""Estimates from what happened: intervals that cover, censored time, jobs of a site."""

from datetime import datetime

import msgspec
import numpy as np
import pytest

from holdfast.errors import BadInput
from holdfast.planner.checkpoint.system import System
from holdfast.planner.events import (
    AnyEvent,
    CheckpointEvent,
    DrainEvent,
    EndEvent,
    FailureEvent,
    RecoveryEvent,
    SegmentEvent,
    StartEvent,
    fit,
)
from holdfast.planner.jobs import LoggedJob, analyse
from holdfast.planner.rates import mean, poisson_rate, weibull_shape


def test_intervals_of_rates_are_garwoods() -> None:
    """Standard values for a Poisson count: 0 -> (0, 3.689), 10 -> (4.795, 18.39)."""
    none, ten = poisson_rate(0, 1.0), poisson_rate(10, 1.0)
    assert (none.low, none.high) == (0.0, pytest.approx(3.689, abs=1e-3))
    assert (ten.low, ten.high) == (pytest.approx(4.795, abs=1e-3), pytest.approx(18.39, abs=5e-3))
    assert none.plan == pytest.approx(np.log(2))
    assert ten.plan == 10.0
    with pytest.raises(BadInput, match="the log covers no time"):
        poisson_rate(1, 0.0)


def watched_runs(rng: np.random.Generator, rate: float, runs: int, length: float, shape=1.0):
    """Runs that stop at their first failure or after `length`: most are censored."""
    waits = rng.weibull(shape, runs) / rate
    return waits[waits < length], np.full((waits >= length).sum(), length)


def test_intervals_cover_with_censored_data() -> None:
    """At least 95 % of intervals hold the true rate, though most runs end without a failure."""
    rng = np.random.default_rng(11)
    rate, covered, naive_covered = 1e-4, 0, 0
    for _ in range(600):
        failed, censored = watched_runs(rng, rate, 60, 3000.0)
        estimate = poisson_rate(len(failed), failed.sum() + censored.sum())
        covered += estimate.low <= rate <= estimate.high
        if len(failed):
            naive = poisson_rate(len(failed), failed.sum())  # forgets what was cut off
            naive_covered += naive.low <= rate <= naive.high
    assert covered / 600 > 0.94
    assert naive_covered / 600 < 0.1


@pytest.mark.parametrize("shape", [0.6, 1.0, 1.6])
def test_weibull_shape_with_censored_data(shape) -> None:
    rng = np.random.default_rng(12)
    covered = 0
    for _ in range(200):
        failed, censored = watched_runs(rng, 1e-4, 80, 8000.0, shape)
        found = weibull_shape(failed, censored)
        covered += found.low <= shape <= found.high
    assert covered / 200 >= 0.9


def test_shape_needs_something_to_go_by() -> None:
    assert weibull_shape([5.0, 6.0], [10.0]) is None
    assert weibull_shape([5.0, 5.0, 5.0], []) is None
    poisson = weibull_shape(np.random.default_rng(1).exponential(1.0, 500), [])
    assert poisson.poisson
    bursts = weibull_shape(np.random.default_rng(1).weibull(0.4, 500), [])
    assert not bursts.poisson
    assert bursts.estimate == pytest.approx(0.4, abs=0.05)


def test_intervals_of_means_cover() -> None:
    rng = np.random.default_rng(13)
    inside = 0
    for _ in range(500):
        estimate = mean(rng.normal(72.5, 5.0, 6))
        inside += estimate.low <= 72.5 <= estimate.high
    assert 0.93 < inside / 500 < 0.97
    alone = mean([3.0])
    assert (alone.low, alone.high) == (0.0, np.inf)


def history(rng: np.random.Generator, system: System, runs: int, length: float) -> list[AnyEvent]:
    """A log of a job on `system`: checkpoints, drains, failures at the true rates."""
    log: list[AnyEvent] = []
    now = 1e9
    for _ in range(runs):
        log.append(StartEvent(now, nodes=1408))
        end = now + length
        for level, rate in enumerate(system.rates, 1):
            for offset in rng.uniform(0, length, rng.poisson(rate * length)):
                log.append(FailureEvent(now + offset, level))
                log.append(
                    RecoveryEvent(now + offset, level, rng.normal(system.recoveries[level - 1], 3))
                )
        for offset in np.arange(1500.0, length, 1500.0):
            log.append(CheckpointEvent(now + offset, 1, rng.normal(system.costs[0], 2)))
            slow = 1 + system.overhead if (offset // 1500) % 2 else 1.0
            log.append(SegmentEvent(now + offset, 100.0 * slow, slow > 1, work=10.0))
        for offset in np.arange(7000.0, length, 7000.0):
            whole = rng.random() < 0.8
            seconds = rng.normal(system.drain, 50) * (1 if whole else rng.uniform(0.1, 0.9))
            log.append(DrainEvent(now + offset, seconds, int(6.4e9 * seconds), complete=whole))
        log.append(EndEvent(end))
        now = end + 100
    return log


def test_a_log_gives_back_the_machine_it_came_from() -> None:
    system = System((72.5, 6380.0), (72.5, 6380.0), (2.0e-5, 1.33e-6), 6380.0, 0.05)
    found = fit(history(np.random.default_rng(1), system, 40, 86400.0))
    assert found.runs == 40
    assert found.watched == pytest.approx(40 * 86400.0)
    for level in (0, 1):
        assert found.rates[level].low <= system.rates[level] <= found.rates[level].high
    assert found.costs[0].estimate == pytest.approx(72.5, rel=0.01)
    assert found.recoveries[1].estimate == pytest.approx(6380.0, rel=0.01)
    assert found.drain.estimate == pytest.approx(6380.0, rel=0.02)  # cut-off drains included
    assert found.overhead == pytest.approx(0.05, rel=0.01)
    assert found.shape.poisson
    again = found.system()
    assert again.costs[1] == again.drain  # no synchronous top checkpoint was ever taken
    assert found.system("high").rate > again.rate > found.system("low").rate


def test_a_log_survives_being_written_and_read() -> None:
    system = System((5.0, 50.0), (5.0, 50.0), (1e-4, 1e-5), 50.0)
    log = history(np.random.default_rng(2), system, 1, 20000.0)
    lines = [msgspec.json.encode(event, enc_hook=float) for event in log]
    assert [msgspec.json.decode(line, type=AnyEvent) for line in lines] == log
    assert b'"event":"start"' in lines[0]


def test_what_a_log_does_not_say_is_said() -> None:
    log: list[AnyEvent] = [
        StartEvent(0.0), CheckpointEvent(100.0, 1, 5.0), DrainEvent(200.0, 60.0),
        FailureEvent(300.0, 1), EndEvent(4000.0),
    ]  # fmt: skip
    found = fit(log)
    assert any("no level-2 failure was seen in 1.11 h" in note for note in found.notes)
    assert any("no level-1 recovery" in note for note in found.notes)
    assert any("assumed no overhead" in note for note in found.notes)
    assert found.system().rates[1] == pytest.approx(np.log(2) / 4000)
    cut = fit(
        [*log, StartEvent(5000.0), DrainEvent(5100.0, 10.0, complete=False), EndEvent(6000.0)]
    )
    assert any("cut off" in note for note in cut.notes)
    running = fit(log[:-1])  # the log is cut off: the watch ends with its last event
    assert running.watched == 300.0


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([StartEvent(0.0), EndEvent(10.0)], "fewer than two levels"),
        ([FailureEvent(1.0, 2), EndEvent(10.0)], "outside any run"),
        ([StartEvent(0.0), StartEvent(1.0), FailureEvent(2.0, 2)], "before the previous one ended"),
        (
            [StartEvent(0.0), FailureEvent(2.0, 0), FailureEvent(3.0, 2), EndEvent(9.0)],
            "a level below 1",
        ),
    ],
)
def test_impossible_logs_are_refused(log, message) -> None:
    with pytest.raises(BadInput, match=message):
        fit(log)


def test_a_log_without_costs_cannot_be_planned_with() -> None:
    found = fit([StartEvent(0.0), FailureEvent(5.0, 2), EndEvent(10.0)])
    with pytest.raises(BadInput, match="no measured drain or top-level checkpoint"):
        found.system()


def test_table_1_of_the_paper() -> None:
    """Its counts give its percentages."""
    when = datetime(2024, 1, 3)
    counts = {"NODE_FAIL": 1174, "TIMEOUT": 20_464, "FAILED": 23_918}
    jobs = [
        LoggedJob(state, 8, 3600.0, when) for state, count in counts.items() for _ in range(count)
    ]
    jobs += [LoggedJob("COMPLETED", 8, 3600.0, when)] * (181_933 - 45_556)
    jobs += [LoggedJob("CANCELLED", 8, 3600.0, when)] * 1000
    found = analyse(jobs)
    assert (found.jobs, found.failures) == (181_933, 45_556)
    percent = {
        kind: (round(100 * share.of_failures, 2), round(100 * share.of_jobs, 2))
        for kind, share in found.kinds.items()
    }
    # 13.146 % is printed as 13.15 in the paper, and 20464/45556 = 44.920
    assert percent == {
        "node fail": (2.58, 0.65), "timeout": (44.92, 11.25), "job fail": (52.50, 13.15),
    }  # fmt: skip
    rate = found.node_failures
    assert rate.count == 1174
    assert rate.exposure == 8 * 3600.0 * (181_933 + 1000)  # cancelled jobs were watched too


def test_large_jobs_lose_nodes_more_often() -> None:
    rng = np.random.default_rng(4)
    jobs = []
    for _ in range(4000):
        nodes = int(2 ** rng.uniform(0, 13))
        length = float(rng.exponential(7200))
        hit = rng.exponential(1 / (nodes * 2e-8))
        state = "NODE_FAIL" if hit < length else rng.choice(["FAILED", "COMPLETED", "TIMEOUT"])
        jobs.append(LoggedJob(str(state), nodes, min(hit, length), datetime(2024, 1, 1)))
    found = analyse(jobs)
    assert found.node_failures.low <= 2e-8 <= found.node_failures.high
    shares = [each.kinds["node fail"].of_failures for each in found.by_nodes if each.jobs > 50]
    assert shares[-1] > 5 * max(shares[0], 0.01)
    classes = analyse(jobs, [1, 100, 10_000]).by_nodes
    assert [(each.low, each.high) for each in classes] == [(1, 100), (100, 10_000)]
    assert sum(each.jobs for each in classes) == found.jobs
