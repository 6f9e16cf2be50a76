"""The agent's service `faults`: to be killed or stopped in the middle of an operation."""

from __future__ import annotations

import msgspec

from .. import _core
from ..client.fault_points import Arm
from ..errors import BadInput


class FaultPoints:
    """Answers `arm`; who holds the job key may end an agent anyway."""

    name = "faults"

    def __init__(self, core: _core.Agent) -> None:
        self._core = core

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method != "arm":
            raise BadInput(f"faults has no method {method!r}")
        wanted = msgspec.msgpack.decode(message, type=Arm)
        self._core.arm(wanted.stage, wanted.action, wanted.after)
        return b""
