"""Both simulators against the model, at fixed seeds."""

import numpy as np
import pytest

from holdfast.planner.checkpoint import chain, optimum, simulated_clock, simulated_periods
from holdfast.planner.checkpoint.system import Schedule, System

TSUBAME = (2.133e-5 * 0.9375, 2.133e-5 * 0.0625)
TWO = System((72.5, 6380.0), (72.5, 6380.0), (2.0e-5, 1.33e-6), 6380.0, 0.00184).scaled(10)
THREE = System((5.0, 20.0, 300.0), (6.0, 25.0, 310.0), (5e-4, 2.5e-4, 5e-5), 700.0, 0.1)


@pytest.mark.parametrize(
    ("system", "schedule", "asynchronous", "periods"),
    [
        (TWO, Schedule(700.0, (8,)), True, 20_000),
        (TWO, Schedule(1500.0, (5,)), True, 10_000),
        (TWO, Schedule(700.0, (8,)), False, 5_000),
        (THREE, Schedule(100.0, (2, 3)), True, 20_000),
        (THREE, Schedule(100.0, (4, 1)), True, 20_000),
        (THREE, Schedule(200.0, (2, 3)), False, 10_000),
    ],
)
def test_by_the_rules_it_is_the_chain(system, schedule, asynchronous, periods) -> None:
    model = chain.evaluate(system, schedule, asynchronous=asynchronous).expected
    seen = simulated_periods.simulate(
        system, schedule, asynchronous=asynchronous, periods=periods, rng=np.random.default_rng(7)
    )
    assert abs(seen.sigmas(model)) < 3
    assert seen.error < 0.02 * model


# checkpoint-model.md, section 7: model, drain resumes, drain restarts.
@pytest.mark.parametrize(
    ("failures", "shared", "resumes", "restarts"),
    [(1, 1, 0.916, 0.915), (2, 2, 0.827, 0.811), (10, 1, 0.561, 0.476), (1, 10, 0.690, 0.592)],
)
def test_by_the_clock_the_model_holds_if_drains_resume(failures, shared, resumes, restarts) -> None:
    system = System((72.5, 6380.0), (72.5, 6380.0), TSUBAME, 6380.0, 0.00184)
    system = system.scaled(failures, shared)
    best = optimum.best(system, asynchronous=True)
    seen = [
        simulated_clock.simulate(
            system, best.schedule, restart=restart, rng=np.random.default_rng(3), periods=400
        )
        for restart in (False, True)
    ]
    for estimate, wanted in zip(seen, (resumes, restarts), strict=True):
        assert abs(estimate.mean - wanted) < 3 * estimate.error + 0.007
    assert abs(seen[0].mean - best.efficiency) < 3 * seen[0].error + 0.02 * best.efficiency
    if failures * shared >= 10:
        assert seen[1].mean < 0.9 * best.efficiency  # so drains must resume
