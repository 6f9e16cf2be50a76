"""docs/benchmarks.md: all reports of one run as a page of the documentation."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from .figures import Report

_SOAKS = "## Soaks\n"
_MET = {True: "yes", False: "**no**", None: ""}

_HEAD = """\
# Benchmarks

Made by `make bench`, which runs `holdfast bench all --write docs/benchmarks.md`; do not edit.
(What stands under "Soaks" is written by hand after `make soak`, and kept.)
Every figure is a ratio, or a count, taken in one run: what is compared takes turns on the same
cores, and medians of the rounds are shown. [How the benchmarks work](explanation/benchmarks.md)
says what stands behind each.
"""


def _commit() -> str:
    """Return the commit in the current directory, marked if files differ from it."""
    git = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _section(report: Report) -> Iterable[str]:
    yield f"## {report.bench}"
    yield ""
    if report.invalid:
        yield '!!! warning "This run is invalid"'
        yield ""
        yield from (f"    - {reason}" for reason in report.invalid)
        yield ""
    yield _row(("figure", "value", "target", "met", "compared with"))
    yield _row(("---",) * 5)
    for figure in report.figures:
        cells = (figure.name, figure.text(), figure.target, _MET[figure.met])
        yield _row((*cells, figure.compared_with))
    yield ""
    if report.baselines:
        yield "Baselines of this run, per second:"
        yield ""
        yield from (f"- {name}: {rate:,.0f}" for name, rate in report.baselines.items())
        yield ""
    for note in report.notes:
        yield note
        yield ""


def soaks(page: Path) -> str:
    """Return the section of a page that was written by hand, after `make soak`."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return "".join(text.partition(_SOAKS)[1:])


def render(
    reports: Sequence[Report],
    machine: str,
    commit: str | None = None,
    when: datetime | None = None,
    soaks: str = "",
) -> str:
    """Return the page; commit and date are those of the current directory and of now."""
    when = when or datetime.now(timezone.utc)
    lines = [
        _HEAD,
        f"- date: {when:%Y-%m-%d %H:%M} UTC",
        f"- commit: `{commit or _commit()}`",
        f"- machine: {machine}",
        "",
    ]
    for report in reports:
        lines += _section(report)
    lines.append(soaks)
    return "\n".join(lines).rstrip() + "\n"
