"""Sixty-four agents on this machine: their start, their idling, and a death among them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ...job import local_cluster
from ..figures import Figure, at_most
from .watch import Watch

_AGENTS = 64
_IDLE_SECONDS = 10.0


def run() -> list[Figure]:
    """Start them, let them idle, kill one."""
    start = time.perf_counter()
    with local_cluster(nodes=_AGENTS, memory="16 MiB", disk="16 MiB") as cluster:
        up = time.perf_counter() - start
        # What starting left to do: until each has probed all others once, each probe goes to a
        # stranger, with whom keys are to be compared first.
        time.sleep(_AGENTS * cluster.config.probe_period + 3)
        pids = [node.pid for node in cluster.nodes]
        before, since = _cpu_seconds(pids), time.perf_counter()
        time.sleep(_IDLE_SECONDS)
        idle = (_cpu_seconds(pids) - before) / (time.perf_counter() - since)
        watch = Watch(cluster)
        cluster.kill(17)
        known = watch.until_dead(17, within=60)
    what = f"{_AGENTS} agents on this machine"
    return [
        at_most(f"{what}: up after", up, 20, "s", ""),
        at_most(f"{what}: idle, all of them", 100 * idle, 10, "% of a core", ""),
        at_most(f"{what}: one killed, known to all after", known, 5, "s", ""),
    ]


def _cpu_seconds(pids: list[int]) -> float:
    """Processor time that these processes have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
