"""`holdfast plan checkpoint`: how often, to which level, and what it brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ....units import parse_count, parse_number, parse_share, parse_time
from ..parse import curve, listed, optional
from ..show import AsJson, Explain, PlotFile, Seed, numeric, show
from .inputs import Options, gather

_MACHINE = "The machine: sizes and bandwidths"
_COSTS = "The machine: costs and rates (seconds, 1/s)"
_OTHER = "The machine: more"
_ASK = "What to compute"


def _option(metavar: str, text: str, panel: str, *names: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        *names, help=text, rich_help_panel=panel, metavar=metavar
    )
    return option


def checkpoint(
    *,
    nodes: Annotated[int | None, _option("N", "Nodes of the job.", _MACHINE)] = None,
    checkpoint: Annotated[
        str | None, _option("SIZE", "Checkpoint per node: 29GB.", _MACHINE)
    ] = None,
    local: Annotated[
        str | None, _option("RATE", "Local write rate per node: 400MB/s.", _MACHINE)
    ] = None,
    shared: Annotated[
        str | None, _option("RATE", "Write rate of the shared file system: 6.4GB/s.", _MACHINE)
    ] = None,
    mtbf: Annotated[
        str | None, _option("TIME", "Mean time between failures of the whole job: 13h.", _MACHINE)
    ] = None,
    node_mtbf: Annotated[
        str | None, _option("TIME", "Mean time between failures of one node: 2y.", _MACHINE)
    ] = None,
    shared_failures: Annotated[
        str | None,
        _option("SHARE", "Share of failures that local copies do not survive: 6%.", _MACHINE),
    ] = None,
    local_cost: Annotated[
        str | None, _option("TIME", "Time to write a local checkpoint.", _COSTS)
    ] = None,
    local_recovery: Annotated[str | None, _option("TIME", "Time to read it back.", _COSTS)] = None,
    shared_cost: Annotated[
        str | None, _option("TIME", "Time to write a shared one.", _COSTS)
    ] = None,
    shared_recovery: Annotated[str | None, _option("TIME", "Time to read it back.", _COSTS)] = None,
    local_rate: Annotated[
        str | None,
        _option(
            "PER_SECOND", "Rate of failures that local copies survive: 2e-5 or 1.7/day.", _COSTS
        ),
    ] = None,
    shared_rate: Annotated[
        str | None, _option("PER_SECOND", "Rate of failures that they do not survive.", _COSTS)
    ] = None,
    level: Annotated[
        list[str] | None,
        _option("LEVEL", "One level, fastest first: cost=5s,recovery=6s,mtbf=3h. Repeat.", _OTHER),
    ] = None,
    events: Annotated[
        Path | None,
        _option(
            "FILE", "Estimate everything from an event log such as events.jsonl.", _OTHER, "--from"
        ),
    ] = None,
    drain: Annotated[
        str | None, _option("TIME", "How long a drain takes, if not as long as a write.", _OTHER)
    ] = None,
    overhead: Annotated[
        str | None, _option("FACTOR", "Slowdown of computation while draining: 0.00184.", _OTHER)
    ] = None,
    overhead_slope: Annotated[
        str | None,
        _option("FACTOR", "The same, per GB/s that a staging node reads.", _OTHER),
    ] = None,
    staging_nodes: Annotated[
        int | None, _option("N", "Number of staging nodes, which drain.", _OTHER)
    ] = None,
    restart: Annotated[
        str | None, _option("TIME", "Added to every recovery: scheduling, a new node.", _OTHER)
    ] = None,
    interval: Annotated[
        str | None,
        _option("TIME", "Evaluate this interval instead of searching for the best.", _ASK),
    ] = None,
    segments: Annotated[
        int | None, _option("N", "... with this many per shared checkpoint.", _ASK)
    ] = None,
    counts: Annotated[
        str | None, _option("N,N", "... or these counts per level: 3,5.", _ASK)
    ] = None,
    efficiency: Annotated[
        str | None,
        _option("SHARE", "Find the shared bandwidth needed for this efficiency: 80%.", _ASK),
    ] = None,
    staging_curve: Annotated[
        str | None,
        _option(
            "N:RATE,...",
            "Choose the number of staging nodes from measured rates: 16:4GB/s,32:6.4GB/s.",
            _ASK,
        ),
    ] = None,
    thread_curve: Annotated[
        str | None,
        _option("N:RATE,...", "Choose the number of writer threads from measured rates.", _ASK),
    ] = None,
    simulate: Annotated[
        int, _option("N", "Check the model by simulating this many periods.", _ASK)
    ] = 0,
    seed: Seed = 0,
    as_json: AsJson = False,
    plot: PlotFile = None,
    explain: Explain = False,
) -> None:
    """Say how often to checkpoint, to which level, and how much of the time is then useful."""
    options = Options(
        nodes=nodes,
        checkpoint=checkpoint,
        local=local,
        shared=shared,
        mtbf=mtbf,
        node_mtbf=node_mtbf,
        shared_failures=shared_failures,
        local_cost=local_cost,
        local_recovery=local_recovery,
        shared_cost=shared_cost,
        shared_recovery=shared_recovery,
        local_rate=local_rate,
        shared_rate=shared_rate,
        level=tuple(level or ()),
        events=events,
        drain=drain,
        overhead=overhead,
        overhead_slope=overhead_slope,
        staging_nodes=staging_nodes,
        restart=restart,
    )
    with numeric():
        from .answer import answer
        from .question import CheckpointQuestion

        question = CheckpointQuestion(
            inputs=gather(options),
            interval=optional(parse_time, interval),
            segments=segments,
            counts=optional(lambda text: tuple(listed(parse_count, text, "counts")), counts),
            efficiency=optional(parse_share, efficiency),
            staging_curve=optional(curve, staging_curve),
            thread_curve=optional(curve, thread_curve),
            overhead_slope=optional(parse_number, overhead_slope),
            periods=simulate,
            seed=seed,
        )
        show(answer(question), as_json=as_json, plot=plot, explain=explain)
