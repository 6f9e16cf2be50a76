"""What an agent does for files beside reading them: it forgets what it knows when told to."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import msgspec

from .. import _core
from ..errors import BadInput, HoldfastError
from .broadcasting import Broadcast
from .refreshing import Refresh

if TYPE_CHECKING:
    from ..membership.view import Member

#: A mount that has not looked again by then is stuck; it is not waited for.
_MOUNTS_WITHIN = 1.0


class MountOrder(msgspec.Struct, frozen=True):
    """A mount wanted on the agent's host."""

    point: str
    roots: list[str]
    settings: dict[str, str]


class FilesService:
    """Answers `refresh`, `broadcast`, `broadcasting`, `mount` and `mounted`."""

    name = "files"

    def __init__(self, core: _core.Agent, member: Member) -> None:
        self._core = core
        self._node = member.node
        self._directory = os.path.dirname(member.socket.removeprefix("unix:"))
        self._mounting: dict[str, str] = {}  # by mount point: how far it is

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method == "refresh":
            self._refresh(msgspec.msgpack.decode(message, type=Refresh))
            return b""
        if method == "broadcast":
            wanted = msgspec.msgpack.decode(message, type=Broadcast)
            self._core.warm_tree(wanted.root, wanted.root, wanted.settled_ns)
            return b""
        if method == "broadcasting":
            return msgspec.msgpack.encode(self._core.warmed_tree())
        if method == "mount":
            self._mount(msgspec.msgpack.decode(message, type=MountOrder))
            return b""
        if method == "mounted":
            return self._mounting.get(msgspec.msgpack.decode(message, type=str), "").encode()
        raise BadInput(f"files has no method {method!r}")

    def _refresh(self, told: Refresh) -> None:
        self._core.refresh_files(told.paths, told.number)
        if any(".mount-" in name for name in os.listdir(self._directory)):
            from . import mounting  # noqa: PLC0415 - takes long to import, and most have none

            mounting.refresh(self._directory, self._node, told.paths, _MOUNTS_WITHIN)

    def _mount(self, order: MountOrder) -> None:
        """Mount from a thread: the loop must not wait for it."""
        self._mounting[order.point] = ""

        def mount() -> None:
            from ..config import load  # noqa: PLC0415
            from . import mounting  # noqa: PLC0415

            parent, session = os.path.split(self._directory)
            own = {"session": session, "run_dir": parent, "node": self._node}
            try:
                config = load(arguments={**order.settings, **own}).config
                mounting.start(config, order.point, order.roots)
                self._mounting[order.point] = "mounted"
            except (HoldfastError, OSError) as error:
                self._mounting[order.point] = str(error)

        threading.Thread(target=mount, daemon=True).start()
