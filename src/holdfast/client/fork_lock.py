"""Locks that a forked child finds free.

A lock that another thread holds at a fork is never released in the child. So a fork waits until it
has all of them, and what they guard is whole in the child too. Nobody may hold two of them.
"""

from __future__ import annotations

import os
import threading
import weakref

Lock = threading.RLock  # a signal handler may fork while its own thread holds one

_made = Lock()  # guards the two below
_all: weakref.WeakSet[threading.RLock] = weakref.WeakSet()
_taken: list[threading.RLock] = []


def fork_lock() -> threading.RLock:
    """Return a lock for short work that waits for nothing."""
    lock = Lock()
    with _made:
        _all.add(lock)
    return lock


def _take_all() -> None:
    _made.acquire()
    for lock in list(_all):
        lock.acquire()
        _taken.append(lock)


def _release_all() -> None:
    while _taken:
        _taken.pop().release()
    _made.release()


os.register_at_fork(before=_take_all, after_in_parent=_release_all, after_in_child=_release_all)
