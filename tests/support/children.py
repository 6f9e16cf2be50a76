"""The children of this process, as the kernel lists them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Child(NamedTuple):
    """A line of /proc/PID/stat."""

    pid: int
    name: str
    ended: bool  # and nobody has waited for it yet
    status: int  # then: as wait() would tell it


def children() -> Iterator[Child]:
    """Yield our children, also those that have ended and wait to be waited for."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:
            continue
        before, _, after = text.rpartition(")")  # names may have blanks, and parentheses
        pid, _, name = before.partition(" (")
        state, parent, *_, status = after.split()
        if int(parent) == os.getpid():
            yield Child(int(pid), name, state == "Z", int(status))
