"""Bringing a directory to every node ahead of the programs that will ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec

from .. import _core
from ..client.connection import Connection
from ..client.contacts import at_once
from ..config import Config
from ..errors import HoldfastError
from ..membership.view import Member
from . import paths
from .paths import Path

#: Between two looks at what the nodes have told, and before one is asked again, in seconds.
_LOOK_EVERY = 0.02
_ASK_EVERY = 0.2
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

    @classmethod
    def of(cls, now: _core.BroadcastProgress) -> Progress:
        """Return what the core tells as a plain struct that can travel."""
        return cls(now.found, now.fetched, now.bytes, now.left_out, now.ended)

    @property
    def reached(self) -> tuple[int, int]:
        """What grows unless the shared file system hangs, also while files are left out."""
        return self.found, self.fetched


class Broadcasted(msgspec.Struct, frozen=True, kw_only=True):
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
    watch = _BroadcastWatch(connection, _tell_all(connection, message))
    shown: Broadcasted | None = None
    while True:
        far = watch.look(time.monotonic())
        if progress is not None and far != shown:
            progress(far)
            shown = far
        if watch.over:
            return far
        time.sleep(_LOOK_EVERY)


def _tell_all(connection: Connection, message: bytes) -> dict[Member, bool]:
    """Let every node begin; tells which have."""

    def tell(member: Member) -> bool:
        address, deadline = connection.routing.address(member), connection.deadline
        try:
            connection.client.call(address, "files", "broadcast", message, deadline=deadline)
        except HoldfastError:
            return False
        return True

    return dict(at_once(tell, list(connection.routing.live)))


class _BroadcastWatch:
    """How far the nodes are. Each is asked to say so when it is further than we know."""

    def __init__(self, connection: Connection, told: dict[Member, bool]) -> None:
        self._connection = connection
        self._members = [member for member, began in told.items() if began]
        self._far = {member.node: Progress() for member in self._members}
        self._since = dict.fromkeys(self._far, time.monotonic())  # when it was seen to come further
        self._asked = dict.fromkeys(self._far, -_ASK_EVERY)
        self._calls: dict[str, _core.PendingCall] = {}
        self._missed = [member.node for member, began in told.items() if not began]
        self._stalled: list[str] = []

    @property
    def over(self) -> bool:
        """Whether there is nobody left to wait for."""
        return all(far.ended or node in self._stalled for node, far in self._far.items())

    def look(self, now: float) -> Broadcasted:
        """Take what the nodes have told, and ask again."""
        for node in [node for node, call in self._calls.items() if call.done]:
            self._hear(node, now)
        self._stalled = [
            node
            for node, far in self._far.items()
            if not far.ended and now - self._since[node] > _STALLED_AFTER
        ]
        due = [member for member in self._members if self._is_due(member.node, now)]
        if due:
            for member, call in at_once(self._ask, due):
                self._asked[member.node] = now
                if call is None:
                    self._miss(member.node)
                else:
                    self._calls[member.node] = call
        return Broadcasted(
            nodes=[node for node, far in self._far.items() if far.ended],
            missed=[*self._missed],
            stalled=self._stalled,
            found=sum(far.found for far in self._far.values()),
            fetched=sum(far.fetched for far in self._far.values()),
            bytes=sum(far.bytes for far in self._far.values()),
            left_out=sum(far.left_out for far in self._far.values()),
        )

    def _is_due(self, node: str, now: float) -> bool:
        far = self._far.get(node)
        if far is None or far.ended or node in self._stalled or node in self._calls:
            return False
        return now - self._asked[node] >= _ASK_EVERY

    def _ask(self, member: Member) -> _core.PendingCall | None:
        address = self._connection.routing.address(member)
        known = msgspec.msgpack.encode(self._far[member.node])
        try:
            return self._connection.client.wait(
                address,
                "files",
                "broadcasting",
                known,
                within=2 * _STALLED_AFTER,
                deadline=self._connection.deadline,
            )
        except HoldfastError:
            return None

    def _hear(self, node: str, now: float) -> None:
        try:
            far = msgspec.msgpack.decode(self._calls.pop(node).result(), type=Progress)
        except HoldfastError:
            self._miss(node)
            return
        if far.reached != self._far[node].reached:
            self._since[node] = now
        self._far[node] = far

    def _miss(self, node: str) -> None:
        self._missed.append(node)
        del self._far[node]
