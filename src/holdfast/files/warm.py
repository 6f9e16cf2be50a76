"""Prefetch: filling the cache ahead of the first epoch, all files, many at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import msgspec

#: Between two reports of progress, in seconds.
_REPORT_EVERY = 0.1
#: How many files are under way for each thread, so that none waits for the list.
_AHEAD = 4


class Warmed(msgspec.Struct):
    """How far a warming came."""

    total: int = 0  # files that there are
    files: int = 0  # looked at so far
    cached: int = 0  # kept by their owners now
    bytes: int = 0  # of those
    left_out: int = 0  # too large, too young, unreadable, not regular, no room, or no agent took it


def warm(
    names: Sequence[str],
    one: Callable[[str], int],
    parallel: int,
    progress: Callable[[Warmed], None] | None,
) -> Warmed:
    """Warm each of `names`; `one` gives the bytes that are cached then, or -1."""
    total = Warmed(len(names))
    reported = 0.0
    with ThreadPoolExecutor(max(1, parallel), "holdfast-warm") as pool:
        running: set[Future[int]] = set()

        def settle() -> None:
            nonlocal running, reported
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                size = future.result()
                total.files += 1
                if size < 0:
                    total.left_out += 1
                else:
                    total.cached += 1
                    total.bytes += size
            if progress is not None and time.monotonic() >= reported + _REPORT_EVERY:
                reported = time.monotonic()
                progress(total)

        try:
            for name in names:
                running.add(pool.submit(one, name))
                while len(running) >= _AHEAD * parallel:
                    settle()
            while running:
                settle()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if progress is not None:
        progress(total)
    return total
