"""What an agent does for files beside reading them: it forgets what it knows when told to."""

from __future__ import annotations

import msgspec

from .. import _core
from ..errors import BadInput
from .broadcasting import Broadcast
from .refreshing import Refresh


class FilesService:
    """Answers `refresh`, `broadcast` and `broadcasting`."""

    name = "files"

    def __init__(self, core: _core.Agent) -> None:
        self._core = core

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method == "broadcast":
            wanted = msgspec.msgpack.decode(message, type=Broadcast)
            self._core.warm_tree(wanted.root, wanted.root, wanted.largest, wanted.settled_ns)
            return b""
        if method == "broadcasting":
            return msgspec.msgpack.encode(self._core.warmed_tree())
        if method != "refresh":
            raise BadInput(f"files has no method {method!r}")
        told = msgspec.msgpack.decode(message, type=Refresh)
        self._core.refresh_files(told.paths, told.number)
        return b""
