"""`holdfast plan import`: how long a job takes to load its program."""

from __future__ import annotations

from typing import Annotated

import typer

from ...units import parse_count, parse_rate, parse_size, parse_time
from .parse import listed, measured, optional
from .show import AsJson, Explain, PlotFile, numeric, show

_PROGRAM = "The program"
_MACHINE = "The machine"


def imports(
    *,
    nodes: Annotated[str, typer.Option(help="Numbers of nodes to compare.")] = (
        "32,128,512,2048,8192"
    ),
    files: Annotated[
        str, typer.Option(help="Small files that the program loads.", rich_help_panel=_PROGRAM)
    ] = "728",
    size: Annotated[
        str, typer.Option(help="Their total size.", rich_help_panel=_PROGRAM)
    ] = "36.3MB",
    large: Annotated[
        str,
        typer.Option(
            help="Bytes in large files, which every node reads itself.", rich_help_panel=_PROGRAM
        ),
    ] = "0",
    processes: Annotated[
        str, typer.Option(help="Processes per node.", rich_help_panel=_PROGRAM)
    ] = "12",
    start: Annotated[
        str,
        typer.Option(help="Time of the import with everything cached.", rich_help_panel=_PROGRAM),
    ] = "2s",
    operations: Annotated[
        float,
        typer.Option(help="Calls per file: stat, open, read, misses.", rich_help_panel=_PROGRAM),
    ] = 20,
    latency: Annotated[
        str,
        typer.Option(
            help="Latency of one call to an idle shared file system.", rich_help_panel=_MACHINE
        ),
    ] = "4ms",
    storage_operations: Annotated[
        float, typer.Option(help="Calls per second that it serves.", rich_help_panel=_MACHINE)
    ] = 3e6,
    storage_rate: Annotated[
        str, typer.Option(help="Bytes per second that it serves.", rich_help_panel=_MACHINE)
    ] = "650GB/s",
    network: Annotated[
        str, typer.Option(help="Rate of one node's network.", rich_help_panel=_MACHINE)
    ] = "10GB/s",
    degree: Annotated[
        int, typer.Option(help="Children of a node in the tree.", rich_help_panel=_MACHINE)
    ] = 2,
    hop: Annotated[
        str,
        typer.Option(help="Latency of a small message to the next node.", rich_help_panel=_MACHINE),
    ] = "200us",
    measurement: Annotated[
        str | None,
        typer.Option(
            "--measured",
            help="Measured without broadcast, 512:603s; sets the shared file system's calls per "
            "second.",
        ),
    ] = None,
    as_json: AsJson = False,
    plot: PlotFile = None,
    explain: Explain = False,
) -> None:
    """Say how long importing takes by nodes, with and without broadcast."""
    with numeric():
        from ...planner.imports import Import
        from .imports_answer import answer

        job = Import(
            files=parse_count(files),
            size=parse_size(size),
            large=parse_size(large),
            processes=parse_count(processes),
            start=parse_time(start),
            operations=operations,
            latency=parse_time(latency),
            storage_operations=storage_operations,
            storage_rate=parse_rate(storage_rate),
            degree=degree,
            hop=parse_time(hop),
            network=parse_rate(network),
        )
        counts = sorted(set(listed(parse_count, nodes, "numbers of nodes")))
        show(
            answer(job, counts, optional(measured, measurement)),
            as_json=as_json,
            plot=plot,
            explain=explain,
        )
