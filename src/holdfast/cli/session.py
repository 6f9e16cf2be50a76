"""`holdfast up`, `down` and `status`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ..agent.control import AgentStatus
from ..cluster import background
from ..cluster import session as sessions
from ..cluster.contacts import Contacts
from ..cluster.launchers import LAUNCHERS
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
    nodes: Annotated[
        int | None, typer.Option(help="Agents to start on this machine; 4 unless given.")
    ] = None,
    hostfile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Start agents on these hosts, through ssh.")
    ] = None,
    launcher: Annotated[
        str | None, typer.Option(help=f"What starts the agents: {', '.join(LAUNCHERS)}.")
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Start the agents that a running session lacks.")
    ] = False,
    session: Session = None,
    memory: Annotated[str | None, typer.Option(help="Memory tier per node, e.g. 4GiB.")] = None,
    disk: Annotated[str | None, typer.Option(help="Disk tier per node, e.g. 100GB.")] = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Start agents and leave them running: one per node of a job, or several on this machine."""
    config = configure(
        settings,
        session=session,
        memory=memory,
        disk=disk,
        hostfile=hostfile,
        launcher=launcher,
    )
    done = background.missing(config, nodes) if missing else background.up(config, nodes)
    if done is None:  # this process only helped
        return
    if as_json:
        print_json(done)
        return
    lines = []
    if done.cleared:
        lines.append(f"Removed what session '{done.session}' left when it ended unexpectedly.")
    lines.append(f"Found {done.found}: {done.why}.")
    if missing and not done.members:
        lines.append(f"Session '{done.session}': every node has an agent; none was started.")
    elif missing:
        names = ", ".join(member.node for member in done.members)
        lines.append(f"Session '{done.session}': started {names}.")
    else:
        lines.append(
            f"Session '{done.session}': {len(done.members)} agents are up. "
            "See them with `holdfast status`, end them with `holdfast down`."
        )
    print(*lines, sep="\n")


def down(session: Session = None, settings: Set = None) -> None:
    """End the agents of a session; what they hold in memory and on node-local disk goes."""
    ended = background.down(configure(settings, session=session))
    if ended.silent:
        print(f"No answer from {', '.join(ended.silent)}: if an agent still runs there, end it.")
    print(f"Session '{ended.session}' has ended.")


def status(session: Session = None, settings: Set = None, as_json: AsJson = False) -> None:
    """Show the agents of a session, what they hold and what they did."""
    config = configure(settings, session=session)
    contacts = Contacts(sessions.directory(config), config.deadline)
    view = contacts.view()
    report = SessionStatus(
        contacts.session.name,
        contacts.session.created,
        [_ask(contacts, member) for member in view.live()],
        [member.node for member in view.lost()],
    )
    if as_json:
        print_json(report)
    else:
        Console().print(_table(report))


def _ask(contacts: Contacts, member: Member) -> NodeStatus:
    try:
        answer = contacts.client.call(
            contacts.address(member), "agent", "status", b"", deadline=contacts.deadline
        )
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
