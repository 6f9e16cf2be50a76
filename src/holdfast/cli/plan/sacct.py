"""Reading what `sacct --parsable2` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import BadInput
from .logs import read_text

if TYPE_CHECKING:
    from ...planner.jobs import LoggedJob

COMMAND = (
    "sacct --allusers --parsable2 --starttime 2024-01-01 --format JobID,State,NNodes,ElapsedRaw,End"
)
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")


def read_jobs(path: Path) -> list[LoggedJob]:
    """Read one job per line; steps ("123.batch") are parts of a job and skipped."""
    lines = read_text(path).splitlines()
    if not lines or "|" not in lines[0]:
        raise BadInput(f"{path} is not the output of sacct with --parsable2; try: {COMMAND}")
    header = [name.strip().lower() for name in lines[0].split("|")]
    column = {name: header.index(name) for name in header}
    state, nodes = _need(column, path, "state"), _need(column, path, "nnodes", "allocnodes")
    elapsed = _need(column, path, "elapsedraw", "elapsed")
    return list(_rows(lines[1:], path, column, (state, nodes, elapsed)))


def _need(column: dict[str, int], path: Path, *names: str) -> int:
    for name in names:
        if name in column:
            return column[name]
    raise BadInput(f"{path} has no column {' or '.join(names)}; try: {COMMAND}")


def _rows(
    lines: list[str], path: Path, column: dict[str, int], wanted: tuple[int, int, int]
) -> Iterator[LoggedJob]:
    from ...planner.jobs import LoggedJob

    identity, end = column.get("jobid"), column.get("end")
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        cells = line.split("|")
        if len(cells) != len(column):
            raise BadInput(
                f"line {number} of {path} has {len(cells)} columns, but the first line "
                f"has {len(column)}"
            )
        if identity is not None and "." in cells[identity]:
            continue
        state, nodes, elapsed = (cells[index] for index in wanted)
        name = state.split()[0] if state.split() else ""
        try:
            yield LoggedJob(
                name,
                int(nodes or 0),
                seconds(elapsed),
                when(cells[end]) if end is not None else None,
            )
        except ValueError:
            raise BadInput(
                f"cannot parse line {number} of {path}: {line!r}; try: {COMMAND}"
            ) from None


def seconds(text: str) -> float:
    """Parse ``ElapsedRaw`` (seconds) or ``Elapsed`` ([days-][hours:]minutes:seconds)."""
    text = text.strip()
    if text.isdigit() or not text:
        return float(text or 0)
    match = _ELAPSED.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def when(text: str) -> datetime | None:
    """Parse a time, None for jobs that have not ended."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None
