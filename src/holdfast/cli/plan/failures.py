"""`holdfast plan failures`: what fails at your site, from what Slurm has recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import BadInput
from ...units import parse_count
from .parse import listed, optional
from .sacct import read_jobs
from .show import AsJson, Explain, PlotFile, numeric, show


def failures(
    *,
    sacct: Annotated[Path, typer.Option(help="File with the output of `sacct --parsable2`.")],
    nodes: Annotated[
        str | None, typer.Option(help="Nodes of your job, to estimate how often it loses one.")
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(help="Lower bounds of the job size classes: 1,1550,3100 (default: doubling)."),
    ] = None,
    as_json: AsJson = False,
    plot: PlotFile = None,
    explain: Explain = False,
) -> None:
    """Count failures by kind, job size, elapsed time and week; estimate how often nodes fail."""
    with numeric():
        from .failures_answer import answer

        edges = optional(lambda text: [float(n) for n in listed(parse_count, text, "sizes")], bins)
        if edges is not None and (len(edges) < 2 or sorted(set(edges)) != edges):
            raise BadInput(
                f"--bins {bins} must be at least two increasing numbers, like 1,1550,3100"
            )
        size = optional(parse_count, nodes)
        show(answer(read_jobs(sacct), size, edges), as_json=as_json, plot=plot, explain=explain)
