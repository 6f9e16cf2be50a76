"""Mounts of storages, as the kernel has them; each names the process that serves it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from pathlib import Path

_TYPE = "fuse.holdfast-storage"
#: Of the names of mount points that were made for one storage and mean nothing without it.
PREFIX = "holdfast-storage-"
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def existing() -> list[tuple[Path, int]]:
    """List the storages mounted here: where, and by which process."""
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        before, _, after = line.partition(b" - ")
        kind, source, *_ = after.split(b" ")
        if kind == _TYPE.encode() and source.isdigit():
            # The kernel writes blanks and the like as octal numbers.
            point = re.sub(
                rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), before.split()[4]
            )
            found.append((Path(os.fsdecode(point)), int(source)))
    return found


def remove_stale() -> None:
    """Remove mounts whose process has ended, which only give errors."""
    for pid in {pid for _, pid in existing() if not _serves(pid)}:
        remove_of(pid)


def remove_of(pid: int) -> None:
    """Remove the mounts of a process; never waits for it."""
    libc = ctypes.CDLL(None)
    for point, owner in reversed(existing()):  # the last lies on top
        if owner == pid:
            libc.umount2(os.fsencode(point), _MNT_DETACH | _UMOUNT_NOFOLLOW)
            if point.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    point.rmdir()


def _serves(pid: int) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("counting_storage")
    except OSError:
        return False
