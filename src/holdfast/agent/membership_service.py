"""The service `membership`: views, those who join, and members that failed somebody."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import msgspec

from ..client.messages import Doubt, ViewReply, ViewRequest
from ..config import Config
from ..errors import BadInput
from ..membership import view
from ..membership.view import MembershipStatus
from .metrics import Family
from .node_driver import NodeDriver


class MembershipService:
    """Answers `view`, `join` and `doubt`; its ticks are those of the whole node."""

    name = "membership"

    def __init__(self, driver: NodeDriver) -> None:
        self._driver = driver
        self._machine = driver.machine
        self._period = 0.0
        self.due = 0.0

    def configure(self, config: Config) -> None:
        """Begin to tick."""
        self._period = config.probe_period
        # Not all at the same moment, although they were all started at once.
        self.due = time.monotonic() + random.random() * self._period

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        if method == "view":
            return msgspec.msgpack.encode(
                self._view(msgspec.msgpack.decode(message, type=ViewRequest))
            )
        if method == "join":
            self._driver.join(view.read(message))
            return self._machine.view.encode()
        if method == "doubt":
            doubt = msgspec.msgpack.decode(message, type=Doubt)
            self._driver.doubt(doubt.member, doubt.about, doubt.cause)
            return b""
        raise BadInput(f"membership has no method {method!r}")

    def _view(self, known: ViewRequest) -> ViewReply:
        number, changes = self._machine.member.number, self._machine.changes
        same = known == ViewRequest(number, changes)
        return ViewReply(number, changes, [] if same else self._machine.view.entries())

    def tick(self, now: float) -> None:
        """Begin a period."""
        late, self.due = now - self.due, now + self._period
        self._driver.tick(late)

    def status(self) -> MembershipStatus:
        """Tell what this member believes."""
        machine = self._machine
        return MembershipStatus(
            identity=machine.view.identity,
            members=machine.view.states(),
            incarnation=machine.incarnation,
            detection=machine.swim.detection(),
        )

    def metrics(self) -> Iterator[Family]:
        """Tell the same in numbers."""
        status = self.status()
        yield Family("members", "gauge", status.members, "state")
        yield Family("role", "gauge", {self._machine.member.role: 1}, "role")
        yield Family("incarnation", "gauge", status.incarnation)
        yield Family("detection_seconds", "gauge", status.detection)
