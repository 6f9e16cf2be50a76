"""`holdfast up`, `down` and `status`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from .._core import Client
from ..agent.control import AgentStatus
from ..cluster import background
from ..cluster import session as sessions
from ..errors import DeadlineMissed, TryAgain
from ..membership.view import Member
from ..units import format_size
from .output import AsJson, Session, Set, configure, print_json


class NodeStatus(msgspec.Struct, frozen=True):
    """One node in `holdfast status --json`; `state` is up, silent or gone."""

    node: str
    state: str
    pid: int
    address: str
    tiers: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}


class SessionStatus(msgspec.Struct, frozen=True):
    """What `holdfast status --json` prints."""

    session: str
    created: float
    nodes: list[NodeStatus]
    lost: list[str]


def up(
    nodes: Annotated[int, typer.Option(help="How many agents to start on this machine.")] = 4,
    session: Session = None,
    memory: Annotated[str | None, typer.Option(help="Memory tier per node, e.g. 4GiB.")] = None,
    disk: Annotated[str | None, typer.Option(help="Disk tier per node, e.g. 100GB.")] = None,
    networks: Annotated[
        bool, typer.Option("--networks", help="Give each a network of its own, to cut; root only.")
    ] = False,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Start agents on this machine and leave them running."""
    config = configure(settings, session=session, memory=memory, disk=disk)
    started, stale = background.up(config, nodes, networks)
    if as_json:
        print_json(started.view)
        return
    console = Console()
    if stale:
        console.print(f"Removed what session '{started.name}' left when it ended unexpectedly.")
    console.print(
        f"Session '{started.name}': {len(started.view.members)} agents are up. "
        "See them with `holdfast status`, end them with `holdfast down`."
    )


def down(session: Session = None, settings: Set = None) -> None:
    """End the agents of a session; what they hold in memory and on node-local disk goes."""
    ended = background.down(configure(settings, session=session))
    Console().print(f"Session '{ended.name}' has ended.")


def status(session: Session = None, settings: Set = None, as_json: AsJson = False) -> None:
    """Show the agents of a session, what they hold and what they did."""
    config = configure(settings, session=session)
    directory = sessions.run_dir(config) / config.session
    found = sessions.read(directory)
    client = Client(sessions.read_key(directory))
    report = SessionStatus(
        found.name,
        found.created,
        [_ask(client, member, config.deadline) for member in found.view.members],
        [member.node for member in found.view.lost],
    )
    if as_json:
        print_json(report)
    else:
        Console().print(_table(report))


def _ask(client: Client, member: Member, deadline: float) -> NodeStatus:
    try:
        answer = client.call(member.socket, "agent", "status", b"", deadline=deadline)
    except TryAgain as error:
        state = "silent" if isinstance(error, DeadlineMissed) else "gone"
        return NodeStatus(member.node, state, member.pid, member.address)
    status = msgspec.msgpack.decode(answer, type=AgentStatus)
    return NodeStatus(member.node, "up", status.pid, member.address, status.tiers, status.counters)


def _table(report: SessionStatus) -> Table:
    table = Table(title=f"session '{report.session}'")
    for column in ("node", "state"):
        table.add_column(column, no_wrap=True)
    for column in ("objects", "memory", "of", "disk", "puts", "gets", "bad"):
        table.add_column(column, justify="right", no_wrap=True)
    for node in report.nodes:
        row = [node.node, node.state]
        if node.tiers:
            memory, disk = node.tiers["memory"], node.tiers["disk"]
            row.append(str(memory["objects"] + disk["objects"]))
            row += [format_size(memory["bytes"]), format_size(memory["capacity"])]
            row.append(format_size(disk["bytes"]))
            row += [str(node.counters[name]) for name in ("puts", "gets", "damaged")]
        table.add_row(*row, style=None if node.state == "up" else "red")
    return table
