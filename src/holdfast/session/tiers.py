"""The directories of an agent's tiers: whose they are, and when they may be removed.

Their names hold a hash that only who knows the job key can compute: neither another session of the
same name nor another user can have, or take, the same one. The agent holds a lock on each for as
long as it lives, however it ends, and nobody removes one that is locked.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import msgspec

from .._core import hmac_sha256, xxh3_64
from ..errors import HoldfastError

#: In the directory of a memory tier, the link to what lies in huge pages.
LARGE = "large"
_DISK = "-disk"
_HASH = 16  # hexadecimal digits
#: What nobody holds for so long, in seconds, is not that of an agent which is about to start.
_OLD = 600.0


class Tiers(msgspec.Struct, frozen=True):
    """Directories of one agent, to be removed if it cannot do so itself."""

    memory_dir: str
    disk_dir: str

    def memory_dirs(self) -> list[str]:
        """Return where files of the memory tier lie; the huge pages go with their agent."""
        large = os.path.join(self.memory_dir, LARGE)
        return [self.memory_dir, large] if os.path.exists(large) else [self.memory_dir]

    def in_memory(self) -> list[str]:
        """Return the files of the memory tier."""
        return [
            os.path.join(place, name)
            for place in self.memory_dirs()
            for name in os.listdir(place)
            if name != LARGE
        ]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock them, as long as this process lives; they were just made."""
        with contextlib.ExitStack() as stack:
            for directory in (self.memory_dir, self.disk_dir):
                try:
                    ours = stack.enter_context(_locked(directory))
                except FileNotFoundError:
                    ours = False
                if not ours:
                    raise HoldfastError(
                        f"{directory} was removed while the agent was starting; start it again"
                    )
            yield

    def remove(self) -> None:
        """Remove what an agent that was killed left there; not what an agent holds."""
        for directory in (self.memory_dir, self.disk_dir):
            _remove(directory)


def of_agent(memory_dir: str, disk_dir: str, session: str, node: str, key: bytes) -> Tiers:
    """Return the tiers of a node's agent in the session with that key."""
    code = hmac_sha256(key, f"tiers of {node}".encode()).hex()[:_HASH]
    name = f"{_prefix()}{session}-{node}-{code}"
    return Tiers(os.path.join(memory_dir, name), os.path.join(disk_dir, name + _DISK))


def sweep(memory_dir: str, disk_dir: str) -> None:
    """Remove what agents of this host left that were killed, and whose session is gone, too."""
    for parent in (memory_dir, disk_dir):
        for name in _names(parent):
            directory = os.path.join(parent, name)
            if _is_tier(name) and _is_old(directory):
                _remove(directory, unlockable=False)


def _names(parent: str) -> list[str]:
    try:
        return os.listdir(parent)
    except OSError:  # making a tier there says so
        return []


def _prefix() -> str:
    # Locks may not reach from host to host, where hosts share what is meant for one.
    host = xxh3_64(os.uname().nodename.encode()) >> 32
    return f"holdfast-{os.getuid()}-{host:08x}-"


def _is_tier(name: str) -> bool:
    code = name.removesuffix(_DISK).rpartition("-")[2]
    return name.startswith(_prefix()) and len(code) == _HASH and not code.strip("0123456789abcdef")


def _is_old(directory: str) -> bool:
    try:
        return time.time() - os.lstat(directory).st_mtime > _OLD
    except OSError:
        return False


def _remove(directory: str, unlockable: bool = True) -> None:
    """Remove it unless somebody holds it; `unlockable`: also where nobody can hold anything."""
    with contextlib.suppress(OSError), _locked(directory, unlockable) as ours:
        if ours:
            import shutil  # noqa: PLC0415 - takes long to import, and is rarely needed

            shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _locked(directory: str, unlockable: bool = True) -> Iterator[bool]:
    """Hold a directory without waiting for it; False: somebody else does, or it is not ours.

    Where the file system has no locks, `unlockable` is the answer: names alone keep sessions apart.
    """
    import fcntl  # noqa: PLC0415 - clients lock nothing

    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        info = os.fstat(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError:
            locked = False
        except OSError:
            locked = unlockable
        # Its holder may have removed it, and its name may be another's by now.
        there = os.path.exists(directory) and os.path.samestat(info, os.lstat(directory))
        yield locked and there and info.st_uid == os.getuid()
    finally:
        os.close(descriptor)
