"""The service `restoring`: it answers other members, and tells how far restoring is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from ..errors import BadInput
from ..restoration.messages import Request
from ..restoration.restorer import RestoreStatus
from .metrics import Family, families
from .node_driver import NodeDriver

_REQUEST = msgspec.msgpack.Decoder(Request)


class RestorationService:
    """Answers `ask`."""

    name = "restoring"

    def __init__(self, driver: NodeDriver) -> None:
        self._driver = driver

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer another member's restoring."""
        if method != "ask":
            raise BadInput(f"restoring has no method {method!r}")
        return msgspec.msgpack.encode(self._driver.answer(_REQUEST.decode(message)))

    def status(self) -> RestoreStatus:
        """Tell how far restoring is."""
        return self._driver.machine.restore_status(time.monotonic())

    def metrics(self) -> Iterator[Family]:
        """Tell the same in numbers."""
        growing = ("restored", "restored_bytes", "trimmed")
        return (
            family
            for family in families("restoring_", self.status(), counters=growing)
            if family.name != "restoring_set_aside"  # counted among the conflicts
        )
