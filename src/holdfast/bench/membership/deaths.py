"""From the death of one of eight agents until every other one believes it."""

from __future__ import annotations

from statistics import median

from ...job import local_cluster
from ..figures import Figure, at_most
from .watch import Watch

_ROUNDS = 5


def run() -> list[Figure]:
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
