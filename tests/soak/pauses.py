"""Pauses of the machine, as a thread meets them that sleeps for a moment at a time."""

from __future__ import annotations

import threading
import time

_MOMENT = 0.001
#: Shorter ones are what any busy machine has.
_LEAST = 0.05


class Pauses:
    """Records, within a `with` block, when this process did not run although it wanted to."""

    def __init__(self) -> None:
        self._found: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def between(self, begin: float, end: float) -> float:
        """Return for how long the machine stood still between two times of time.time()."""
        overlaps = (min(last, end) - max(first, begin) for first, last in self._found)
        return sum(overlap for overlap in overlaps if overlap > 0)

    def _watch(self) -> None:
        before = time.time()
        while not self._over.is_set():
            time.sleep(_MOMENT)
            now = time.time()
            if now - before > _LEAST:
                self._found.append((before, now))
            before = now

    def __enter__(self) -> Pauses:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
