"""What an agent does for spaces: it learns in which rosters they lie."""

from __future__ import annotations

import msgspec

from ..agent.node_driver import NodeDriver
from ..errors import BadInput
from ..placement.windows import Roster

_ROSTERS = msgspec.msgpack.Decoder(list[bytes])


class SpaceService:
    """Answers `learn`."""

    name = "space"

    def __init__(self, driver: NodeDriver) -> None:
        self._driver = driver

    def handle(self, method: str, message: bytes) -> bytes:
        """Learn rosters of a client: what lies in them is placed before it hears of it."""
        if method != "learn":
            raise BadInput(f"space has no method {method!r}")
        self._driver.learn([Roster.decode(text) for text in _ROSTERS.decode(message)])
        return b""
