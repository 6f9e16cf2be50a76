"""Faults of a simulated cluster, at random moments, and their end."""

from __future__ import annotations

from .cluster import Cluster


class RandomFaults:
    """Strikes a cluster as its scenario says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.rng
        self._over = False
        wire, scenario = cluster.wire, cluster.scenario
        for kind in scenario.faults:
            when = self._rng.uniform(2, max(3, scenario.length - 3))
            wire.at(when, None, getattr(self, f"_{kind}"), None)

    def end(self) -> None:
        """Mend everything; most nodes that are down come back."""
        self._over = True
        cluster = self._cluster
        for node in sorted(cluster.paused):
            cluster.resume(node)
        for node in sorted(cluster.stuck):
            cluster.unstick(node)
        cluster.wire.loss = cluster.wire.duplication = 0.0
        cluster.wire.delay = (0.001, 0.01)
        cluster.heal()
        for node in cluster.nodes:
            if node not in cluster.agents and self._rng.random() < 0.7:
                cluster.restart(node)

    def _later(self, low: float, high: float, action: object, argument: object) -> None:
        wire = self._cluster.wire

        def act(argument: object) -> None:
            if not self._over:
                action(argument)  # type: ignore[operator]

        wire.at(wire.now + self._rng.uniform(low, high), None, act, argument)

    def _someone(self) -> str | None:
        """Choose a node whose agent runs; the last two are left in peace."""
        cluster = self._cluster
        running = [n for n in cluster.agents if n not in cluster.paused | cluster.stuck]
        return self._rng.choice(running) if len(running) > 2 else None

    def _kill(self, _: object) -> None:
        if node := self._someone():
            self._cluster.kill(node)
            if self._rng.random() < 0.5:
                self._later(0.5, 20, self._again, node)

    def _again(self, node: object) -> None:
        assert isinstance(node, str)
        if node not in self._cluster.agents:
            self._cluster.restart(node)

    def _restart(self, _: object) -> None:
        """Restart a node before anybody has noticed."""
        if node := self._someone():
            self._cluster.kill(node)
            self._cluster.restart(node)

    def _leave(self, _: object) -> None:
        if node := self._someone():
            self._cluster.leave(node)
            self._later(1, 15, self._again, node)

    def _join(self, _: object) -> None:
        """Add a node; that is no fault, but as much of a change."""
        nodes = self._cluster.nodes
        if self._cluster.restart(f"n{len(nodes)}"):
            nodes.append(f"n{len(nodes)}")

    def _pause(self, _: object) -> None:
        if node := self._someone():
            self._cluster.pause(node)
            self._later(0.5, 15, self._resume, node)

    def _resume(self, node: object) -> None:
        assert isinstance(node, str)
        self._cluster.resume(node)

    def _stick(self, _: object) -> None:
        if node := self._someone():
            self._cluster.stick(node)
            self._later(1, 30, self._unstick, node)

    def _unstick(self, node: object) -> None:
        assert isinstance(node, str)
        self._cluster.unstick(node)

    def _cut(self, _: object) -> None:
        """One way only."""
        self._part_nodes(both_ways=False)

    def _part(self, _: object) -> None:
        self._part_nodes(both_ways=True)

    def _part_nodes(self, both_ways: bool) -> None:
        nodes = self._cluster.nodes[:]
        self._rng.shuffle(nodes)
        size = self._rng.randint(1, len(nodes) - 1)
        self._cluster.cut(nodes[:size], nodes[size:], both_ways)
        self._later(1, 25, self._mend, None)

    def _mend(self, _: object) -> None:
        self._cluster.heal()

    def _rot(self, _: object) -> None:
        if node := self._someone():
            self._cluster.rot(node)
