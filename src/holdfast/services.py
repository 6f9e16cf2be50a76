"""The services that every agent offers, and the process that runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .agent.main import run

if TYPE_CHECKING:
    from .agent.service import Service
    from .agent.shell import Shell


def offered(shell: Shell) -> Iterator[Service]:
    """Make the services that lie above the agent; they are imported once it is ready."""
    from .files.service import FilesService  # noqa: PLC0415

    yield FilesService(shell)


def main() -> None:
    """Run an agent with all services until it is told to stop."""
    run(offered)
