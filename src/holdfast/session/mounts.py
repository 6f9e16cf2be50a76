"""Mounts as the kernel has them; those of storages name the process that serves them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

#: Of `holdfast mount`.
TYPE = "fuse.holdfast"
_TYPE = "fuse.holdfast-storage"
#: Of the names of mount points that were made for one storage and mean nothing without it.
PREFIX = "holdfast-storage-"
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_UNMOUNT_WITHIN = 10.0


class Mounted(NamedTuple):
    """A line of the kernel's table of mounts."""

    point: Path
    kind: str
    source: str
    device: tuple[int, int]


def table() -> list[Mounted]:
    """List all mounts of this process's namespace; what is mounted is not touched."""
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        before, _, after = line.partition(b" - ")
        kind, source, *_ = after.split(b" ")
        fields = before.split()
        # The kernel writes blanks and the like as octal numbers.
        point = re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), fields[4])
        major, _, minor = fields[2].partition(b":")
        found.append(
            Mounted(
                Path(os.fsdecode(point)),
                os.fsdecode(kind),
                os.fsdecode(source),
                (int(major), int(minor)),
            )
        )
    return found


def existing() -> list[tuple[Path, int]]:
    """List the storages mounted here: where, and by which process."""
    return [
        (one.point, int(one.source))
        for one in table()
        if one.kind == _TYPE and one.source.isdigit()
    ]


def detach(point: Path, lazily: bool = True) -> None:
    """Unmount what lies on top at a path; OSError if that failed. Never waits for a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazily else 0)
    if libc.umount2(os.fsencode(point), flags) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(point))


def unmount(point: Path, lazily: bool = True) -> None:
    """Unmount with the rights that we have; OSError if that failed."""
    if os.geteuid() == 0:
        detach(point, lazily)
        return
    flags = ["-u", "-z"] if lazily else ["-u"]
    try:
        done = subprocess.run(
            ["fusermount3", *flags, "--", str(point)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_UNMOUNT_WITHIN,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(errno.ETIMEDOUT, "fusermount3 did not finish", str(point)) from None
    if done.returncode != 0:
        busy = errno.EBUSY if "busy" in done.stderr.lower() else errno.EPERM
        raise OSError(busy, done.stderr.strip(), str(point))


def unmount_below(directory: str) -> bool:
    """Unmount what `holdfast mount` has below a directory; False if anything is mounted there."""
    top = Path(os.path.realpath(directory))
    for one in reversed(table()):
        if one.kind == TYPE and top in one.point.parents:
            with contextlib.suppress(OSError):
                unmount(one.point)
    return not any(top in one.point.parents for one in table())


def remove_stale() -> None:
    """Remove mounts whose process has ended, which only give errors."""
    for pid in {pid for _, pid in existing() if not _serves(pid)}:
        remove_of(pid)


def remove_of(pid: int) -> None:
    """Remove the mounts of a process; never waits for it."""
    for point, owner in reversed(existing()):  # the last lies on top
        if owner == pid:
            with contextlib.suppress(OSError):
                detach(point)
            if point.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    point.rmdir()


def _serves(pid: int) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("countfs")
    except OSError:
        return False
