"""Whom to leave alone for a while: pure bookkeeping, the caller brings the clock."""

from __future__ import annotations


class Avoided:
    """Members, by number, that failed a request lately.

    Avoiding is not believing dead: it is one caller's patience with one member, and it ends. Who is
    started anew on the same node is another member and does not answer for the one before.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[int, float] = {}

    def add(self, member: int, now: float) -> None:
        """Avoid `member` from `now` on."""
        self._until[member] = now + self._seconds

    def remove(self, member: int) -> None:
        """Trust `member` again: it has spoken for itself."""
        self._until.pop(member, None)

    def __contains__(self, item: tuple[int, float]) -> bool:
        member, now = item
        until = self._until.get(member)
        if until is None:
            return False
        if now >= until:
            self._until.pop(member, None)  # another thread may have been first
            return False
        return True

    def __bool__(self) -> bool:
        return bool(self._until)
