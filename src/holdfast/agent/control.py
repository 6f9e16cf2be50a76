"""The agent's own service: its status, its view, its end."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from .. import _core
from ..errors import BadInput
from ..membership.view import View


class AgentStatus(msgspec.Struct, frozen=True):
    """What `holdfast status` shows of one agent."""

    node: str
    number: int
    pid: int
    tiers: dict[str, dict[str, int]]
    counters: dict[str, int]


class Control:
    """Answers `status`, `view`, `set_view` and `stop`."""

    name = "agent"

    def __init__(self, node: str, number: int, core: _core.Agent, stop: Callable[[], None]) -> None:
        self._node = node
        self._number = number
        self._core = core
        self._stop = stop
        self.view = View()

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method == "status":
            return msgspec.msgpack.encode(self._status())
        if method == "view":
            return msgspec.msgpack.encode(self.view)
        if method == "set_view":
            self.view = msgspec.msgpack.decode(message, type=View)
            return b""
        if method == "stop":
            self._stop()
            return b""
        raise BadInput(f"the agent has no method {method!r}")

    def _status(self) -> AgentStatus:
        return AgentStatus(
            self._node, self._number, os.getpid(), self._core.tiers(), self._core.counters()
        )
