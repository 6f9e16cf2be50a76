"""A simulated network that knows on which node a process runs."""

from __future__ import annotations

from .network import Network


class Wire(Network):
    """Addresses are `node/process`; cuts are between nodes, and nothing is lost within one."""

    def is_lost(self, source: str, target: str) -> bool:
        """Decide whether a message between two addresses is lost."""
        here, _, _ = source.partition("/")
        there, _, _ = target.partition("/")
        return here != there and super().is_lost(here, there)

    def reaches(self, source: str, target: str) -> bool:
        """Whether messages may pass from one node to another and back."""
        return (source, target) not in self._cuts and (target, source) not in self._cuts
