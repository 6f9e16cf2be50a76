"""What a service of an agent is: one name with methods, and what more it may be able to do.

`Service` is all that is needed. Each of the other protocols is a power of its own; an agent looks
for it when the service is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from ..config import Config
from ..membership.owners import Owners
from ..membership.view import Member
from .metrics import Family
from .parked import Parked


class Service(Protocol):
    """Answers the control calls under one name."""

    name: str

    def handle(self, method: str, message: bytes) -> bytes | Parked:
        """Answer one call, at once or later; raise a HoldfastError to refuse it."""
        ...


@runtime_checkable
class Configured(Protocol):
    """Has settings."""

    def configure(self, config: Config) -> None:
        """Take them: once, when the service is added, before anything else is asked of it."""
        ...


@runtime_checkable
class Ticking(Protocol):
    """Has something to do now and then."""

    #: When, by `time.monotonic`.
    due: float

    def tick(self, now: float) -> None:
        """Do what is due, and set `due` anew."""
        ...


@runtime_checkable
class Viewing(Protocol):
    """Is told when other members own objects."""

    def viewed(self, owners: Owners, live: Sequence[Member], lost: Sequence[Member]) -> None:
        """Take note of who owns what, of who lives and of who was lost; spares too."""
        ...


@runtime_checkable
class Returning(Protocol):
    """Is told that this node was away."""

    def was_away(self) -> None:
        """Others took us for dead, and told us nothing meanwhile: revalidate what they change."""
        ...


@runtime_checkable
class Reporting(Protocol):
    """Has a part of its own in the agent's status and metrics."""

    def status(self) -> msgspec.Struct:
        """Tell how things are; `holdfast status --json` shows it under the service's name.

        What a field `counters` of it has is among the counters of the node there.
        """
        ...

    def metrics(self) -> Iterable[Family]:
        """Tell the same in OpenMetrics; agent.metrics.families() makes them of a status."""
        ...
