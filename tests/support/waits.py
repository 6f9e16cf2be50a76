"""Waiting for what others do, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Against hangs; nothing that is waited for takes a tenth of it on an idle machine.
WITHIN = 60.0


def wait_for(
    condition: Callable[[], object], what: str | Callable[[], str] = "it did not happen"
) -> None:
    """Wait until a condition holds; a TimeoutError says what was to be, or what is instead."""
    end = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > end:
            said = what if isinstance(what, str) else what()
            raise TimeoutError(f"{said} (waited {WITHIN:g} s)")
        time.sleep(0.01)
