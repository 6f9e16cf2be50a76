"""What a process in the background writes down."""

from __future__ import annotations

import contextlib
import os
import sys


def note(line: str) -> None:
    """Write a line to our log; without room for it the line is lost, and nothing else."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"{line}\n".encode(errors="replace"))
