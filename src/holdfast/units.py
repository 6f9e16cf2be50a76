"""Sizes and times as people write them: ``64 GiB``, ``400MB/s``, ``30 s``, ``13h``.

Binary units (KiB, MiB ...) are powers of 1,024, decimal ones (kB, MB ...) powers of 1,000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import BadInput

_SIZES = {"": 1, "b": 1} | {
    f"{prefix}{suffix}": base ** (power + 1)
    for suffix, base in (("b", 1000), ("ib", 1024))
    for power, prefix in enumerate("kmgtpe")
}
_TIMES = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "sec": 1.0,
    "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "w": 7 * 86400.0, "y": 365.25 * 86400.0,
}  # fmt: skip
_QUANTITY = re.compile(
    r"\s*([0-9][0-9_,]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([^\d\s]*)\s*"
)


def _parse(text: str | float, units: Mapping[str, float], what: str, hint: str) -> float:
    match = _QUANTITY.fullmatch(str(text))
    unit = match[2].lower() if match else ""
    if match is None or unit not in units:
        raise BadInput(f"{text!r} is not a {what}; write it like {hint}")
    value = float(match[1].replace(",", "").replace("_", "")) * units[unit]
    if value >= 2**63:
        raise BadInput(f"{text!r} is too large for a {what}; write it like {hint}")
    return value


def parse_size(text: str | float) -> int:
    """Bytes in ``64 GiB``, ``1.5MB`` or a plain number."""
    return round(_parse(text, _SIZES, "size", "64 GiB or 500 MB"))


def parse_time(text: str | float) -> float:
    """Seconds in ``30 s``, ``250ms``, ``13 h`` or a plain number."""
    return _parse(text, _TIMES, "time", "30 s, 250 ms or 13 h")


def parse_rate(text: str | float) -> float:
    """Bytes per second in ``6.4 GB/s`` or a plain number."""
    if isinstance(text, str):
        head, slash, per = text.rpartition("/")
        if slash and per.strip().lower() not in ("s", "sec"):
            raise BadInput(f"{text!r} is not a rate; write it like 6.4 GB/s")
        text = head if slash else text
    return _parse(text, _SIZES, "rate", "6.4 GB/s")


def parse_share(text: str | float) -> float:
    """Return the part of one in ``6%``, ``6.25 %`` or ``0.06``; it lies between 0 and 1."""
    value = _parse(text, {"": 1.0, "%": 0.01}, "share", "6% or 0.06")
    if value > 1:
        meant = f"{value:g}%" if value <= 100 else "6% or 0.06"
        raise BadInput(f"{text!r} is more than 100 %; write it like {meant}")
    return value


def parse_number(text: str | float) -> float:
    """Return a number without a unit."""
    return _parse(text, {"": 1.0}, "number", "0.002 or 2e-3")


def parse_count(text: str | int) -> int:
    """Return the number in ``1,024``, ``2^15`` or a plain one."""
    base, power, exponent = str(text).partition("^")
    value = _parse(base, {"": 1.0}, "count", "1024 or 2^10")
    if power:
        value **= min(_parse(exponent, {"": 1.0}, "count", "1024 or 2^10"), 64.0)
    if value != int(value) or value >= 2**63:
        raise BadInput(f"{text!r} is not a whole number; write it like 1024 or 2^10")
    return int(value)


def parse_frequency(text: str | float) -> float:
    """Return events per second in ``2e-5``, ``2e-5/s`` or ``1.8/day``."""
    head, slash, per = str(text).rpartition("/")
    if not slash:
        return _parse(text, {"": 1.0}, "rate of failures", "2e-5 or 1.8/day")
    unit = per.strip().lower()
    if unit not in _TIMES or not unit:
        raise BadInput(f"{text!r} is not a rate of failures; write it like 2e-5 or 1.8/day")
    return _parse(head, {"": 1.0}, "rate of failures", "2e-5 or 1.8/day") / _TIMES[unit]


def format_size(count: float) -> str:
    """`count` bytes in the largest binary unit that leaves a number of at least 1."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024 or unit == "PiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count == int(count) else f"{count:.1f} {unit}"


def format_time(seconds: float) -> str:
    """`seconds` with a unit that leaves a readable number."""
    if seconds == 0:
        return "0 s"
    for unit, factor in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)):
        upper = {"µs": 1e-3, "ms": 1.0, "s": 120.0, "min": 7200.0, "h": 172800.0}[unit]
        if seconds < upper:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 86400.0:.3g} d"


def plural(count: int, one: str, many: str) -> str:
    """Return "1 file is" or "3 files are"."""
    return f"{count} {one if count == 1 else many}"
