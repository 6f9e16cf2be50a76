"""Rule 10: when more than a third of the nodes vanish at once, restoring waits.

So many do not die in one moment; more likely the network is cut and they go on on their side.
Copying what they hold would fill our memory with what comes back when the cut is mended.
"""

from __future__ import annotations


class PartitionWait:
    """Watches who vanishes; `seconds` is how long restoring waits for them.

    Deaths that follow one another within `at_once` count as one event. A cut is noticed by
    everybody within a few periods; who dies later dies by itself.
    """

    def __init__(self, seconds: float, at_once: float) -> None:
        self._seconds = seconds
        self._at_once = min(at_once, seconds)
        self._live: frozenset[str] = frozenset()
        self._vanished: dict[str, float] = {}
        self._until = 0.0

    def viewed(self, live: frozenset[str], now: float) -> None:
        """Take note of the nodes that live now."""
        if not self.left(now):  # while it waits, those it waits for are not forgotten
            old = now - self._at_once
            self._vanished = {n: since for n, since in self._vanished.items() if since > old}
        self._vanished |= dict.fromkeys(self._live - live, now)
        self._vanished = {n: since for n, since in self._vanished.items() if n not in live}
        self._live = live
        if 3 * len(self._vanished) <= len(live) + len(self._vanished):
            self._until = 0.0
        elif not self.left(now):
            self._until = now + self._seconds

    def left(self, now: float) -> float:
        """Return how long restoring still waits."""
        return max(0.0, self._until - now)
