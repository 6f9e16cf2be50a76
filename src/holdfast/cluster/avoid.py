"""Whom to leave alone for a while: pure bookkeeping, the caller brings the clock."""

from __future__ import annotations


class Avoided:
    """Nodes that failed a request lately.

    Avoiding is not believing dead: it is one caller's patience with one node, and it ends.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, float] = {}

    def add(self, node: str, now: float) -> None:
        """Avoid `node` from `now` on."""
        self._until[node] = now + self._seconds

    def remove(self, node: str) -> None:
        """Trust `node` again: it has just answered, or is a new member."""
        self._until.pop(node, None)

    def __contains__(self, item: tuple[str, float]) -> bool:
        node, now = item
        until = self._until.get(node)
        if until is None:
            return False
        if now >= until:
            self._until.pop(node, None)  # another thread may have been first
            return False
        return True

    def __bool__(self) -> bool:
        return bool(self._until)
