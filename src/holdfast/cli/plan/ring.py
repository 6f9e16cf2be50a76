"""`holdfast plan ring`: how many virtual nodes a node should have."""

from __future__ import annotations

from typing import Annotated

import typer

from ...units import parse_count, parse_share
from .parse import listed
from .show import AsJson, Explain, PlotFile, Seed, numeric, show


def ring(
    *,
    nodes: Annotated[str, typer.Option(help="Nodes that cache files.")] = "1024",
    files: Annotated[str, typer.Option(help="Files that are cached.")] = "524288",
    virtual_nodes: Annotated[
        str, typer.Option(help="Numbers of virtual nodes to compare.")
    ] = "10,50,100,500,1000",
    trials: Annotated[int, typer.Option(help="Failures to simulate for each number.")] = 500,
    slack: Annotated[
        str,
        typer.Option(help="How much busier the busiest node may be than with the best setting."),
    ] = "10%",
    labels: Annotated[
        str, typer.Option(help="apart, or joined as FT-Cache does (labels collide).")
    ] = "apart",
    label_hash: Annotated[
        str, typer.Option("--hash", help="xxh3, or fnv1a to see a weak hash.")
    ] = "xxh3",
    seed: Seed = 0,
    as_json: AsJson = False,
    plot: PlotFile = None,
    explain: Explain = False,
) -> None:
    """Say how many virtual nodes spread a lost node's files well enough."""
    with numeric():
        from .ring_answer import RingQuestion, answer

        question = RingQuestion(
            nodes=parse_count(nodes),
            files=parse_count(files),
            virtual_nodes=sorted(set(listed(parse_count, virtual_nodes, "counts"))),
            trials=trials,
            slack=parse_share(slack),
            labels=labels,
            label_hash=label_hash,
            seed=seed,
        )
        show(answer(question), as_json=as_json, plot=plot, explain=explain)
