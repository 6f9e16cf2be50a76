"""`holdfast bench core`: agents that store and move objects, against what the machine can do."""

from __future__ import annotations

from ..figures import Report
from . import agents, large_puts, redis, round_trips, transfers
from .setup import BenchCluster


def run() -> Report:
    """Measure the core; takes about two minutes."""
    with BenchCluster() as setup:
        # Puts come last: they leave an agent on the core of the clients.
        measures = (round_trips.run, transfers.gets, redis.run, transfers.puts)
        parts = [measure(setup) for measure in measures]
    parts += [large_puts.run(), agents.run()]
    return Report(
        "core",
        [figure for part in parts for figure in part.figures],
        {name: rate for part in parts for name, rate in part.baselines.items()},
        notes=[note for part in parts for note in part.notes],
    )
