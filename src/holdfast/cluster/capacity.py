"""How much a tier may hold: the least of what is set, what lies beneath, and what we may use."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import BadInput

#: Without a setting, all agents of a host together take at most this share of what is there.
_SHARE = 0.25


def resolve(wanted: int | None, directory: str, agents: int, in_memory: bool) -> int:
    """Return the capacity of one agent's tier below `directory`, `agents` of which share the host.

    Pages of tmpfs are charged to the agent, so a memory tier also fits into its control group.
    """
    try:
        info = os.statvfs(directory)
    except OSError as error:
        raise BadInput(
            f"no tier can lie below {directory}: {error.strerror}; set "
            f"{'memory_dir' if in_memory else 'disk_dir'} to a directory that exists"
        ) from None
    there = info.f_frsize * info.f_bavail
    if in_memory:
        there = min(there, _memory_limit())
    if wanted is not None:
        return min(wanted, there)
    return int(there * _SHARE / agents)


def _memory_limit() -> int:
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limit = min(limit, int(text))
    return limit
