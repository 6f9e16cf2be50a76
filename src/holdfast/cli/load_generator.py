"""A small client that puts, gets and drops while something is being broken, and keeps count."""

from __future__ import annotations

import contextlib
import itertools
import random
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import HoldfastError
from ..job import Job

if TYPE_CHECKING:
    from typing_extensions import Self

_SIZES = (100, 10_000, 300_000)
#: How many objects are kept, so that a long drill does not fill the tiers.
_KEEP = 16
_AGAIN_AFTER = 0.05
#: Between rounds of requests: what is dropped is remembered as long as the session lives.
_PAUSE = 0.01


class Requests(msgspec.Struct):
    """What came of the client's requests."""

    made: int = 0
    failed: int = 0
    slowest: float = 0.0  # seconds
    wrong: int = 0  # answers with other bytes than were put
    missing: int = 0  # acknowledged objects that were not found at the end


class LoadGenerator:
    """The client, in a thread of its own during a `with` block; it removes what it stored."""

    def __init__(self, job: Job, copies: int) -> None:
        self.requests = Requests()
        self._job = job
        self._copies = copies
        self._prefix = f"drill/{secrets.token_hex(4)}/"
        self._kept: dict[str, bytes] = {}  # what was acknowledged
        self._undropped: list[str] = []
        self._over = threading.Event()
        self._rng = random.Random(self._prefix)
        self._thread = threading.Thread(target=self._run, name="probing")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self, within: float) -> None:
        """Read all that was acknowledged once more, and drop it; call it after the block."""
        end = time.monotonic() + within
        for key, data in self._kept.items():
            while not self._get(key, data):
                if time.monotonic() > end:
                    self.requests.missing += 1
                    break
                time.sleep(_AGAIN_AFTER)
        left = [*self._kept, *self._undropped]
        with ThreadPoolExecutor(len(left) or 1) as pool:  # each may have to wait for an agent
            list(pool.map(self._forget, left))
        self._job.close()

    def _run(self) -> None:
        for number in itertools.count():
            if self._over.wait(_PAUSE):
                return
            key = f"{self._prefix}{number}"
            data = self._rng.randbytes(self._rng.choice(_SIZES))
            if self._ask(self._job.objects.put, key, data, copies=self._copies)[0]:
                self._kept[key] = data
            for known in self._rng.sample(list(self._kept), min(2, len(self._kept))):
                self._get(known, self._kept[known])
            if len(self._kept) > _KEEP:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                if not self._ask(self._job.objects.drop, oldest)[0]:
                    self._undropped.append(oldest)

    def _forget(self, key: str) -> None:
        with contextlib.suppress(HoldfastError):
            self._job.objects.drop(key)

    def _get(self, key: str, data: bytes) -> bool:
        answered, found = self._ask(self._job.objects.get, key)
        if answered and found != data:
            self.requests.wrong += 1
        return answered

    def _ask(
        self, request: Callable[..., Any], *arguments: Any, **options: Any
    ) -> tuple[bool, Any]:
        """Make a request; tells whether it succeeded, and the answer."""
        self.requests.made += 1
        start = time.monotonic()
        try:
            return True, request(*arguments, **options)
        except HoldfastError:
            self.requests.failed += 1
            return False, None
        finally:
            self.requests.slowest = max(self.requests.slowest, time.monotonic() - start)
