"""What an agent does for files when told to: it looks again, fetches whole directories, mounts."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from .. import _core
from ..config import Config
from ..errors import BadInput
from .broadcast import Broadcast
from .refresh import MOUNTS_WITHIN, PassOn, Refresh

if TYPE_CHECKING:
    from ..agent.services import Later
    from ..membership.view import Member


class MountOrder(msgspec.Struct, frozen=True):
    """A mount wanted on the agent's host."""

    point: str
    roots: list[str]
    config: Config  # of the command that wants it


class FilesService:
    """Answers `refresh`, `pass_on`, `broadcast`, `broadcasting` and `mount`.

    `refreshed` is said by the core when it has learnt of a refresh from other members.
    """

    name = "files"

    def __init__(self, core: _core.Agent, member: Member) -> None:
        self._core = core
        self._node = member.node
        self._directory = os.path.dirname(member.socket.removeprefix("unix:"))
        self._telling = threading.Lock()
        self._untold: set[bytes] = set()  # paths at which mounts are still to look again

    def handle(self, method: str, message: bytes) -> bytes | Later:
        """Answer one call."""
        if method == "refresh":
            return self._refresh(msgspec.msgpack.decode(message, type=Refresh))
        if method == "pass_on":
            to = msgspec.msgpack.decode(message, type=PassOn)
            return lambda: self._core.call(to.address, self.name, "refresh", to.refresh, to.within)
        if method == "refreshed":
            return self._tell_mounts(message)
        if method == "broadcast":
            wanted = msgspec.msgpack.decode(message, type=Broadcast)
            self._core.broadcast(wanted.root, wanted.root, wanted.settled_ns)
            return b""
        if method == "broadcasting":
            return msgspec.msgpack.encode(self._core.broadcast_progress())
        if method == "mount":
            order = msgspec.msgpack.decode(message, type=MountOrder)
            return lambda: self._mount(order)
        raise BadInput(f"files has no method {method!r}")

    def _refresh(self, told: Refresh) -> bytes | Later:
        """Look again; the answer names the mounts that did not."""
        self._core.refresh_files(told.paths, told.number)
        if not self._has_mounts():
            return msgspec.msgpack.encode([])

        def mounts() -> bytes:
            from .mount import control  # noqa: PLC0415 - takes long to import, and most have none

            return msgspec.msgpack.encode(
                control.refresh(self._directory, self._node, told.paths, MOUNTS_WITHIN)
            )

        return mounts

    def _tell_mounts(self, path: bytes) -> bytes | Later:
        """Let the mounts look again at what was refreshed when nobody could tell us."""
        if not self._has_mounts():
            return b""
        with self._telling:
            self._untold.add(path)
            if len(self._untold) > 1:  # somebody is at it already
                return b""
        return self._tell_until_all_know

    def _tell_until_all_know(self) -> bytes:
        from .mount import control  # noqa: PLC0415

        while True:
            with self._telling:
                paths = set(self._untold)
            # The kernel's own root is none of theirs.
            mounts = control.of_session(self._directory, self._node).values()
            roots = {os.fsencode(root.path) for one in mounts for root in one.roots}
            names = sorted(roots if b"/" in paths else paths)
            if control.refresh(self._directory, self._node, names, MOUNTS_WITHIN):
                time.sleep(MOUNTS_WITHIN)
                continue
            with self._telling:
                self._untold -= paths
                if not self._untold:
                    return b""

    def _has_mounts(self) -> bool:
        return any(".mount-" in name for name in os.listdir(self._directory))

    def _mount(self, order: MountOrder) -> bytes:
        from .mount import control  # noqa: PLC0415

        parent, session = os.path.split(self._directory)
        config = replace(order.config, session=session, run_dir=parent, node=self._node)
        control.ensure(config, order.point, order.roots)
        return b""
