"""The agent's own service: its status, its story, its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from ..client.fault_points import FaultPoint
from ..client.messages import AgentStatus
from ..errors import BadInput, HoldfastError
from . import metrics
from .metrics import Family
from .services import Services
from .shell import Shell

_decode = msgspec.msgpack.decode
_encode = msgspec.msgpack.encode
#: How many bytes of a log are told.
_LOG_BYTES = 8 << 20
#: Counters of the core that may also fall: gauges in the words of OpenMetrics.
_GAUGES = {"connections", "notice_bytes", "notices"}
_OF_TIERS = ("objects", "bytes", "occupied", "reserved", "capacity", "condemned")


class Control:
    """Answers `status`, `metrics`, `events`, `log`, `arm` and `stop`."""

    name = "agent"

    def __init__(
        self, shell: Shell, services: Services, log: str, stop: Callable[[], None]
    ) -> None:
        self._shell = shell
        self._core = shell.core
        self._services = services
        self._log = log
        self._stop = stop

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        reply = b""
        if method == "status":
            reply = _encode(self.agent_status())
        elif method == "metrics":
            reply = self.agent_metrics().encode()
        elif method == "events":
            self._shell.take_events()  # who asks wants what has just happened to it
            reply = _encode(self._shell.story.about(*_decode(message, type=list[str])))
        elif method == "log":
            reply = _end_of(self._log)
        elif method == "arm":  # to be killed or stopped in the middle of an operation
            fault = _decode(message, type=FaultPoint)
            self._core.arm(fault.stage, fault.action, fault.after)
        elif method == "stop":
            self._stop()
        else:
            raise BadInput(f"the agent has no method {method!r}")
        return reply

    def agent_status(self) -> AgentStatus:
        """Tell all that is shown of this agent."""
        member = self._shell.member
        return AgentStatus(
            node=member.node,
            number=member.number,
            pid=os.getpid(),
            tiers=self._core.tiers(),
            counters=self._counters(),
            services={
                name: msgspec.Raw(_encode(status))
                for name, status in self._services.statuses().items()
            },
        )

    def agent_metrics(self) -> str:
        """Tell the same as OpenMetrics."""
        return metrics.render(self._shell.member.node, [*self._own(), *self._services.metrics()])

    def _own(self) -> Iterator[Family]:
        for name, value in self._counters().items():
            yield Family(name, "gauge" if name in _GAUGES else "counter", value)
        tiers = self._core.tiers()
        for name in _OF_TIERS:
            values = {tier: usage[name] for tier, usage in tiers.items()}
            yield Family(f"tier_{name}", "gauge", values, "tier")

    def _counters(self) -> dict[str, int]:
        return self._core.counters() | self._shell.trouble.counters


def _end_of(log: str) -> bytes:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return file.read()
    except OSError as error:
        raise HoldfastError(f"{log} cannot be read: {error.strerror}") from None
