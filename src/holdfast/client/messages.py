"""What clients and agents say to one another about the session."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..membership.view import Entry

T = TypeVar("T")


class ViewRequest(msgspec.Struct, frozen=True, array_like=True):
    """What a client knows already: the changes that this member counted when it last answered."""

    member: int = 0
    changes: int = 0


class ViewReply(msgspec.Struct, frozen=True, array_like=True):
    """An agent's view; no entries if the client knows them."""

    member: int
    changes: int
    entries: list[Entry] = []


class Doubt(msgspec.Struct, frozen=True, array_like=True):
    """A member failed a program that wanted an object or a file: which one, and how."""

    member: int
    about: str = ""
    cause: str = ""


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has to do with files of the shared file system."""

    files: int = 0  # that it holds
    bytes: int = 0
    local: int = 0  # reads served to programs of its node
    remote: int = 0  # reads served to other nodes
    from_storage: int = 0  # files read from the shared file system
    failures: int = 0  # of other nodes, when it asked them
    spilled: int = 0  # files that went to the disk tier, since memory had no room
    no_room: int = 0  # requests left to the shared file system, since neither tier had room


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent tells of itself, and what each of its services reports."""

    node: str
    number: int
    pid: int
    tiers: dict[str, dict[str, int]]
    counters: dict[str, int]  # of the agent itself
    services: dict[str, msgspec.Raw]

    def of(self, service: str, kind: type[T]) -> T:
        """Return what a service reports, as the kind that it is."""
        return msgspec.msgpack.decode(self.services[service], type=kind)

    def counted(self) -> dict[str, int]:
        """Return the counters of the agent and of all its services."""
        counted = dict(self.counters)
        for raw in self.services.values():
            told = msgspec.msgpack.decode(raw)
            if isinstance(told, dict):  # and no struct without names
                counted |= told.get("counters", {})
        return counted
