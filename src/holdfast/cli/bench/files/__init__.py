"""`holdfast bench files`: a data set that is read epoch after epoch, while nodes fail."""

from __future__ import annotations

from ....cluster import storage
from ..figures import Report
from . import epochs, failures


def run() -> Report:
    """Measure files; takes about two minutes."""
    if reason := storage.why_not():
        return Report("files", [], invalid=[f"nothing was measured: {reason}"])
    return Report("files", [figure for part in (epochs, failures) for figure in part.run()])
