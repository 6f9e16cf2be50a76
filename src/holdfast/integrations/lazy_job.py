"""A connection that is made when it is needed, and again wherever it is carried."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

from ..files.files import Files
from ..files.policy import FilePolicy, OnFailure, Validate
from ..job import Job, connect

_ALL: weakref.WeakSet[LazyJob] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """Let go of all connections: libraries keep what they opened for longer than the core lives."""
    for one in list(_ALL):
        one._begin()


class LazyJob:
    """How to reach the files of a session; may be pickled, and used by threads and after fork.

    A forked child connects anew: a thread of its parent may have held a lock of the old one.
    """

    def __init__(
        self, copies: int, on_failure: OnFailure, validate: Validate, settings: dict[str, Any]
    ) -> None:
        FilePolicy(copies, on_failure, validate)  # refuses what is wrong now, not at the first file
        self._policy = (copies, on_failure, validate)
        self._settings = settings
        self._begin()

    def _begin(self) -> None:
        _ALL.add(self)
        self._pid = os.getpid()
        self._job: Job | None = None
        self._files: dict[str, Files] = {}

    def files(self, root: str) -> Files:
        """Return the files below a root."""
        if self._pid != os.getpid():
            self._begin()
        # Two threads may both make one, of which one is kept; no lock can be left behind by a fork.
        found = self._files.get(root)
        if found is None:
            if self._job is None:
                self._job = connect(**self._settings)
            found = self._files.setdefault(root, self._job.files(root, *self._policy))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"_policy": self._policy, "_settings": self._settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()
