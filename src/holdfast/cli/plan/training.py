"""`holdfast plan training`: what a lost node costs a training job, by what is done about it."""

from __future__ import annotations

from typing import Annotated

import typer

from ...units import parse_count, parse_rate, parse_size, parse_time
from .parse import listed, optional, positions
from .show import AsJson, Explain, PlotFile, Seed, numeric, show

_JOB = "The job"
_MACHINE = "The machine"


def training(
    *,
    nodes: Annotated[
        str, typer.Option(help="Numbers of nodes to compare.", rich_help_panel=_JOB)
    ] = "64,128,256,512,1024",
    files: Annotated[str, typer.Option(help="Files of the data set.", rich_help_panel=_JOB)] = (
        "524288"
    ),
    file_size: Annotated[
        str, typer.Option(help="Size of each file.", rich_help_panel=_JOB)
    ] = "2.5MB",
    epochs: Annotated[int, typer.Option(help="Epochs to train.", rich_help_panel=_JOB)] = 5,
    batch: Annotated[
        str, typer.Option(help="Files in a batch, over all nodes.", rich_help_panel=_JOB)
    ] = "8192",
    compute: Annotated[
        str, typer.Option(help="Compute time per file.", rich_help_panel=_JOB)
    ] = "30ms",
    local: Annotated[
        str, typer.Option(help="Read rate of a node's cache.", rich_help_panel=_MACHINE)
    ] = "8GB/s",
    network: Annotated[
        str, typer.Option(help="Rate between two nodes.", rich_help_panel=_MACHINE)
    ] = "20GB/s",
    shared: Annotated[
        str, typer.Option(help="Read rate of the shared file system.", rich_help_panel=_MACHINE)
    ] = "1TB/s",
    shared_latency: Annotated[
        str, typer.Option(help="Mean latency of one file there.", rich_help_panel=_MACHINE)
    ] = "500ms",
    spread: Annotated[
        float,
        typer.Option(
            help="Standard deviation of the latency, divided by its mean.", rich_help_panel=_MACHINE
        ),
    ] = 0.5,
    readers: Annotated[
        int, typer.Option(help="Concurrent reads per node.", rich_help_panel=_MACHINE)
    ] = 16,
    detect: Annotated[
        str, typer.Option(help="Time until a lost node is noticed.", rich_help_panel=_MACHINE)
    ] = "1s",
    resume: Annotated[
        str, typer.Option(help="Time until training resumes without it.", rich_help_panel=_MACHINE)
    ] = "3s",
    requeue: Annotated[
        str, typer.Option(help="Time until an aborted job runs again.", rich_help_panel=_MACHINE)
    ] = "5min",
    failures: Annotated[
        int, typer.Option(help="Nodes lost at random times after the first epoch.")
    ] = 1,
    failure_times: Annotated[
        str | None,
        typer.Option(help="... or at these positions: 1.5 is the middle of the second epoch."),
    ] = None,
    runs: Annotated[int, typer.Option(help="Simulated runs for each number of nodes.")] = 10,
    seed: Seed = 0,
    as_json: AsJson = False,
    plot: PlotFile = None,
    explain: Explain = False,
) -> None:
    """Say what lost nodes cost under abort, redirect, recache and two copies."""
    with numeric():
        from ...planner.training import Training
        from .training_answer import TrainingQuestion, answer

        counts = sorted(set(listed(parse_count, nodes, "numbers of nodes")))
        jobs = [
            Training(
                nodes=count,
                files=parse_count(files),
                file_size=parse_size(file_size),
                epochs=epochs,
                batch=parse_count(batch),
                compute=parse_time(compute),
                local=parse_rate(local),
                network=parse_rate(network),
                shared=parse_rate(shared),
                shared_latency=parse_time(shared_latency),
                spread=spread,
                readers=readers,
                detect=parse_time(detect),
                resume=parse_time(resume),
                requeue=parse_time(requeue),
            )
            for count in counts
        ]
        question = TrainingQuestion(jobs, failures, optional(positions, failure_times), runs, seed)
        show(answer(question), as_json=as_json, plot=plot, explain=explain)
