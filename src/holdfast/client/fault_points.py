"""Asking an agent to die or to stop in the middle of an operation."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .._core import AgentClient

Stage = Literal[
    "put",
    "chain",
    "get",
    "pull",
    "restore",
    "trim",
    "drop",
    "fill",
    "fetch",
    "evict",
    "hand",
    "seal",
]
Action = Literal["kill", "stop", "nothing"]

#: What an agent may be doing when a fault goes off; native/base/fault.hpp says when exactly.
OF_OBJECTS: tuple[Stage, ...] = ("put", "chain", "get", "pull", "restore", "trim", "drop")
OF_FILES: tuple[Stage, ...] = ("fill", "fetch", "evict")
#: Of large puts by programs of its node.
OF_HANDING: tuple[Stage, ...] = ("hand", "seal")
STAGES = OF_OBJECTS + OF_FILES + OF_HANDING


class FaultPoint(msgspec.Struct, frozen=True):
    """Where a fault goes off, and which: the message of the service `agent`, method `arm`."""

    stage: str
    action: str
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 1


def arm(client: AgentClient, socket: str, wanted: FaultPoint, deadline: float) -> None:
    """Arm a fault in the agent behind `socket`."""
    client.call(socket, "agent", "arm", msgspec.msgpack.encode(wanted), deadline=deadline)
