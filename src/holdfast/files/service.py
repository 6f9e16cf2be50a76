"""What an agent does for files when told to: it looks again, fetches whole directories, mounts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from .. import _core
from ..config import Config
from ..errors import BadInput
from .broadcasting import Broadcast
from .refreshing import MOUNTS_WITHIN, Refresh

if TYPE_CHECKING:
    from ..agent.services import Later
    from ..membership.view import Member


class MountOrder(msgspec.Struct, frozen=True):
    """A mount wanted on the agent's host."""

    point: str
    roots: list[str]
    config: Config  # of the command that wants it


class FilesService:
    """Answers `refresh`, `broadcast`, `broadcasting` and `mount`."""

    name = "files"

    def __init__(self, core: _core.Agent, member: Member) -> None:
        self._core = core
        self._node = member.node
        self._directory = os.path.dirname(member.socket.removeprefix("unix:"))

    def handle(self, method: str, message: bytes) -> bytes | Later:
        """Answer one call."""
        if method == "refresh":
            return self._refresh(msgspec.msgpack.decode(message, type=Refresh))
        if method == "broadcast":
            wanted = msgspec.msgpack.decode(message, type=Broadcast)
            self._core.warm_tree(wanted.root, wanted.root, wanted.settled_ns)
            return b""
        if method == "broadcasting":
            return msgspec.msgpack.encode(self._core.warmed_tree())
        if method == "mount":
            order = msgspec.msgpack.decode(message, type=MountOrder)
            return lambda: self._mount(order)
        raise BadInput(f"files has no method {method!r}")

    def _refresh(self, told: Refresh) -> bytes | Later:
        """Look again; the answer names the mounts that did not."""
        self._core.refresh_files(told.paths, told.number)
        if not any(".mount-" in name for name in os.listdir(self._directory)):
            return msgspec.msgpack.encode([])

        def mounts() -> bytes:
            from . import mounting  # noqa: PLC0415 - takes long to import, and most have none

            return msgspec.msgpack.encode(
                mounting.refresh(self._directory, self._node, told.paths, MOUNTS_WITHIN)
            )

        return mounts

    def _mount(self, order: MountOrder) -> bytes:
        from . import mounting  # noqa: PLC0415

        parent, session = os.path.split(self._directory)
        config = replace(order.config, session=session, run_dir=parent, node=self._node)
        mounting.ensure(config, order.point, order.roots)
        return b""
