"""`holdfast bench`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..bench import baselines, page
from ..bench.figures import Report
from ..errors import BadInput
from .output import AsJson, print_json
from .plan import show

#: Name of a benchmark -> the module that runs it, imported when asked for.
BENCHES: dict[str, str] = {
    "core": "holdfast.bench.core",
    "files": "holdfast.bench.files",
    "membership": "holdfast.bench.membership",
    "mount": "holdfast.bench.mount",
    "planner": "holdfast.bench.planner",
    "replicas": "holdfast.bench.replicas",
}

#: Name of a benchmark -> the module that draws its plots from a report.
PLOTS: dict[str, str] = {
    "mount": "holdfast.bench.mount.plots",
    "replicas": "holdfast.bench.replicas.plots",
}

_MET = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


def run_one(name: str) -> Report:
    """Run benchmark `name`."""
    report: Report = import_module(BENCHES[name]).run()
    return report


def run_small() -> Report:
    """Run the benchmark of the mount in small sizes."""
    mount = import_module(BENCHES["mount"])
    report: Report = mount.run(mount.SMALL)
    return report


def _check(name: str, write: Path | None, plots: Path | None, small: bool) -> None:
    """Raise BadInput unless the arguments fit together."""
    if name not in BENCHES and name != "all":
        raise BadInput(f"there is no benchmark {name!r}; choose one of {', '.join(BENCHES)}, all")
    if write is not None and name != "all":
        raise BadInput(
            "--write writes the page of all benchmarks; use it with `holdfast bench all`"
        )
    if write is not None and not write.parent.is_dir():
        raise BadInput(f"cannot write {write}: there is no directory {write.parent}")
    if plots is not None and (name not in (*PLOTS, "all") or not plots.is_dir()):
        raise BadInput(
            "--plots draws the plots of `holdfast bench "
            f"{'` or `'.join((*PLOTS, 'all'))}` into an existing directory"
        )
    if plots is not None:
        with show.numeric("holdfast bench --plots"):
            show.check_plot(plots / "plot.png")
    if small and name != "mount":
        raise BadInput("--small works only with `holdfast bench mount`")


def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHES)}, all.")],
    as_json: AsJson = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Record the baselines of this machine (for developers)."),
    ] = False,
    write: Annotated[
        Path | None, typer.Option(help="With `all`: also write the page of results to this file.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(
            help="With `mount`, `replicas` or `all`: also draw the plots into this directory."
        ),
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="With `mount`: a quick run to check that it works.")
    ] = False,
) -> None:
    """Measure this machine: ratios against what the machine or a peer can do."""
    _check(name, write, plots, small)
    if record:
        baselines.check_checkout()

    here = baselines.fingerprint()
    known = baselines.recorded(here)
    names = list(BENCHES) if name == "all" else [name]
    reports = []
    for each in names:
        with Console(stderr=True).status(f"running the {each} benchmark"):  # on terminals only
            report = run_small() if small else run_one(each)
            reports.append(baselines.judge(report, known))
    if record:
        baselines.record(here, reports)
    if write is not None:
        text = page.render(reports, baselines.describe_machine(), soaks=page.soaks(write))
        write.write_text(text, encoding="utf-8")
    if as_json:
        print_json(reports if name == "all" else reports[0])
    else:
        for report in reports:
            _print_report(report)
    if plots is not None:
        for each, report in zip(names, reports, strict=True):
            if each in PLOTS:
                import_module(PLOTS[each]).draw(report, plots)


def _print_report(report: Report) -> None:
    """Print a report as a table."""
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
