"""`holdfast bench X`: one module per benchmark, each with `run() -> Report`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import msgspec
import typer

from .figures import Report
from .report import print_report

#: Name of a benchmark -> the module that runs it, imported when asked for.
BENCHES: dict[str, str] = {"replicas": "holdfast.cli.bench.replicas"}

app = typer.Typer(help="Measure this machine: ratios against what the machine or a peer can do.")


def load(name: str) -> Callable[[], Report]:
    """Return the function that runs benchmark `name`."""
    run: Callable[[], Report] = import_module(BENCHES[name]).run
    return run


def _register(name: str) -> None:
    @app.command(name)
    def bench(
        as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
    ) -> None:
        report = load(name)()
        if as_json:
            sys.stdout.write(
                msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
            )
        else:
            print_report(report)

    bench.__doc__ = f"Run the {name} benchmark."


for _name in BENCHES:
    _register(_name)
