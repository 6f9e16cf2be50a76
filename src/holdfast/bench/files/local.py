"""Files that lie on the reader's own node, through the shim against directly."""

from __future__ import annotations

from functools import partial

from ..figures import Figure, at_least
from ..measure import interleave
from .readers import DISK, MEMORY, Stage, typical

_SIZES = {"4 KB": (4_000, 0.6), "100 KB": (100_000, 0.85), "2.5 MB": (2_500_000, 0.95)}
_FILES = 16


def run() -> list[Figure]:
    """Open, ask about, read and close, each size on the file systems of both tiers."""
    figures = []
    with Stage(nodes=2) as stage:
        for tier in (DISK, MEMORY):
            paths = {
                name: [stage.file(tier, 0, size) for _ in range(_FILES)]
                for name, (size, _) in _SIZES.items()
            }
            stage.warm(tier)
            for name, (_, target) in _SIZES.items():
                rates = interleave(
                    {
                        "direct": partial(typical, stage.reader(0, paths[name])),
                        "shim": partial(typical, stage.shimmed(tier, 0, paths[name])),
                    }
                )
                where = f"local hit of {name} through the shim, {tier} tier"
                against = f"the original on the same {'tmpfs' if tier == MEMORY else 'disk'}"
                ratio = rates.ratio("shim", "direct")
                figures.append(at_least(where, ratio, target, "of its rate", against))
    return figures
