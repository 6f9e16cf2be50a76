"""How long until every member knows of a death: among 8 agents, 64, and thousands, simulated."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from ...job import local_cluster
from ...simulation.figures import membership
from ..figures import Figure, at_most, exactly, shown
from .watch import Watch

_ROUNDS = 5
_AGENTS = 64
_IDLE_SECONDS = 10.0
#: Simulated nodes, for how many periods, and how many deaths, one after the other.
_SIMULATED = ((10_000, 200, 20), (500, 5_000, 100))
_LOSS = 0.01  # of the simulated messages


def run() -> list[Figure]:
    """Let agents die, then simulated members; these take the longest."""
    figures = [*_among_eight(), *_among_many()]
    for one in _SIMULATED:
        figures += _simulated(*one)
    return figures


def _among_eight() -> list[Figure]:
    """Kill agents, and stop agents, one after the other."""
    killed, stopped = [], []
    with local_cluster(nodes=8, memory="64 MiB", disk="64 MiB") as cluster:
        for victim in range(_ROUNDS):
            watch = Watch(cluster)
            cluster.kill(victim)
            killed.append(watch.until_dead(victim, within=30))
            cluster.restart(victim)
    for victim in range(_ROUNDS):
        with local_cluster(nodes=8, memory="64 MiB", disk="64 MiB") as cluster:
            watch = Watch(cluster)
            cluster.stop(victim)
            stopped.append(watch.until_dead(victim, within=60))
    return [
        at_most("SIGKILL of one of 8 agents until dead in every view", median(killed), 2, "s", ""),
        at_most("SIGSTOP of one of 8 agents until dead in every view", median(stopped), 6, "s", ""),
    ]


def _among_many() -> list[Figure]:
    """Start sixty-four agents on this machine, let them idle, kill one."""
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


def _simulated(nodes: int, periods: int, moments: int) -> list[Figure]:
    seen = membership(nodes, periods, moments=moments, loss=_LOSS)
    what = f"simulated, {nodes:,} nodes for {periods:,} periods"
    deaths = f"median of {seen.deaths} deaths"
    return [
        exactly(f"{what}: live nodes declared dead", seen.false_deaths, 0, "nodes"),
        exactly(f"{what}: deaths not known to all", seen.unknown, 0, "deaths"),
        at_most(f"{what}: suspicion known to all", seen.suspicion_known, 12, "periods", deaths),
        at_most(f"{what}: death known to all", seen.death_known, 22, "periods", deaths),
        shown(f"{what}: messages of a node", seen.messages, "per period"),
    ]
