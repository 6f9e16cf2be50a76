"""`holdfast plan copies`: how many copies of everything to keep in memory."""

from __future__ import annotations

from typing import Annotated

import typer

from ...units import parse_count, parse_share
from .parse import listed, optional
from .show import AsJson, Explain, PlotFile, Seed, numeric, show


def copies(
    *,
    ranks: Annotated[str, typer.Option(help="MPI ranks that hold data: 32768 or 2^15.")],
    failures: Annotated[
        str | None, typer.Option(help="Failures to survive (default: 1 % of the ranks or nodes).")
    ] = None,
    copies: Annotated[str, typer.Option(help="Numbers of copies to compare.")] = "1,2,3,4",
    together: Annotated[
        str, typer.Option(help="Neighbouring ranks that fail together: ranks per node.")
    ] = "1",
    risk: Annotated[str, typer.Option(help="Acceptable chance of losing data.")] = "1%",
    simulate: Annotated[int, typer.Option(help="Also simulate this many trials.")] = 0,
    seed: Seed = 0,
    as_json: AsJson = False,
    plot: PlotFile = None,
    explain: Explain = False,
) -> None:
    """Say how likely failures are to take the last copy of something, by number of copies."""
    with numeric():
        from .copies_answer import CopiesQuestion, answer

        question = CopiesQuestion(
            ranks=parse_count(ranks),
            failures=optional(parse_count, failures),
            copies=sorted(set(listed(parse_count, copies, "counts"))),
            together=parse_count(together),
            risk=parse_share(risk),
            trials=simulate,
            seed=seed,
        )
        show(answer(question), as_json=as_json, plot=plot, explain=explain)
