"""How much a tier may hold: the least of what is set, what lies beneath, and what we may use."""

from __future__ import annotations

import os
import sys

from ..errors import BadInput

#: Without a setting, all agents of a host together take at most this share of what is there.
_SHARE = 0.25
#: A disk tier that is cut down to what is free leaves the rest: to logs, sessions, other programs.
_OF_FREE_DISK = 0.9
_GROUPS = "/proc/self/cgroup"
_GROUP_ROOT = "/sys/fs/cgroup"
_MEMORY = "/proc/meminfo"


def resolve(wanted: int | None, directory: str, agents: int, in_memory: bool) -> int:
    """Return the capacity of one agent's tier below `directory`, `agents` of which share the host.

    Pages of tmpfs are charged to the agent, so a memory tier also fits into its control group.
    """
    try:
        info = os.statvfs(directory)
    except OSError as error:
        raise BadInput(
            f"cannot keep a tier below {directory}: {error.strerror}; set "
            f"{'memory_dir' if in_memory else 'disk_dir'} to an existing directory"
        ) from None
    there = info.f_frsize * info.f_bavail
    if in_memory:
        there = min(there, memory_limit(), memory_left())
    if wanted is None:
        return int(there * _SHARE / agents)
    return min(wanted, there if in_memory else int(there * _OF_FREE_DISK / agents))


def memory_limit(groups: str = _GROUPS, root: str = _GROUP_ROOT) -> int:
    """Return the least of the machine's memory and the limits of the control groups we are in."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for line in _read(groups).splitlines():
        # "0::/job/step" (version 2) or "4:memory:/job/step" (version 1)
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            base, name = f"{root}/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = path.strip("/").split("/")
        for depth in range(len(parts) + 1):
            text = _read(os.path.join(base, *parts[:depth], name)).strip()
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def memory_left(memory: str = _MEMORY) -> int:
    """Return how much memory the machine could give; tiers in huge pages show nowhere else."""
    for line in _read(memory).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return sys.maxsize


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
