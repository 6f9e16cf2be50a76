"""What Young and Daly advise: one level, written synchronously."""

from __future__ import annotations

import math


def young(cost: float, rate: float) -> float:
    """Young's interval (1974): sqrt(2 * cost * MTBF)."""
    return math.sqrt(2 * cost / rate)


def daly(cost: float, rate: float) -> float:
    """Daly's higher-order interval (2006); the MTBF itself where a checkpoint takes longer."""
    if cost * rate >= 2:
        return 1 / rate
    ratio = cost * rate / 2
    return math.sqrt(2 * cost / rate) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost
