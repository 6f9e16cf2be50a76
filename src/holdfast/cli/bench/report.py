"""A report as a table in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .figures import Report

_MET = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


def print_report(report: Report) -> None:
    """Print `report` for a person."""
    table = Table(title=f"holdfast bench {report.bench}")
    for column in ("figure", "value", "target", "met", "compared with"):
        table.add_column(column)
    for figure in report.figures:
        cells = (figure.name, figure.text(), figure.target, _MET[figure.met])
        table.add_row(*cells, figure.compared_with)
    console = Console()
    console.print(table)
    for reason in report.invalid:
        console.print(f"[red]This run is invalid:[/] {reason}")
    for note in report.notes:
        console.print(note)
