"""Bringing a directory to every node ahead of the programs that will ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec

from ..client.connection import Connection
from ..client.contacts import at_once
from ..config import Config
from ..errors import HoldfastError
from ..membership.view import Member
from . import paths
from .paths import Path

#: Between two looks at how far the nodes are, in seconds.
_LOOK_EVERY = 0.2
#: A node that has neither found nor fetched anything for so long is not waited for.
_STALLED_AFTER = 60.0


class Broadcast(msgspec.Struct, frozen=True, array_like=True):
    """What agents are told to fetch."""

    root: bytes
    settled_ns: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far one agent is."""

    found: int = 0
    fetched: int = 0
    bytes: int = 0
    left_out: int = 0
    ended: bool = False

    @property
    def reached(self) -> tuple[int, int]:
        """What grows unless the storage hangs, when files are still left out, one by one."""
        return self.found, self.fetched


class Broadcasted(msgspec.Struct, frozen=True):
    """How far a broadcast came; files and bytes are those of all nodes together."""

    nodes: list[str]  # that have ended
    missed: list[str]  # that did not answer; their programs fetch what they need
    stalled: list[str]  # that made no progress for a minute; they go on by themselves
    found: int  # files so far
    fetched: int  # of these, copies that are there
    bytes: int
    left_out: int  # too large, too young, unreadable or not regular


def broadcast(
    connection: Connection,
    config: Config,
    directory: Path,
    progress: Callable[[Broadcasted], None] | None = None,
) -> Broadcasted:
    """Let every node fetch all below a directory through its trees; returns when all have."""
    message = msgspec.msgpack.encode(
        Broadcast(paths.root_of(directory), int(config.file_settled * 1e9))
    )
    connection.refresh()
    members = list(connection.routing.live)
    told = at_once(lambda member: _call(connection, member, "broadcast", message), members)
    far = {member.node: Progress() for member, answer in told if answer is not None}
    missed = [member.node for member, answer in told if answer is None]
    since = dict.fromkeys(far, time.monotonic())  # when a node was last seen to come further
    while True:
        stalled = [
            node
            for node, one in far.items()
            if not one.ended and time.monotonic() - since[node] > _STALLED_AFTER
        ]
        running = [
            one
            for one in members
            if one.node in far and not far[one.node].ended and one.node not in stalled
        ]
        for member, answer in at_once(
            lambda member: _call(connection, member, "broadcasting", b""), running
        ):
            if answer is None:
                missed.append(member.node)
                del far[member.node]
            else:
                now, before = msgspec.msgpack.decode(answer, type=Progress), far[member.node]
                if now.reached != before.reached:
                    since[member.node] = time.monotonic()
                far[member.node] = now
        done = _together(far, missed, stalled)
        if progress is not None:
            progress(done)
        if len(done.nodes) + len(stalled) == len(far):
            return done
        time.sleep(_LOOK_EVERY)


def _call(connection: Connection, member: Member, method: str, message: bytes) -> bytes | None:
    address = connection.routing.address(member)
    try:
        return connection.client.call(
            address, "files", method, message, deadline=connection.deadline
        )
    except HoldfastError:
        return None


def _together(far: dict[str, Progress], missed: list[str], stalled: list[str]) -> Broadcasted:
    return Broadcasted(
        [node for node, one in far.items() if one.ended],
        missed,
        stalled,
        sum(one.found for one in far.values()),
        sum(one.fetched for one in far.values()),
        sum(one.bytes for one in far.values()),
        sum(one.left_out for one in far.values()),
    )
