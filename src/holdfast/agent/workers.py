"""Threads of an agent for what takes long, since its loop must not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock, Thread

from ..errors import HoldfastError
from .parked import Parked
from .trouble import Trouble

#: So many at once: what hangs may hang for ever, and the rest waits for its turn.
_MOST = 64


class Workers:
    """Threads that are started when there is work and end when there is none. Thread-safe."""

    def __init__(self, trouble: Trouble, most: int = _MOST) -> None:
        self._trouble = trouble
        self._most = most
        self._lock = Lock()
        self._threads = 0
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()

    def answer(
        self, what: str, work: Callable[[], bytes], *, only_for_caller: bool = False
    ) -> Parked:
        """Return a call that is answered by what `work` returns, or refused by what it raises.

        What is done `only_for_caller` is not begun once that one has gone.
        """
        parked = Parked()

        def end() -> None:
            if only_for_caller and parked.cancelled:
                return
            try:
                parked.answer(work())
            except HoldfastError as error:
                parked.fail(error)
            except Exception as error:
                parked.fail(HoldfastError(f"{what} failed: {error!r}"))
                raise

        self.run(what, end)
        return parked

    def run(self, what: str, work: Callable[[], object]) -> None:
        """Let a thread do `work`; an error that nobody expected is told in the log.

        Raises RuntimeError if there is no thread, and none can be started.
        """
        with self._lock:
            if self._threads < self._most:
                self._start_thread()
            self._waiting.append((what, work))

    def _start_thread(self) -> None:
        try:
            Thread(target=self._work, daemon=True).start()
            self._threads += 1
        except RuntimeError:
            if self._threads == 0:  # else one of those comes to it
                raise

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                what, work = self._waiting.popleft()
            try:
                work()
            except Exception as error:
                self._trouble.failure(what, error)
