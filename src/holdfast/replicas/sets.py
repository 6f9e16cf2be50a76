"""Sets of whole numbers, as sorted arrays.

numpy's own functions for them import a large module when they are first used: in the middle of a
recovery, that takes longer than everything else.
"""

from __future__ import annotations

import numpy as np

from .permutation import Flags, Ints


def distinct(*parts: Ints) -> Ints:
    """Return all values in `parts`, each once, in ascending order."""
    values = np.sort(np.concatenate([part.ravel() for part in parts]))
    new = np.ones(len(values), np.bool_)
    new[1:] = values[1:] != values[:-1]
    return values[new]


def contains(those: Ints, values: Ints) -> Flags:
    """Tell which of `values` are among `those`, which are in ascending order."""
    if not len(those):
        return np.zeros(values.shape, np.bool_)
    return np.asarray(those[np.minimum(those.searchsorted(values), len(those) - 1)] == values)
