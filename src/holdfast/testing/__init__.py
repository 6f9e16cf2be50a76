"""Agents to break on purpose: local clusters, fault plans, and a file system that counts.

Public, for the tests of programs that use Holdfast; docs/reference/testing.md tells how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..launch.networks import Networks
    from .countfs import CountingFS
    from .faults import Faults
    from .injector import inject

__all__ = ["CountingFS", "Faults", "Networks", "inject"]


def __getattr__(name: str) -> Any:
    """Import the names on first use: `import holdfast` passes through here and needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
    from ..launch.networks import Networks  # noqa: PLC0415
    from .countfs import CountingFS  # noqa: PLC0415
    from .faults import Faults  # noqa: PLC0415
    from .injector import inject  # noqa: PLC0415

    offered = {"CountingFS": CountingFS, "Faults": Faults, "Networks": Networks, "inject": inject}
    return offered[name]
