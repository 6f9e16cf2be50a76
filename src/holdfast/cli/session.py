"""`holdfast up` and `holdfast down`."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from ..client.contacts import Contacts
from ..config import Config
from ..errors import BadInput
from ..files.mount import control, everywhere
from ..launch import background
from ..launch.launchers import LAUNCHERS
from ..membership.view import SPARE, STAGING, Member
from ..session import session as sessions
from ..units import plural
from .output import AsJson, Session, Set, configure, print_json, refuse_with


def up(
    nodes: Annotated[
        int | None, typer.Option(help="Agents to start on this machine (default: 4).")
    ] = None,
    hostfile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Start agents on these hosts, through ssh.")
    ] = None,
    staging: Annotated[
        int | None,
        typer.Option(metavar="N", help="Staging nodes: the last ones before the spares."),
    ] = None,
    spares: Annotated[
        int | None, typer.Option(metavar="N", help="Spares: the last nodes, which own no objects.")
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
    networks: Annotated[
        bool,
        typer.Option(
            "--networks", help="Give each agent its own network, which can be cut; root only."
        ),
    ] = False,
    mount: Annotated[
        str | None, typer.Option(metavar="MNT", help="Mount the roots at MNT on every host.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR", help="Directory that --mount shows (default: the setting `roots`)."
        ),
    ] = None,
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
        staging=staging,
        spares=spares,
        launcher=launcher,
    )
    if missing:
        refuse_with("--missing", staging=staging, spares=spares)
    if root and mount is None:
        raise BadInput("--root needs --mount MNT; add it, or name the roots when you use them")
    done = background.missing(config, nodes) if missing else background.up(config, nodes, networks)
    if done is None:  # this process only helped
        return
    if mount is not None:
        try:
            # Hosts that were there may lack the mount as well as those that were missing.
            members = _live(config) if missing else done.members
            everywhere.mount(config, members, mount, root or ())
        except BaseException:
            if not missing:  # all of it or nothing
                _end(config)
            raise
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
            f"Session '{done.session}': {plural(len(done.members), 'agent is', 'agents are')} up"
            f"{_roles(done.members)}. See them with `holdfast status`, end them with "
            "`holdfast down`."
        )
    if mount is not None:
        lines.append(f"Mounted at {mount} on every host.")
    print(*lines, sep="\n")


def down(
    session: Session = None,
    keep_logs: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Keep the agents' logs and story.jsonl in DIR."),
    ] = None,
    settings: Set = None,
) -> None:
    """End the agents of a session and delete what they hold in memory and on node-local disk."""
    ended = _end(configure(settings, session=session), keep_logs)
    if ended.silent:
        print(f"No answer from {', '.join(ended.silent)}: if an agent still runs there, end it.")
    if ended.hanging:
        pids = ", ".join(map(str, ended.hanging))
        print(f"Cannot kill {pids}: blocked in the shared file system.")
    print(f"Session '{ended.session}' has ended.")


def _roles(members: list[Member]) -> str:
    """Say how many have a role of their own, if any have."""
    counts = {role: sum(one.role == role for one in members) for role in (STAGING, SPARE)}
    told = [f"{count} {role}" for role, count in counts.items() if count]
    return f" ({', '.join(told)})" if told else ""


def _live(config: Config) -> list[Member]:
    contacts = Contacts(sessions.directory(config), config.deadline)
    try:
        return contacts.view().live()
    finally:
        contacts.client.close()


def _end(config: Config, keep_logs: str | None = None) -> background.Down:
    hanging = control.stop_all(sessions.directory(config))
    ended = background.down(config, keep_logs)
    return replace(ended, hanging=[*(one.pid for one in hanging), *ended.hanging])
