"""Words and tables of `holdfast plan checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from ....units import format_time
from ..show import table

if TYPE_CHECKING:
    from ....planner.checkpoint.system import Outcome, System
    from ....planner.events import Fit
    from ....planner.rates import Mean, Rate


def percent(share: float) -> str:
    """Write a share for people."""
    return f"{100 * share:.1f} %"


def rate(bytes_per_second: float) -> str:
    """Write a bandwidth as it is bought: in powers of 1,000."""
    for unit, factor in (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6)):
        if bytes_per_second >= factor:
            return f"{bytes_per_second / factor:.3g} {unit}"
    return f"{bytes_per_second:.3g} B/s"


def ordinal(number: int) -> str:
    """Write 1st, 2nd, 3rd, 4th ..."""
    ending = (
        "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{ending}"


def _every(outcome: Outcome) -> str:
    segments = outcome.schedule.segments
    return "every checkpoint" if segments == 1 else f"every {ordinal(segments)} checkpoint"


def _between(outcome: Outcome) -> str:
    counts = outcome.schedule.counts
    if len(counts) == 1:
        return ""
    parts = ", ".join(
        f"{count} of level {level} before one of level {level + 1}"
        for level, count in enumerate(counts, 1)
    )
    return f" ({parts})"


def advice(
    system: System,
    chosen: dict[str, Outcome | None],
    best: dict[str, Outcome | None],
    *,
    judged: bool,
) -> str:
    """Say in a sentence what to do and what it brings."""
    drained, sync = chosen["async"], chosen["sync"]
    if judged:
        return _judgement(drained, sync, best)
    use_drain = drained is not None and (sync is None or drained.efficiency >= sync.efficiency)
    use, other = (drained, sync) if use_drain else (sync, drained)
    assert use is not None
    how = "drain" if use_drain else "write"
    wait = " in the background" if use_drain else ", waiting for it"
    otherwise = "if the program waits for it" if use_drain else "if it is drained in the background"
    against = f"{percent(other.efficiency)}" if other else "no progress at all"
    return (
        f"Checkpoint after every {format_time(use.schedule.interval)} of computation and {how} "
        f"{_every(use)} to the shared file system{wait}{_between(use)}: "
        f"{percent(use.efficiency)} of the time is useful work, against {against} {otherwise}."
    )


def _judgement(
    drained: Outcome | None, sync: Outcome | None, best: dict[str, Outcome | None]
) -> str:
    one = drained or sync
    assert one is not None
    results = []
    if drained:
        results.append(f"{percent(drained.efficiency)} drained in the background")
    if sync:
        results.append(f"{percent(sync.efficiency)} if the program waits")
    top = max(filter(None, best.values()), key=lambda outcome: outcome.efficiency, default=None)
    reach = ""
    if top is not None:
        reach = (
            f"; the best schedule ({format_time(top.schedule.interval)}, {_every(top)}) reaches "
            f"{percent(top.efficiency)}"
        )
    return (
        f"With {format_time(one.schedule.interval)} of computation between checkpoints and "
        f"{_every(one)} on the shared file system, the useful share of the time is "
        f"{' and '.join(results)}{reach}."
    )


def plan_table(chosen: dict[str, Outcome | None], rules: dict[str, tuple[float, float]]) -> Table:
    """Show the schedules beside one another."""
    made = table("Plans", "", "interval", "to shared", "period takes", "efficiency")
    for mode, name in (("async", "drained in the background"), ("sync", "program waits")):
        outcome = chosen[mode]
        if outcome is None:
            made.add_row(name, "no progress at all", "", "", "")
            continue
        counts = outcome.schedule.counts
        made.add_row(
            name,
            format_time(outcome.schedule.interval),
            f"1 of {outcome.schedule.segments}" + (f" {counts}" if len(counts) > 1 else ""),
            format_time(outcome.expected),
            percent(outcome.efficiency),
        )
    for name, (interval, efficiency) in rules.items():
        made.add_row(
            f"shared only, {name.capitalize()}", format_time(interval), "1 of 1",
            format_time(interval / efficiency) if efficiency else "", percent(efficiency),
        )  # fmt: skip
    return made


def input_table(system: System) -> Table:
    """Show what the model was told."""
    made = table("Levels", "level", "write", "recover", "failures every")
    for level in range(system.levels):
        failures = system.rates[level]
        made.add_row(
            "shared file system" if level == system.levels - 1 else f"{level + 1} (on the nodes)",
            format_time(system.costs[level]),
            format_time(system.recoveries[level]),
            format_time(1 / failures) if failures else "never",
        )
    made.caption = f"drain {format_time(system.drain)}, overhead factor {system.overhead:.3g}"
    return made


def fit_table(fit: Fit) -> Table:
    """Show what was estimated from a log, and how sure it is."""
    made = table(
        f"From the log: {fit.runs} runs, observed for {format_time(fit.watched)}",
        "", "estimate", "95 % low", "95 % high", "from",
    )  # fmt: skip
    for level, failures in enumerate(fit.rates, 1):
        _rate_row(made, f"time between level-{level} failures", failures)
    for what, means in (("write", fit.costs), ("recover", fit.recoveries)):
        for level, measured in enumerate(means, 1):
            _mean_row(made, f"{what}, level {level}", measured)
    _mean_row(made, "drain", fit.drain)
    return made


def _rate_row(made: Table, name: str, measured: Rate) -> None:
    made.add_row(
        name, format_time(1 / measured.plan), format_time(1 / measured.high),
        format_time(1 / measured.low) if measured.low else "never", f"{measured.count} failures",
    )  # fmt: skip


def _mean_row(made: Table, name: str, measured: Mean | None) -> None:
    if measured is not None:
        known = measured.count > 1
        made.add_row(
            name, format_time(measured.estimate), format_time(measured.low) if known else "?",
            format_time(measured.high) if known else "?", f"{measured.count} seen",
        )  # fmt: skip
