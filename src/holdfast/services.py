"""The services that every agent offers, their key spaces, and the process that runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent.node_driver import NodeDriver
    from .agent.service import Service
    from .agent.shell import Shell
    from .membership.key_spaces import KeySpace

#: Whose keys do not lie on the ring. Agents and clients compute owners alike, so that both take
#: them from here.
KEY_SPACES: tuple[KeySpace, ...] = ()


def offered(shell: Shell, driver: NodeDriver) -> Iterator[Service]:
    """Make the services; they are imported once the agent is ready."""
    from .agent.membership_service import MembershipService  # noqa: PLC0415
    from .agent.restoration_service import RestorationService  # noqa: PLC0415
    from .files.service import FilesService  # noqa: PLC0415
    from .space.service import SpaceService  # noqa: PLC0415

    yield MembershipService(driver)
    yield RestorationService(driver)
    yield FilesService(shell)
    yield SpaceService(driver)


def main() -> None:
    """Run an agent with all services until it is told to stop."""
    from .agent.main import run  # noqa: PLC0415 - clients read KEY_SPACES only

    run(offered, KEY_SPACES)
