"""From the options of `holdfast plan checkpoint` to the model's inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....errors import BadInput
from ....units import parse_frequency, parse_number, parse_rate, parse_share, parse_size, parse_time
from ..logs import read_events

if TYPE_CHECKING:
    from ....planner.checkpoint.machine import Machine
    from ....planner.checkpoint.system import System
    from ....planner.events import Fit

_SIZES = ("nodes", "checkpoint", "local", "shared", "mtbf", "node_mtbf", "shared_failures")
_COSTS = (
    "local_cost", "local_recovery", "shared_cost", "shared_recovery", "local_rate", "shared_rate",
)  # fmt: skip
#: Of all failures, those that node-local copies do not survive, unless the user knows better:
#: the public figures of LLNL's Atlas.
DEFAULT_SHARED_FAILURES = 0.0625


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user typed about the machine, as text."""

    nodes: int | None = None
    checkpoint: str | None = None
    local: str | None = None
    shared: str | None = None
    mtbf: str | None = None
    node_mtbf: str | None = None
    shared_failures: str | None = None
    local_cost: str | None = None
    local_recovery: str | None = None
    shared_cost: str | None = None
    shared_recovery: str | None = None
    local_rate: str | None = None
    shared_rate: str | None = None
    level: tuple[str, ...] = ()
    events: Path | None = None
    drain: str | None = None
    overhead: str | None = None
    overhead_slope: str | None = None
    staging_nodes: int | None = None
    restart: str | None = None

    def given(self, names: tuple[str, ...]) -> list[str]:
        """Return which of the options `names` were typed, as typed."""
        return [flag(name) for name in names if getattr(self, name) not in (None, ())]

    def text(self, name: str) -> str:
        """Return an option that must be there."""
        value = getattr(self, name)
        if value is None:
            raise BadInput(
                f"{flag(name)} is missing; `holdfast plan checkpoint --help` explains it"
            )
        return str(value)


def flag(name: str) -> str:
    """Return an option's name as typed."""
    return "--from" if name == "events" else "--" + name.replace("_", "-")


@dataclass(frozen=True)
class Inputs:
    """The model's inputs, and the machine or the log that they were made of."""

    system: System
    machine: Machine | None = None
    fit: Fit | None = None
    notes: tuple[str, ...] = ()


def gather(options: Options) -> Inputs:
    """Make the model's inputs from one of four kinds of options; refuse a mixture."""
    kinds = {
        "sizes and bandwidths": options.given(_SIZES),
        "costs and rates": options.given(_COSTS),
        "levels": options.given(("level",)),
        "a log": options.given(("events",)),
    }
    used = {kind: flags for kind, flags in kinds.items() if flags}
    if not used:
        raise BadInput(
            "the machine is not described; give --nodes, --checkpoint, --local, --shared "
            "and --mtbf, or costs and rates, or --level for each level, or --from a log"
        )
    if len(used) > 1:
        (first, second), *_ = zip(used.items(), list(used.items())[1:], strict=False)
        raise BadInput(
            f"{first[1][0]} is one of the {first[0]} and {second[1][0]} one of the "
            f"{second[0]}; use options of one kind only"
        )
    if kinds["sizes and bandwidths"]:
        return _from_sizes(options)
    _refuse(options, ("overhead_slope", "staging_nodes"), "needs --nodes, --shared and the rest")
    if kinds["costs and rates"]:
        return _from_costs(options)
    if kinds["levels"]:
        return _from_levels(options)
    _refuse(options, ("drain", "overhead", "restart"), "is in the log that --from names")
    return _from_log(options)


def _refuse(options: Options, names: tuple[str, ...], why: str) -> None:
    for typed in options.given(names):
        raise BadInput(f"{typed} {why}; leave it out")


def _overhead(options: Options, shared: float) -> float:
    """Return the overhead factor: as typed, or from a measured slope per GB/s of one stager."""
    if options.overhead_slope is None:
        return parse_number(options.overhead or "0")
    if options.overhead is not None:
        raise BadInput("--overhead and --overhead-slope both set the overhead; give only one")
    if options.staging_nodes is None:
        raise BadInput(
            "--overhead-slope is per GB/s that one staging node reads; add --staging-nodes"
        )
    if options.staging_nodes < 1:
        raise BadInput(f"--staging-nodes is {options.staging_nodes}; it must be at least 1")
    return parse_number(options.overhead_slope) * shared / options.staging_nodes / 1e9


def _from_sizes(options: Options) -> Inputs:
    from ....planner.checkpoint.machine import Machine

    notes: list[str] = []
    nodes = int(options.text("nodes"))
    shared = parse_rate(options.text("shared"))
    _refuse(options, ("drain",), "follows from --checkpoint, --nodes and --shared")
    if options.mtbf is not None and options.node_mtbf is not None:
        raise BadInput("--mtbf is for the whole job and --node-mtbf for one node; give only one")
    if options.node_mtbf is not None:
        between = parse_time(options.node_mtbf) / max(nodes, 1)
    else:
        between = parse_time(options.text("mtbf"))
    if not between > 0:
        raise BadInput("the time between failures is 0, so nothing would ever finish")
    if options.shared_failures is None:
        share = DEFAULT_SHARED_FAILURES
        notes.append(
            f"assumed that {share:.4g} of all failures need the shared file system; "
            "--shared-failures sets this"
        )
    else:
        share = parse_share(options.shared_failures)
    machine = Machine(
        nodes=nodes,
        checkpoint=parse_size(options.text("checkpoint")),
        local=parse_rate(options.text("local")),
        shared=shared,
        rates=((1 - share) / between, share / between),
        overhead=_overhead(options, shared),
        restart=parse_time(options.restart or "0"),
    )
    return Inputs(machine.system(), machine=machine, notes=tuple(notes))


def _from_costs(options: Options) -> Inputs:
    from ....planner.checkpoint.system import System

    local, shared = (parse_time(options.text(name)) for name in ("local_cost", "shared_cost"))
    restart = parse_time(options.restart or "0")
    system = System(
        (local, shared),
        (
            parse_time(options.local_recovery or str(local)) + restart,
            parse_time(options.shared_recovery or str(shared)) + restart,
        ),
        (
            parse_frequency(options.text("local_rate")),
            parse_frequency(options.text("shared_rate")),
        ),
        parse_time(options.drain or str(shared)),
        _overhead(options, 0.0),
    )
    return Inputs(system)


def _from_levels(options: Options) -> Inputs:
    from ....planner.checkpoint.system import System

    costs, recoveries, rates = [], [], []
    restart = parse_time(options.restart or "0")
    for text in options.level:
        cost, recovery, rate = _level(text)
        costs.append(cost)
        recoveries.append(recovery + restart)
        rates.append(rate)
    drain = parse_time(options.drain) if options.drain else costs[-1]
    system = System(tuple(costs), tuple(recoveries), tuple(rates), drain, _overhead(options, 0.0))
    return Inputs(system)


def _level(text: str) -> tuple[float, float, float]:
    """Parse ``cost=5s,recovery=6s,mtbf=3h`` (or ``rate=1e-4``)."""
    hint = "write it like cost=72s,recovery=80s,mtbf=14h"
    values = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or name not in ("cost", "recovery", "rate", "mtbf") or name in values:
            raise BadInput(f"{part!r} is not a part of a level; {hint}")
        values[name] = value
    if "cost" not in values or ("rate" in values) == ("mtbf" in values):
        raise BadInput(f"the level {text!r} needs a cost and either a rate or an mtbf; {hint}")
    cost = parse_time(values["cost"])
    if "rate" in values:
        rate = parse_frequency(values["rate"])
    elif (mtbf := parse_time(values["mtbf"])) > 0:
        rate = 1 / mtbf
    else:
        raise BadInput(f"the level {text!r} fails all the time (mtbf 0); {hint}")
    return cost, parse_time(values.get("recovery", str(cost))), rate


def _from_log(options: Options) -> Inputs:
    from ....planner.events import fit

    assert options.events is not None
    fitted = fit(read_events(options.events))
    system = fitted.system()
    return Inputs(system, fit=fitted, notes=tuple(fitted.notes))
