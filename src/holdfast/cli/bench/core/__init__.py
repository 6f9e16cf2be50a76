"""`holdfast bench core`: agents that store and move objects, against what the machine can do."""

from __future__ import annotations

from ..figures import Report
from . import agents, gets, peers, puts
from .stage import Stage


def run() -> Report:
    """Measure the core; takes about two minutes."""
    figures = []
    baselines: dict[str, float] = {}
    notes = []
    with Stage() as stage:
        for part in (gets.run(stage), peers.run(stage), puts.run(stage), agents.run()):
            figures += part.figures
            baselines |= part.baselines
            notes += part.notes
    return Report("core", figures, baselines, notes=notes)
