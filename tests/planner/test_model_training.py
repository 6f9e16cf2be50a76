"""Training under failures and import storms: the shape of the papers' figures."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.errors import BadInput
from holdfast.planner import imports
from holdfast.planner.imports import Import
from holdfast.planner.training import POLICIES, Training, epoch, mean_total, train


def cosmoflow(nodes: int, **changes: float) -> Training:
    return replace(Training(nodes=nodes, files=524_288, file_size=2.5e6), **changes)


def more(nodes: int, policy: str, failures: int = 1, runs: int = 15) -> float:
    job = cosmoflow(nodes)
    base = mean_total(job, "none", 0, 3, np.random.default_rng(5)).mean
    return mean_total(job, policy, failures, runs, np.random.default_rng(5)).mean / base - 1


def test_shape_of_figure_5() -> None:
    """Paper, 64 and 1,024 nodes: redirect +32.2 and +68.7 %, recache +12.5 and +26.7 %.

    The defaults are fitted to these; what must hold is their order and that both grow.
    """
    small = {policy: more(64, policy) for policy in POLICIES[1:]}
    large = {policy: more(1024, policy) for policy in POLICIES[1:]}
    for row in (small, large):
        assert row["two copies"] < row["recache"] < row["redirect"] < row["abort"]
    assert large["redirect"] > small["redirect"]
    assert large["recache"] > small["recache"]
    assert small["redirect"] == pytest.approx(0.322, abs=0.08)
    assert small["recache"] == pytest.approx(0.125, abs=0.05)
    assert large["redirect"] == pytest.approx(0.687, abs=0.12)
    assert large["recache"] == pytest.approx(0.267, abs=0.06)
    gap = [1 - (1 + row["recache"]) / (1 + row["redirect"]) for row in (small, large)]
    assert gap[1] > gap[0]  # the paper: 14.8 and 24.9 %, it does not shrink with more nodes


def test_five_failures_cost_more_than_the_paper_says_five_did() -> None:
    """Each repeats half an epoch on average: five cannot cost 12.5 % of five epochs."""
    assert more(64, "recache", failures=5) > 0.4


def test_shape_of_figure_6a() -> None:
    """The epoch after a failure: recaching's extra falls with more nodes, in seconds."""
    extra = []
    for nodes in (64, 256, 1024):
        rng = np.random.default_rng(1)
        job = cosmoflow(nodes)
        extra.append(epoch(job, 1 / nodes, rng) - epoch(job, 0.0, rng))
    assert extra[0] > extra[1] > extra[2] > 0


def test_a_batch_waits_for_its_slowest_node() -> None:
    rng = np.random.default_rng(2)
    steady = cosmoflow(256, spread=1e-6)
    wild = cosmoflow(256, spread=2.0)
    assert epoch(wild, 1 / 256, rng) > 1.5 * epoch(steady, 1 / 256, rng)
    assert epoch(wild, 0.0, rng) == pytest.approx(epoch(steady, 0.0, rng))


def test_without_failures_every_policy_is_the_same() -> None:
    totals = [
        train(cosmoflow(64), policy, [], np.random.default_rng(0)).total
        for policy in ("none", "abort", "redirect", "recache")
    ]
    assert totals == pytest.approx([totals[0]] * 4, rel=1e-12)


def test_what_a_failure_adds() -> None:
    job = cosmoflow(64)
    rng = np.random.default_rng(0)
    fine = train(job, "none", [1.5], rng)
    run = train(job, "recache", [1.5], rng)
    assert fine.waiting == fine.wasted == 0
    assert run.waiting == job.detect + job.resume
    assert run.wasted == pytest.approx(0.5 * fine.epochs[1], rel=0.05)
    assert run.epochs[1] > 1.2 * fine.epochs[1]  # cached again on the way
    assert run.epochs[2] == pytest.approx(fine.epochs[2], rel=0.05)
    redirected = train(job, "redirect", [1.5], rng)
    assert redirected.epochs[4] > 1.2 * fine.epochs[4]
    aborted = train(job, "abort", [2.5], rng)
    assert aborted.waiting == job.requeue
    assert aborted.wasted == pytest.approx(sum(fine.epochs[:2]) + fine.epochs[2] / 2, rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cosmoflow(64, batch=8), "at least one file per node"),
        (lambda: cosmoflow(64, compute=-1.0), "cannot be negative"),
        (lambda: cosmoflow(0), "must be above 0"),
        (lambda: train(cosmoflow(64), "hope", [], np.random.default_rng(0)), "use one of"),
        (lambda: train(cosmoflow(64), "recache", [7.0], np.random.default_rng(0)), "outside the 5"),
        (
            lambda: train(cosmoflow(2), "recache", [1.1, 1.2], np.random.default_rng(0)),
            "leave none",
        ),
    ],
)
def test_impossible_training_is_refused(call, message) -> None:
    with pytest.raises(BadInput, match=message):
        call()


def test_shape_of_coppers_figures() -> None:
    """Figure 4, torch: Lustre twice Copper at 2,048 nodes, Copper flat from 32 to 8,300."""
    torch = Import()
    assert imports.direct(torch, 2048) / imports.broadcast(torch, 2048) == pytest.approx(2, rel=0.1)
    flat = [imports.broadcast(torch, nodes) for nodes in (32, 512, 2048, 8300)]
    assert max(flat) < 1.05 * min(flat)
    assert imports.cached(torch, 2048) == 2.0  # figure 5: about 2 s
    # figure 5 at 8,300 nodes, 30 s: files above the limit, read by every node
    assert imports.cached(replace(torch, large=2.2e9), 8300) == pytest.approx(30, abs=2)


def test_figure_1_from_one_measurement() -> None:
    """Horovod: 603 s at 512 nodes, and the rise begins near 32."""
    horovod = imports.calibrated(Import(), 512, 603.0)
    assert imports.direct(horovod, 512) == pytest.approx(603.0)
    flat, rising = imports.direct(horovod, 16), imports.direct(horovod, 128)
    assert imports.direct(horovod, 32) == pytest.approx(flat, rel=0.01)
    assert rising > 2 * flat
    assert imports.pays_from(horovod) == 64
    with pytest.raises(BadInput, match="measure with more nodes"):
        imports.calibrated(Import(), 512, 10.0)


def test_depth_of_the_tree() -> None:
    binary = Import(degree=2)
    assert [binary.depth(nodes) for nodes in (1, 2, 3, 4, 7, 8, 31, 32)] == [0, 1, 1, 2, 2, 3, 4, 5]
    assert Import(degree=1).depth(5) == 4
    with pytest.raises(BadInput, match="0 nodes"):
        imports.direct(binary, 0)
    with pytest.raises(BadInput, match="degree is 0"):
        Import(degree=0)
