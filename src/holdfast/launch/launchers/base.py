"""What a launcher is: it finds where agents belong, and starts them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ...config import Config
from ...session.node import Orders
from ..starter import Started

Environment = Mapping[str, str]


class Found(msgspec.Struct, frozen=True):
    """What a launcher has found, and how it knows."""

    what: str
    why: str


class Launcher(Protocol):
    """One way to start agents; made only where `detect` has found something, or by request."""

    name: str
    needs: str  # what must be there, for one who asks for it elsewhere
    here: bool  # whether all agents are on this host
    leads: bool  # or only helps another process that does the same: then there is help()

    def __init__(self, config: Config, environment: Environment) -> None: ...

    @staticmethod
    def detect(config: Config, environment: Environment) -> Found | None:
        """Return what is there for this launcher."""
        ...

    def nodes(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes that should have an agent; `known` are those of a session that runs."""
        ...

    def start(self, orders: Orders, nodes: Sequence[str], log: Path) -> Started:
        """Start the agents of these nodes, all at once."""
        ...

    def help(self) -> None:
        """Do what the process that leads decides."""
        ...

    def cancel(self) -> None:
        """Let helpers go if nothing was started."""
        ...


class Alone:
    """A launcher that needs no other process to do the same."""

    leads = True

    def help(self) -> None:
        """Nobody leads us."""

    def cancel(self) -> None:
        """Nobody waits for us."""
