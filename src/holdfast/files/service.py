"""What an agent does for files beside reading them: it forgets what it knows when told to."""

from __future__ import annotations

import msgspec

from .. import _core
from ..errors import BadInput
from .refreshing import Refresh


class FilesService:
    """Answers `refresh`."""

    name = "files"

    def __init__(self, core: _core.Agent) -> None:
        self._core = core

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method != "refresh":
            raise BadInput(f"files has no method {method!r}")
        told = msgspec.msgpack.decode(message, type=Refresh)
        self._core.refresh_files(told.paths, told.number)
        return b""
