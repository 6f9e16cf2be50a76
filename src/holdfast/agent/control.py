"""The agent's own service: its status, its view, its end."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from .. import _core
from ..client.messages import AgentStatus, Doubt, FileStatus, ViewReply, ViewRequest
from ..errors import BadInput, HoldfastError
from ..membership import view
from .members import Members
from .story import Story

_decode = msgspec.msgpack.decode
_encode = msgspec.msgpack.encode
#: Of a log, so many bytes are told.
_LOG_BYTES = 8 << 20


class Control:
    """Answers `status`, `view`, `join`, `doubt`, `events`, `log` and `stop`."""

    name = "agent"

    def __init__(
        self,
        core: _core.Agent,
        members: Members,
        story: Story,
        log: str,
        stop: Callable[[], None],
    ) -> None:
        self._core = core
        self._members = members
        self._story = story
        self._log = log
        self._stop = stop

    def handle(self, method: str, message: bytes) -> bytes:
        """Answer one call."""
        reply = b""
        if method == "status":
            reply = _encode(self.status())
        elif method == "view":
            reply = _encode(self._view(_decode(message, type=ViewRequest)))
        elif method == "join":
            self._members.join(view.read(message))
            reply = self._members.view.encode()
        elif method == "doubt":
            doubt = _decode(message, type=Doubt)
            self._members.doubt(doubt.member, doubt.about, doubt.cause)
        elif method == "events":
            reply = _encode(self._story.about(*_decode(message, type=list[str])))
        elif method == "log":
            reply = _end_of(self._log)
        elif method == "stop":
            self._stop()
        else:
            raise BadInput(f"the agent has no method {method!r}")
        return reply

    def _view(self, known: ViewRequest) -> ViewReply:
        number, changes = self._members.me.number, self._members.changes
        same = known == ViewRequest(number, changes)
        return ViewReply(number, changes, [] if same else self._members.view.entries())

    def status(self) -> AgentStatus:
        """Tell all that is shown of this agent."""
        members = self._members
        return AgentStatus(
            members.me.node,
            members.me.number,
            os.getpid(),
            self._core.tiers(),
            self._core.counters() | members.trouble.counters,
            members.restore_status(),
            members.view.identity,
            members.detection(),
            members.settings.restore_rate,
            FileStatus(*self._core.files()),
            members.view.states(),
            members.incarnation,
        )


def _end_of(log: str) -> bytes:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return file.read()
    except OSError as error:
        raise HoldfastError(f"{log} cannot be read: {error.strerror}") from None
