"""What goes wrong in an agent without ending it: counted, and told in its log."""

from __future__ import annotations

import os
import time

from .. import _core

#: Between two lines about the same kind of trouble, in seconds: who sends nonsense sends much.
_LINE_EVERY = 1.0
#: Of what a line tells.
_LONGEST = 300


class Trouble:
    """Counts messages that could not be read and work that failed for no reason we know of."""

    def __init__(self) -> None:
        self.counters = {"ill_formed": 0, "failures": 0}
        self._told: dict[str, tuple[float, int]] = {}  # when, and how many were counted by then

    def ill_formed(self, what: str, error: Exception) -> None:
        """Note a message that could not be read."""
        self._note(
            "ill_formed",
            f"cannot decode {what} ({error}); the sender may run another version of Holdfast",
        )

    def failure(self, what: str, error: Exception) -> None:
        """Note an error that nobody expected; the log says where it was raised."""
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = at and f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}"
        self._note("failures", f"{what} failed at {place}: {error!r}")

    def _note(self, kind: str, text: str) -> None:
        self.counters[kind] += 1
        count = self.counters[kind]
        now = time.monotonic()
        when, told = self._told.get(kind, (-_LINE_EVERY, 0))
        if now - when < _LINE_EVERY:
            return
        self._told[kind] = now, count
        more = f" ({count - told - 1} similar before)" if count - told > 1 else ""
        _core.log_warning(text[:_LONGEST] + more)
