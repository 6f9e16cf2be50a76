"""`holdfast bench membership`: how fast a cluster notices a death, and what it does about it."""

from __future__ import annotations

from ..figures import Report
from . import deaths, many, restoration, ring, simulated


def run() -> Report:
    """Measure real clusters, the ring, and simulated clusters; takes about five minutes."""
    figures = [f for part in (deaths, restoration, ring, many, simulated) for f in part.run()]
    return Report("membership", figures)
