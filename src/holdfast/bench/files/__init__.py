"""`holdfast bench files`: reads through the shim, and epoch after epoch while nodes fail."""

from __future__ import annotations

from ...testing import countfs
from ..figures import Report
from . import epochs, hits, system_calls


def run() -> Report:
    """Measure files; takes about four minutes."""
    if reason := countfs.why_not():
        return Report("files", [], invalid=[f"nothing was measured: {reason}"])
    return Report(
        "files", [figure for part in (hits, system_calls, epochs) for figure in part.run()]
    )
