"""Keeps the session's directory, and notices that it is gone: then nobody can reach an agent.

The system removes `/run/user/UID` with a user's last login. What is old below `/tmp` it removes,
too, on all nodes on the same day, so nothing of a session that lives may look old.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

from ..session import session as sessions

#: How often it looks, in seconds, and how often in a row it must find nothing.
_LOOK_EVERY, _TIMES = 2.0, 3
#: Seconds after which files are made to look new again; cleaners have days.
_OLD = 3600.0


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
            if not missed:
                with contextlib.suppress(OSError):
                    self._renew()
        os.write(self._write, b"x")

    def _renew(self) -> None:
        if time.time() - os.stat(os.path.join(self._directory, sessions.SESSION)).st_mtime < _OLD:
            return
        for entry in os.scandir(self._directory):
            if not entry.is_dir(follow_symlinks=False):  # on which something may be mounted
                with contextlib.suppress(OSError):
                    os.utime(entry.path, follow_symlinks=False)
