"""`holdfast bench membership`: how fast a cluster notices a death, and what it does about it."""

from __future__ import annotations

from ..figures import Report
from . import detection, restoration, ring


def run() -> Report:
    """Measure real clusters, the ring, and simulated clusters; takes about five minutes."""
    parts = (detection, restoration, ring)
    return Report("membership", [figure for part in parts for figure in part.run()])
