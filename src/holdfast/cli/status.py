"""`holdfast status`."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .. import services
from ..client.contacts import Contacts
from ..client.survey import SessionStatus, survey
from ..config import Config
from ..files.mount import control
from ..files.mount.control import MountStatus
from ..membership.view import SPARE, STAGING
from ..session import session as sessions
from ..units import format_size, format_time, plural
from .output import AsJson, Session, Set, configure, print_json, print_json_line

#: Between two looks with --watch, in seconds.
_EVERY = 1.0
#: How many nodes are named in a line.
_NAMED = 20


def status(
    session: Session = None,
    settings: Set = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update every second.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the agents of a session, what they hold, and the progress of restoring."""
    config = configure(settings, session=session)
    if not watch:
        report = _look(config)
        if as_json:
            print_json(report)
        else:
            Console().print(_show(report))
        return
    if as_json:
        while True:
            print_json_line(_look(config))
            time.sleep(_EVERY)
    with Live(_show(_look(config)), auto_refresh=False) as live:
        while True:
            time.sleep(_EVERY)
            live.update(_show(_look(config)), refresh=True)


class StatusReport(SessionStatus, frozen=True, kw_only=True):
    """The session, and its mounts on this host."""

    mounts: tuple[MountStatus, ...] = ()


def _look(config: Config) -> StatusReport:
    directory = sessions.directory(config)
    contacts = Contacts(directory, config.deadline)
    try:
        found = msgspec.structs.asdict(survey(contacts))
    finally:
        contacts.client.close()
    return StatusReport(**found, mounts=tuple(control.status(directory, config.deadline)))


def _show(report: StatusReport) -> Group:
    lines: list[RenderableType] = [_table(report)]
    if not report.views:
        return Group(*lines, "No agent answers.")
    if report.views > 1:
        lines.append(f"The agents have {report.views} different views; they are merging them.")
    lines += [*_roles(report), *_copies(report)]
    failed = [n.node for n in report.nodes if n.tiers and n.tiers["disk"]["condemned"]]
    if failed:
        lines.append(f"The disk of {', '.join(failed)} has failed: its data is kept in memory.")
    if report.partition_wait_left:
        left = format_time(report.partition_wait_left)
        lines.append(
            f"Many nodes vanished at once: waiting {left} for them before restoring copies."
        )
    if report.conflicts:
        lines.append(_conflicts(report))
    restored = sum(node.restoring.restored for node in report.nodes)
    if restored:
        size = format_size(sum(node.restoring.restored_bytes for node in report.nodes))
        lines.append(f"Restored so far: {plural(restored, 'copy', 'copies')} ({size}).")
    if any(node.files.files for node in report.nodes):
        lines.append(_files(report))
    if no_room := sum(node.files.no_room for node in report.nodes):
        lines.append(
            f"{plural(no_room, 'read', 'reads')} of files went to the shared file system because "
            "both tiers are full: drop objects, or start with a larger capacity."
        )
    if any(
        node.counters.get("tree_hits") or node.counters.get("tree_hops") for node in report.nodes
    ):
        lines.append(_broadcast(report))
    if report.mounts:
        lines.append(_mounts(report))
    lines.append(f"Exposure after a node failure: {format_time(report.window)}.")
    return Group(*lines)


def _table(report: SessionStatus) -> Table:
    table = Table(title=f"session '{report.session}'")
    for column in ("node", "state"):
        table.add_column(column, no_wrap=True)
    for column in ("inc", "objects", "memory", "of", "disk", "puts", "gets", "bad"):
        table.add_column(column, justify="right", no_wrap=True)
    for node in report.nodes:
        healthy = node.state == "alive" and node.answer == "up"
        state = node.state if node.answer == "up" else f"{node.state}, {node.answer}"
        row = [node.node, state, str(node.incarnation)]
        if node.tiers:
            memory, disk = node.tiers["memory"], node.tiers["disk"]
            row.append(str(memory["objects"] + disk["objects"]))
            row += [format_size(memory["bytes"]), format_size(memory["capacity"])]
            row.append(format_size(disk["bytes"]))
            row += [str(node.counters[name]) for name in ("puts", "gets", "damaged")]
        table.add_row(*row, style=None if healthy else "red")
    return table


def _roles(report: SessionStatus) -> list[str]:
    """Name the nodes with a role of their own; the table is as wide as a terminal already."""
    told = {STAGING: "Staging nodes", SPARE: "Spares, which own no objects"}
    having = {role: [one.node for one in report.nodes if one.role == role] for role in told}
    return [f"{told[role]}: {_names(nodes)}." for role, nodes in having.items() if nodes]


def _copies(report: SessionStatus) -> list[str]:
    # On the ring a spare owns nothing; in a key space it may have stood in for others.
    spares = {node.node for node in report.nodes if node.role == SPARE and not services.KEY_SPACES}
    gone = [node for node in dict.fromkeys(report.lost) if node not in spares]
    which = "All remaining objects" if gone else "All objects"
    line = f"{which} have the requested number of copies."
    if report.under_replicated:
        missing = format_size(report.missing_bytes)
        below = plural(report.under_replicated, "object has", "objects have")
        line = f"{below} fewer copies than requested ({missing} to restore)."
    lost = [
        f"Objects with {len(nodes)} copies or fewer may be lost: {', '.join(nodes)} died before "
        "one another's copies were restored."
        for nodes in report.died_together
    ]
    # Who knew of an object with one copy died with it.
    grouped = {node for nodes in report.died_together for node in nodes}
    alone = [node for node in gone if node not in grouped]
    if alone:
        lost.append(f"Objects with their only copy on {_names(alone)} may be lost.")
    return [line, *lost]


def _names(nodes: list[str]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(nodes[:_NAMED]) + more


def _conflicts(report: SessionStatus) -> Text:
    keys = plural(report.conflicts, "key was", "keys were")
    more = ", ..." if report.conflicts > len(report.set_aside) else ""
    return Text(
        f"{keys} written with different contents on both sides of a network partition; "
        f"the other bytes are kept as "
        f"{', '.join(report.set_aside)}{more}."
    )


def _broadcast(report: SessionStatus) -> Group:
    """Two tables: one is too wide for a terminal."""
    asked, passed = Table(title="broadcast: asked of a node"), Table(title="broadcast: passed on")
    columns = {
        asked: ("hits", "files", "listings", "parts", "coalesced", "from shared\nfile system"),
        passed: ("from above", "to below", "depth", "per hop", "failures"),
    }
    for table, names in columns.items():
        table.add_column("node", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
    counters = {node.node: node.counters for node in report.nodes} | {"all": report.trees}
    for node, told_as in counters.items():
        told = {name.removeprefix("tree_"): value for name, value in told_as.items()}
        if not told:
            continue
        missed = [told[f"misses_{kind}"] for kind in ("file", "listing", "part")]
        read = sum(told[f"read_{kind}"] for kind in ("files", "listings", "parts"))
        asked.add_row(node, *map(str, (told["hits"], *missed, told["joined"], read)))
        passed.add_row(
            node,
            format_size(told["bytes_up"]),
            format_size(told["bytes_down"]),
            str(told["depth"]),
            format_time(told["hop_us"] / 1e6 / told["hops"]) if told["hops"] else "",
            str(told["failures"]),
        )
    return Group(asked, passed)


def _files(report: SessionStatus) -> Table:
    table = Table(title="files")
    table.add_column("node", no_wrap=True)
    for column in ("files", "bytes", "local", "remote", "from shared\nfile system", "failures"):
        table.add_column(column, justify="right", no_wrap=True)
    for node in report.nodes:
        held = node.files
        numbers = (held.local, held.remote, held.from_storage, held.failures)
        table.add_row(node.node, str(held.files), format_size(held.bytes), *map(str, numbers))
    return table


def _mounts(report: StatusReport) -> Table:
    table = Table(title="mounts of this host")
    for column in ("node", "at", "state", "roots"):
        table.add_column(column, overflow="fold")
    for column in ("listings", "files", "from shared\nfile system"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in report.mounts:
        count = one.counters.get
        direct = count("listings_from_storage", 0) + count("files_from_storage", 0)
        roots = ", ".join(root.path for root in one.roots)
        numbers = (count("listings", 0), count("files", 0), direct)
        style = None if one.state == "up" else "red"
        table.add_row(one.node, one.point, one.state, roots, *map(str, numbers), style=style)
    return table
