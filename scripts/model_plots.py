"""Draw the plots of docs/models/ with the planner itself; `make docs` runs it first.

usage: scripts/model_plots.py DIRECTORY [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from holdfast import plots
from holdfast.cli.plan.failures_answer import draw as draw_failures
from holdfast.planner import copies, copies_simulated, imports, imports_simulated, ring, training
from holdfast.planner.checkpoint import optimum, simulated_clock
from holdfast.planner.checkpoint.machine import Machine, needed_bandwidth
from holdfast.planner.checkpoint.system import System
from holdfast.planner.jobs import LoggedJob, analyse

TSUBAME = (2.133e-5 * 0.9375, 2.133e-5 * 0.0625)
COASTAL = (8.54e-7, 2.01e-7)
PAPER_MARK = {"marker": "x", "linestyle": "", "color": "0.3", "markersize": 9, "markeredgewidth": 2}


def machine(rates: tuple[float, float], failures: float = 1, shared: float = 1) -> System:
    """Return the paper's machine with scaled failures and cost."""
    system = System((72.5, 6380.0), (72.5, 6380.0), rates, 6380.0, 0.00184)
    return system.scaled(failures, shared)


def efficiency(system: System, *, asynchronous: bool) -> float:
    """Return the best efficiency, in percent."""
    outcome = optimum.best(system, asynchronous=asynchronous)
    return 100 * outcome.efficiency if outcome else 0.0


def checkpoint_factors(figure: Figure) -> None:
    """Figure 11: efficiency by failure and cost factor."""
    on = plots.axes(
        figure, "Synchronous against asynchronous, TSUBAME2.0's rates (6.25 % need the top)",
        "failure factor F, cost factor C", "best efficiency (% of the time)",
    )  # fmt: skip
    factors = [(f, c) for f in (1, 2, 10) for c in (1, 2, 10)]
    places = np.arange(len(factors))
    for index, (name, flag) in enumerate((("asynchronous", True), ("synchronous", False))):
        heights = [efficiency(machine(TSUBAME, f, c), asynchronous=flag) for f, c in factors]
        on.bar(
            places + 0.4 * index, heights, 0.38, label=name, color=("0.2", "0.75")[index],
            hatch=("", "//")[index], edgecolor="1.0",
        )  # fmt: skip
        for place, height in zip(places, heights, strict=True):
            on.text(place + 0.4 * index, height + 1, f"{height:.0f}", ha="center", fontsize=7)
    on.set_xticks(places + 0.2, [f"F{f} C{c}" for f, c in factors])
    on.legend(fontsize=8)


def checkpoint_overhead(figure: Figure) -> None:
    """Figure 12: where a large overhead factor makes waiting better."""
    on = plots.axes(
        figure, "Where draining slows the program too much (Coastal's rates)",
        "overhead factor while a drain is in flight", "best efficiency (% of the time)",
    )  # fmt: skip
    factors = np.linspace(0, 4, 33)
    for index, (f, c) in enumerate(((1, 1), (2, 2))):
        system = machine(COASTAL, f, c)
        drained = [efficiency(replace(system, overhead=a), asynchronous=True) for a in factors]
        waiting = efficiency(system, asynchronous=False)
        style = plots.style(2 * index, markers=False)
        on.plot(factors, drained, label=f"asynchronous, F{f} C{c}", **style)
        on.axhline(
            waiting, label=f"synchronous, F{f} C{c}", **plots.style(2 * index + 1, markers=False)
        )
        even = next((a for a, e in zip(factors, drained, strict=True) if e < waiting), None)
        if even is not None:
            plots.mark(on, even, waiting, f"even at about {even:.1f}")
    on.legend(fontsize=8)


def checkpoint_bandwidth(figure: Figure) -> None:
    """Figure 13: bandwidth for an efficiency, by failure rate."""
    on = plots.axes(
        figure, "Shared bandwidth that an efficiency needs (TSUBAME2.0)",
        "failure rate (times today's)", "bandwidth needed (GB/s)",
    )  # fmt: skip
    base = Machine(
        nodes=1408, checkpoint=29e9, local=400e6, shared=6.4e9, rates=TSUBAME, overhead=0.00184
    )
    scales = (1, 2, 4, 8, 16)
    index = 0
    for flag, name in ((True, "asynchronous"), (False, "synchronous")):
        for wanted in (0.7, 0.8):
            needed = [
                needed_bandwidth(
                    replace(base, rates=(TSUBAME[0] * s, TSUBAME[1] * s)), wanted, asynchronous=flag
                )
                for s in scales
            ]
            values = [value / 1e9 if value else np.nan for value in needed]
            on.plot(scales, values, label=f"{name}, {wanted:.0%}", **plots.style(index))
            index += 1
    on.axhline(6.4, color="0.5", linewidth=1)
    on.annotate(
        "the paper's 6.4 GB/s", (9, 6.4), xytext=(0, 3), textcoords="offset points", fontsize=8
    )
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on, "y")
    on.set_xticks(scales, [str(scale) for scale in scales])
    on.legend(fontsize=8)


def checkpoint_clock(figure: Figure) -> None:
    """Draw the model beside the two ways a drain can go on after a failure."""
    on = plots.axes(
        figure, "What the model promises, and what drains deliver (TSUBAME2.0's rates)",
        "failure factor F, cost factor C", "efficiency (% of the time)",
    )  # fmt: skip
    factors = ((1, 1), (2, 2), (10, 1), (10, 2), (1, 10))
    places = np.arange(len(factors))
    columns: dict[str, list[float]] = {"model": [], "drain resumes": [], "drain restarts": []}
    for f, c in factors:
        system = machine(TSUBAME, f, c)
        best = optimum.best(system, asynchronous=True)
        assert best is not None
        columns["model"].append(100 * best.efficiency)
        for name, restart in (("drain resumes", False), ("drain restarts", True)):
            seen = simulated_clock.simulate(
                system, best.schedule, restart=restart, rng=np.random.default_rng(1), periods=300
            )
            columns[name].append(100 * seen.mean)
    for index, (name, values) in enumerate(columns.items()):
        on.bar(
            places + 0.27 * index, values, 0.25, label=name, color=("0.15", "0.5", "0.85")[index],
            hatch=("", "//", "..")[index], edgecolor="1.0",
        )  # fmt: skip
    on.set_xticks(places + 0.27, [f"F{f} C{c}" for f, c in factors])
    on.legend(fontsize=8)


def ring_causes(figure: Figure) -> None:
    """Figure 6(b), with each cause of a difference."""
    on = plots.axes(
        figure, "Who receives a lost node's files (1,024 nodes, 524,288 files)",
        "virtual nodes per node", "nodes (mean and standard deviation)",
    )  # fmt: skip
    counts = (10, 50, 100, 500, 1000)
    rng = np.random.default_rng(0)
    for index, (name, how) in enumerate(
        (("received a file", {}), ("labels joined, as FT-Cache", {"labels": "joined"}),
         ("labels joined, weak hash", {"labels": "joined", "label_hash": "fnv1a"}))
    ):  # fmt: skip
        seen = [ring.simulate(ring.RingSetting(1024, v, 524_288, **how), 200, rng) for v in counts]
        on.errorbar(
            counts, [each.receivers.mean() for each in seen],
            yerr=[each.receivers.std() for each in seen], capsize=3, label=name,
            **plots.style(index),
        )  # fmt: skip
        if not how:
            on.plot(
                counts, [each.neighbours.mean() for each in seen],
                label="next on the ring, file or not", **plots.style(4),
            )  # fmt: skip
            chosen = ring.enough(seen, 0.1)
            plots.mark(
                on,
                chosen.setting.virtual_nodes,
                float(chosen.receivers.mean()),
                "chosen",
                below=True,
            )
    on.plot([10, 1000], [3, 300], label="as the paper reports", **PAPER_MARK)
    on.set_xscale("log")
    on.set_yscale("log")
    plots.plain_numbers(on)
    plots.plain_numbers(on, "y")
    on.legend(fontsize=8)


def copies_until_loss(figure: Figure) -> None:
    """Figure 3: share of ranks that fail until data is lost."""
    on = plots.axes(
        figure, "How many ranks fail until something has no copy left",
        "ranks", "failed when data is lost (%; bars: 10 to 90 %)",
    )  # fmt: skip
    sizes = [2**k for k in range(5, 26, 4)]
    for index, count in enumerate((1, 2, 3, 4)):
        plans = [copies.Copies(p - p % count, count) for p in sizes]
        means = [100 * copies.expected_failures(plan) / plan.ranks for plan in plans]
        low = [100 * copies.quantile(plan, 0.1) / plan.ranks for plan in plans]
        high = [100 * copies.quantile(plan, 0.9) / plan.ranks for plan in plans]
        bars = [np.subtract(means, low).clip(0), np.subtract(high, means).clip(0)]
        on.errorbar(
            sizes, means, yerr=bars, capsize=2, label=f"{count} cop{'y' if count == 1 else 'ies'}",
            **plots.style(index),
        )  # fmt: skip
        small = [plan for plan in plans if plan.ranks < 2**18]
        seen = [
            copies_simulated.simulate(plan, 50, np.random.default_rng(7)).mean() / plan.ranks
            for plan in small
        ]
        on.plot(
            [plan.ranks for plan in small], 100 * np.array(seen),
            label="simulated" if count == 4 else None, **PAPER_MARK,
        )  # fmt: skip
    on.axhline(1, color="0.5", linewidth=1)
    on.annotate(
        "the paper's 1 %", (2**17, 1), xytext=(0, 3), textcoords="offset points", fontsize=8
    )
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on, "y")
    on.legend(fontsize=8)


def copies_distribution(figure: Figure) -> None:
    """Draw the claim for four copies at 2^25 ranks as a distribution."""
    on = plots.axes(
        figure, "Four copies on 2^25 ranks: when data is lost",
        "failed (% of the ranks)", "chance that data is lost by then (%)",
    )  # fmt: skip
    plan = copies.Copies(2**25, 4)
    shares = np.linspace(0.002, 0.03, 40)
    chances = [100 * copies.lost_up_to(plan, int(s * 2**25)) for s in shares]
    on.plot(100 * shares, chances, label="formula", **plots.style(0, markers=False))
    seen = np.sort(copies_simulated.simulate(plan, 40, np.random.default_rng(25))) / 2**25
    on.step(
        100 * seen, 100 * np.arange(1, 41) / 40, where="post", label="40 simulated runs",
        **plots.style(1, markers=False),
    )  # fmt: skip
    at_one = 100 * copies.lost_up_to(plan, 2**25 // 100)
    plots.mark(on, 1.0, at_one, f"{at_one:.1f} % lose data before 1 % has failed")
    mean = 100 * copies.expected_failures(plan) / 2**25
    on.axvline(mean, color="0.5", linewidth=1)
    on.annotate(
        f"mean {mean:.2f} %", (mean, 5), xytext=(4, 0), textcoords="offset points", fontsize=8
    )
    on.legend(fontsize=8)


def training_overhead(figure: Figure) -> None:
    """Figure 5(b): what a lost node adds, by policy."""
    on = plots.axes(figure, "What one lost node adds to five epochs", "nodes", "added time (%)")
    nodes = (64, 128, 256, 512, 1024)
    for index, policy in enumerate(("redirect", "recache", "two copies")):
        added = []
        for count in nodes:
            job = training.Training(nodes=count, files=524_288, file_size=2.5e6)
            rng = np.random.default_rng(5)
            base = training.mean_total(job, "none", 0, 3, rng).mean
            added.append(100 * (training.mean_total(job, policy, 1, 40, rng).mean / base - 1))
        on.plot(nodes, added, label=policy, **plots.style(index))
        if policy == "recache":
            plots.mark(on, nodes[-1], added[-1], "chosen", below=True)
    on.plot([64, 1024], [32.2, 68.7], label="paper, redirect", **PAPER_MARK)
    on.plot([64, 1024], [12.5, 26.7], label="paper, recache", **dict(PAPER_MARK, marker="+"))
    on.set_xscale("log", base=2)
    on.set_xticks(nodes, [str(count) for count in nodes])
    on.set_xlim(right=1500)
    on.set_ylim(bottom=0)
    on.legend(fontsize=8)


def training_epoch(figure: Figure) -> None:
    """Figure 6(a): the epoch after a failure."""
    on = plots.axes(figure, "One epoch, by what is cached", "nodes", "epoch (s)")
    nodes = (64, 128, 256, 512, 1024)
    for index, (name, missing) in enumerate(
        (("all cached", lambda n: 0.0), ("one node's files missing", lambda n: 1 / n),
         ("nothing cached", lambda n: 1.0))
    ):  # fmt: skip
        rng = np.random.default_rng(1)
        times = [
            training.epoch(
                training.Training(nodes=n, files=524_288, file_size=2.5e6), missing(n), rng
            )
            for n in nodes
        ]
        on.plot(nodes, times, label=name, **plots.style(index))
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on, "y")
    on.set_xticks(nodes, [str(count) for count in nodes])
    on.legend(fontsize=8)


def import_storm(figure: Figure) -> None:
    """Figures 1, 4 and 5 of Copper."""
    on = plots.axes(
        figure, "Loading a program, by nodes (12 processes each)", "nodes",
        "time until all have loaded (s)",
    )  # fmt: skip
    nodes = [2**k for k in range(4, 14)]
    torch, horovod = imports.Import(), imports.calibrated(imports.Import(), 512, 603.0)
    big = replace(torch, large=2.2e9)
    lines: list[tuple[str, Callable[[int], float]]] = [
        ("torch, from the storage", lambda n: imports.direct(torch, n)),
        ("torch, broadcast", lambda n: imports.broadcast(torch, n)),
        ("torch, again (2.2 GB not in the tree)", lambda n: imports.cached(big, n)),
        ("horovod, from the storage", lambda n: imports.direct(horovod, n)),
    ]
    for index, (name, seconds) in enumerate(lines):
        on.plot(nodes, [seconds(n) for n in nodes], label=name, **plots.style(index))
    on.plot(
        [2048, 2048, 512, 2048, 8300], [120, 60, 603, 2, 30], label="as Copper's paper reports",
        **PAPER_MARK,
    )  # fmt: skip
    pays = imports.pays_from(horovod) or 1
    plots.mark(on, pays, imports.broadcast(horovod, pays), "horovod: broadcast pays", below=True)
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on, "y")
    on.set_xticks(nodes, [str(count) for count in nodes])
    on.legend(fontsize=7)


def import_simulated(figure: Figure) -> None:
    """Figures 4 and 5 of Copper, beside trees of our own."""
    on = plots.axes(
        figure, "Loading torch (728 files, 12 processes a node), simulated", "nodes",
        "time until all have loaded (s)",
    )  # fmt: skip
    nodes = [64, 256, 1024, 2048, 4096, 8300, 10_000]
    lines: list[tuple[str, Callable[[int], float]]] = [
        ("from the storage", lambda n: imports.direct(imports.Import(), n))
    ]
    for degree in (2, 8):
        job = imports.Import(degree=degree)
        lines.append((
            f"broadcast, degree {degree}",
            lambda n, job=job: imports_simulated.broadcast(job, n, np.random.default_rng(n)),
        ))  # fmt: skip
    for index, (name, seconds) in enumerate(lines):
        on.plot(nodes, [seconds(n) for n in nodes], label=name, **plots.style(index))
    on.plot([2048, 2048], [120, 60], label="as Copper's paper reports", **PAPER_MARK)
    on.set_xscale("log", base=2)
    on.set_yscale("log")
    plots.plain_numbers(on, "y")
    on.set_xticks(nodes, [str(count) for count in nodes])
    on.legend(fontsize=7)


def failures_example(figure: Figure) -> None:
    """Draw what `plan failures` draws, for made-up jobs with a node MTBF of eight years."""
    rng = np.random.default_rng(3)
    jobs = []
    for number in range(20_000):
        nodes = int(2 ** rng.uniform(0, 13.2))
        length = float(rng.exponential(5400))
        hit = rng.exponential(8 * 365.25 * 86400 / nodes)
        ended = rng.choice(["COMPLETED", "FAILED", "TIMEOUT"], p=[0.72, 0.16, 0.12])
        state = "NODE_FAIL" if hit < length else str(ended)
        end = datetime(2024, 1, 1) + timedelta(minutes=13 * number)
        jobs.append(LoggedJob(state, nodes, min(length, hit), end))
    draw_failures(figure, analyse(jobs), 1024)


PLOTS: dict[str, Callable[[Figure], None]] = {
    "checkpoint-factors": checkpoint_factors,
    "checkpoint-overhead": checkpoint_overhead,
    "checkpoint-bandwidth": checkpoint_bandwidth,
    "checkpoint-clock": checkpoint_clock,
    "ring-causes": ring_causes,
    "copies-until-loss": copies_until_loss,
    "copies-distribution": copies_distribution,
    "training-overhead": training_overhead,
    "training-epoch": training_epoch,
    "import-storm": import_storm,
    "import-simulated": import_simulated,
    "failures-example": failures_example,
}


def main() -> None:
    """Draw all plots, or those that are named."""
    directory, *names = sys.argv[1:]
    Path(directory).mkdir(parents=True, exist_ok=True)
    for name in names or PLOTS:
        figure = Figure(figsize=(7, 4.4), layout="constrained")
        FigureCanvasSVG(figure)
        PLOTS[name](figure)
        figure.savefig(Path(directory) / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
