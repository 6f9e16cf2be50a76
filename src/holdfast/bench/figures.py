"""What a benchmark answers: figures, each beside its target and what it was compared with."""

from __future__ import annotations

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number; `met` is None where there is no target or nothing could be measured."""

    name: str
    value: float | None
    unit: str
    target: str
    met: bool | None
    compared_with: str

    def text(self) -> str:
        """Return the value with its unit, for people."""
        return "not measured" if self.value is None else f"{self.value:.3g} {self.unit}".rstrip()


def at_most(name: str, value: float | None, limit: float, unit: str, compared_with: str) -> Figure:
    """Return a figure that must not exceed `limit`; None could not be measured."""
    met = None if value is None else value <= limit
    return Figure(
        name=name,
        value=value,
        unit=unit,
        target=f"at most {limit:g}",
        met=met,
        compared_with=compared_with,
    )


def at_least(name: str, value: float | None, limit: float, unit: str, compared_with: str) -> Figure:
    """Return a figure that must reach `limit`; None could not be measured."""
    met = None if value is None else value >= limit
    return Figure(
        name=name,
        value=value,
        unit=unit,
        target=f"at least {limit:g}",
        met=met,
        compared_with=compared_with,
    )


def exactly(name: str, value: float, wanted: float, unit: str) -> Figure:
    """Return a figure that must be `wanted`."""
    return Figure(
        name=name,
        value=value,
        unit=unit,
        target=f"{wanted:g}",
        met=value == wanted,
        compared_with="",
    )


def shown(name: str, value: float, unit: str, compared_with: str = "") -> Figure:
    """Return a figure that is only reported."""
    return Figure(
        name=name, value=value, unit=unit, target="", met=None, compared_with=compared_with
    )


class Report(msgspec.Struct, frozen=True):
    """One run of a benchmark; `invalid` says why its figures should not be quoted, if so.

    `baselines` are the rates, per second, of the programs that do not change with Holdfast: when
    they fall, it is the machine that was slow.
    """

    bench: str
    figures: list[Figure]
    baselines: dict[str, float] = {}
    invalid: list[str] = []
    notes: list[str] = []
