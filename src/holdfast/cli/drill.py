"""`holdfast drill`: hurt a running session on purpose, and tell what it cost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from ..config import Config
from ..errors import BadInput, Damaged, Unavailable
from ..job import Job
from ..launch import background
from ..launch import networks as networking
from ..session import session as sessions
from ..testing.fault_targets import FaultTargets
from ..testing.faults import Faults
from ..testing.injector import FaultOutcome, Injection
from ..units import format_size, parse_time
from .load_generator import LoadGenerator, Requests
from .output import AsJson, Session, Set, configure, print_json

app = typer.Typer(
    help="Inject faults into a running session and report what they cost.", no_args_is_help=True
)

Node = Annotated[str, typer.Argument(help="A node, e.g. 2 or node-2.")]
At = Annotated[
    str,
    typer.Option(
        help="Stage at which to trigger: put, chain, get, pull, ... (default: immediately)."
    ),
]
After = Annotated[
    int, typer.Option(help="Trigger on the Nth time the stage is reached (1 = first).")
]
Within = Annotated[str, typer.Option(help="How long to wait for the fault to trigger.")]

#: The client has made some requests before anything breaks, so that it has something to lose.
_WARM_UP = 0.3


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `holdfast drill ... --json` prints; times are in seconds."""

    faults: list[FaultOutcome]
    agreed_after: float | None  # all agents agree who lives
    whole_after: float | None  # no copy is missing
    unsettled: str  # why not
    restored: int
    moved_bytes: int
    requests: Requests


@app.command()
def kill(
    node: Node,
    at: At = "",
    after: After = 1,
    within: Within = "30 s",
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """End an agent as a crash would (SIGKILL)."""
    drill = _Drill(configure(settings, session=session), within)
    drill.run(Faults().kill(drill.node(node), at, after), as_json)


@app.command()
def stop(
    node: Node,
    at: At = "",
    after: After = 1,
    within: Within = "30 s",
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent: it stays alive but answers nothing (SIGSTOP)."""
    drill = _Drill(configure(settings, session=session), within)
    drill.run(Faults().stop(drill.node(node, must_be="running"), at, after), as_json)


@app.command()
def resume(
    node: Node,
    within: Within = "30 s",
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Let a stopped agent continue."""
    drill = _Drill(configure(settings, session=session), within)
    drill.run(Faults().resume(drill.node(node, must_be="stopped")), as_json)


@app.command()
def restart(
    node: Node,
    within: Within = "30 s",
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Start a new, empty agent on the node of one that died."""
    drill = _Drill(configure(settings, session=session), within)
    drill.run(Faults().restart(drill.node(node, must_be="dead")), as_json)


@app.command()
def cut(
    first: Annotated[str, typer.Argument(help="Nodes on one side, e.g. 0 or 0,1.")],
    second: Annotated[str, typer.Argument(help="Nodes on the other side, e.g. 2,3.")],
    one_way: Annotated[
        bool,
        typer.Option("--one-way", help="Cut only the direction from the first side to the second."),
    ] = False,
    within: Within = "30 s",
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Drop all packets between nodes; needs a session started with `up --networks`."""
    drill = _Drill(configure(settings, session=session), within)
    one, other = (tuple(drill.node(name) for name in text.split(",")) for text in (first, second))
    drill.run(Faults().cut(one, other, one_way), as_json)


@app.command()
def heal(
    within: Within = "30 s",
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Heal all cuts."""
    _Drill(configure(settings, session=session), within).run(Faults().heal(), as_json)


class _Drill:
    """One fault in a running session, a client beside it, and the agents before and after."""

    def __init__(self, config: Config, within: str) -> None:
        self._config = config
        self._within = parse_time(within)
        self._directory: Path = sessions.directory(config)
        self._targets = FaultTargets(
            self._directory,
            lambda node: background.missing(config, only=f"node-{node}"),
            networking.of_session(self._directory),
        )

    def node(self, name: str, must_be: str = "") -> int:
        """Return the number of a node that must be in that condition."""
        digits = name.strip().removeprefix("node-")
        if not digits.isdecimal():
            raise BadInput(f"{name!r} is not a node; write it like 2 or node-2")
        condition = self._targets.condition(int(digits))
        if must_be and condition != must_be:
            raise BadInput(f"node {digits} is {condition}, not {must_be}; nothing was done")
        return int(digits)

    def run(self, faults: Faults, as_json: bool) -> None:
        """Do it, and print the report."""
        before = self._look()
        probing = LoadGenerator(Job(self._directory, self._config), min(2, self._targets.count))
        with probing:
            time.sleep(_WARM_UP)
            injection = Injection(faults, self._targets, self._within)
            outcomes = injection.run().outcomes
            start = time.monotonic()
            agreed, trouble = self._settle(injection, start, copies=False)
            whole = None
            if not trouble:
                whole, trouble = self._settle(injection, start, copies=True)
        probing.check(self._within)
        report = DrillReport(
            faults=outcomes,
            agreed_after=agreed,
            whole_after=whole,
            unsettled=trouble,
            restored=self._since(before, "pulls"),
            moved_bytes=self._since(before, "pulled_bytes"),
            requests=probing.requests,
        )
        self._targets.close()
        if as_json:
            print_json(report)
        else:
            _show(report)
        if probing.requests.wrong:
            raise Damaged(f"{probing.requests.wrong} gets returned other bytes than were put")
        # Behind a cut objects are missing, and come back when it is healed.
        if probing.requests.missing and not trouble and not injection.cuts:
            raise Unavailable(f"{probing.requests.missing} acknowledged objects were not found")

    def _settle(self, injection: Injection, start: float, copies: bool) -> tuple[float | None, str]:
        """Wait; return how long it took since `start`, or why it did not happen."""
        while trouble := self._targets.unsettled(injection.cuts, copies):
            if time.monotonic() > start + self._within:
                return None, trouble
            time.sleep(0.01)
        return round(time.monotonic() - start, 3), ""

    def _look(self) -> dict[int, dict[str, int]]:
        """Return the counters of all agents that answer, by member."""
        running = (n for n in range(self._targets.count) if self._targets.condition(n) == "running")
        seen = (self._targets.look(node) for node in running)
        return {one.number: one.counters for one in seen if one is not None}

    def _since(self, before: dict[int, dict[str, int]], name: str) -> int:
        """Return by how much a counter has grown; an agent that died takes its own with it."""
        return sum(
            counters.get(name, 0) - before.get(member, {}).get(name, 0)
            for member, counters in self._look().items()
        )


def _show(report: DrillReport) -> None:
    console = Console(highlight=False)
    for outcome in report.faults:
        when = "it never struck" if outcome.happened is None else f"{outcome.happened:.2f} s"
        console.print(f"{outcome.fault}: {when}")
    if report.agreed_after is not None:
        console.print(f"The agents agreed on who is alive after {report.agreed_after} s.")
    if report.whole_after is not None:
        console.print(f"All copies were restored after {report.whole_after} s.")
    if report.unsettled:
        console.print(f"The agents did not settle: {report.unsettled}.")
    console.print(f"{report.restored} copies were fetched ({format_size(report.moved_bytes)}).")
    requests = report.requests
    if requests.missing:
        console.print(
            f"{requests.missing} objects that were acknowledged to a client can no longer be found."
        )
    console.print(
        f"{requests.failed} of {requests.made} client requests failed; the slowest took "
        f"{requests.slowest:.2f} s."
    )
