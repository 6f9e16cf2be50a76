"""Which node has which role: decided once, when a session starts, by the order of its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadInput
from ..units import plural
from .view import SPARE, STAGING


def assign(nodes: Sequence[str], staging: int, spares: int) -> dict[str, str]:
    """Return the roles of the last nodes: so many spares, and before them the staging nodes.

    All others are compute nodes. It is kept by names, since nodes that come later, or are started
    again, must not change what the others are.
    """
    count = len(nodes)
    there = f"the session has {plural(count, 'node', 'nodes')}"
    if staging + spares > count:
        raise BadInput(
            f"{there}, too few for {plural(staging, 'staging node', 'staging nodes')} and "
            f"{plural(spares, 'spare', 'spares')}; ask for fewer, or start more nodes"
        )
    if spares == count:
        raise BadInput(
            f"{there}, and all would be spares, which own nothing, so nothing could be stored; "
            "ask for fewer spares, or start more nodes"
        )
    first_spare = count - spares
    first_staging = first_spare - staging
    return {
        **dict.fromkeys(nodes[first_staging:first_spare], STAGING),
        **dict.fromkeys(nodes[first_spare:], SPARE),
    }
