"""Notices that the session's directory is gone: without it nobody can reach an agent, or end it.

The system removes `/run/user/UID` with a user's last login, and old files below `/tmp`.
"""

from __future__ import annotations

import os
import threading
import time

from ..cluster import session as sessions

#: How often it looks, in seconds, and how often in a row it must find nothing.
_LOOK_EVERY, _TIMES = 2.0, 3


class SessionWatch:
    """Makes `descriptor` readable once the session is gone.

    It looks from a thread: the file system may hang, and the agent must not.
    """

    def __init__(self, directory: str, key: bytes) -> None:
        self._directory = directory
        self._key = key
        self.descriptor, self._write = os.pipe()
        threading.Thread(target=self._run, daemon=True, name="session").start()

    def _run(self) -> None:
        missed = 0
        while missed < _TIMES:
            time.sleep(_LOOK_EVERY)
            missed = 0 if sessions.may_be_there(self._directory, self._key) else missed + 1
        os.write(self._write, b"x")
