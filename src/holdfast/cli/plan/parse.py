"""Options that are more than one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...errors import BadInput
from ...units import parse_count, parse_rate, parse_time

T = TypeVar("T")


def optional(parse: Callable[[str], T], text: str | None) -> T | None:
    """Parse an option that may be missing."""
    return None if text is None else parse(text)


def listed(parse: Callable[[str], T], text: str, what: str) -> list[T]:
    """Parse ``a,b,c``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadInput(f"{text!r} is not a list of {what}; write it like 64,128,256")
    return [parse(part) for part in parts]


def curve(text: str) -> list[tuple[int, float]]:
    """Parse measured points, ``1:1.6GB/s,2:3GB/s``: counts and rates."""
    points = []
    for part in text.split(","):
        count, colon, rate = part.partition(":")
        if not colon:
            raise BadInput(f"{part!r} is not a point of a curve; write it like 32:6.4GB/s")
        points.append((parse_count(count), parse_rate(rate)))
    if any(count < 1 or rate <= 0 for count, rate in points):
        raise BadInput(f"{text!r} has a point that is not above 0; start at 1")
    if len({count for count, _ in points}) != len(points):
        raise BadInput(f"{text!r} has the same count twice; give each once")
    return sorted(points)


def positions(text: str) -> list[float]:
    """Parse positions in epochs, ``1.5,3.2``."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{text!r} is not a list of epochs; write it like 1.5,3.2") from None


def measured(text: str) -> tuple[int, float]:
    """Parse one measurement, ``512:603s``: nodes and a time."""
    count, colon, seconds = text.partition(":")
    if not colon:
        raise BadInput(f"{text!r} is not a measurement; write it like 512:603s")
    return parse_count(count), parse_time(seconds)
