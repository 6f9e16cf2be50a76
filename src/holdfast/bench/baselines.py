"""Was the machine itself? What the baselines once reached on it is kept in `baselines.json`.

A run in which one of them falls below `LEAST` of that calls itself invalid: somebody else had the
machine, and a ratio under such load says little.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ..errors import BadInput, Damaged
from ..units import format_size
from .figures import Report

LEAST = 0.6

#: Fingerprint of a machine -> name of a baseline -> its rate per second.
Recorded = dict[str, dict[str, float]]

_PACKAGED = Path(__file__).with_name("baselines.json")
#: Where `--record` writes: the file in the checkout that it is run in, not the installed copy.
_IN_CHECKOUT = Path("src/holdfast/bench/baselines.json")


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.machine()


def fingerprint() -> str:
    """Return what tells machines apart whose baselines differ: processor, cores, kernel."""
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{_cpu()}, {os.cpu_count()} cores, Linux {kernel}"


def describe_machine() -> str:
    """Return the machine and what runs on it, in a line for a person."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{fingerprint()}, {format_size(memory)} of memory, Python {platform.python_version()}"


def _load(path: Path) -> Recorded:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recorded)
    except (OSError, msgspec.DecodeError) as error:
        raise Damaged(f"cannot read the recorded baselines in {path}: {error}") from error


def recorded(machine: str) -> Mapping[str, float] | None:
    """Return the baselines recorded for `machine`, None if it is unknown."""
    return _load(_PACKAGED).get(machine)


def judge(report: Report, known: Mapping[str, float] | None) -> Report:
    """Return `report`, called invalid if a baseline fell too far below what is `known`."""
    if not report.baselines:
        return report
    if known is None:
        note = "No baselines are recorded for this machine, so a busy machine goes unnoticed."
        return msgspec.structs.replace(report, notes=[*report.notes, note])
    slow = [
        (
            f"{name} reached {rate / known[name]:.2f} of the rate recorded for this machine "
            f"(at least {LEAST:g} is needed): the machine was busy, run it again"
        )
        for name, rate in report.baselines.items()
        if name in known and rate < LEAST * known[name]
    ]
    return msgspec.structs.replace(report, invalid=[*report.invalid, *slow])


def check_checkout() -> None:
    """Raise BadInput unless the current directory is a checkout that can be recorded in."""
    if not _IN_CHECKOUT.is_file():
        raise BadInput(f"--record writes {_IN_CHECKOUT}: run it at the top of a source checkout")


def record(machine: str, reports: Iterable[Report]) -> None:
    """Keep the baselines of `reports` as what `machine` can do, if it never did better."""
    known = _load(_IN_CHECKOUT)
    rates = known.setdefault(machine, {})
    for report in reports:
        for name, rate in report.baselines.items():
            rates[name] = max(rates.get(name, 0.0), float(f"{rate:.4g}"))
    text = msgspec.json.format(msgspec.json.encode(dict(sorted(known.items()))), indent=2)
    _IN_CHECKOUT.write_bytes(text + b"\n")
