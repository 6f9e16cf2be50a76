"""The agents of a session on this host, as somebody sees them who wants to hurt them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from .._core import Client, xxh3_64
from ..errors import BadInput, HoldfastError
from . import session as sessions
from .arming import Arm, arm
from .networks import Networks
from .processes import Process

Condition = Literal["running", "stopped", "dead"]
_DEADLINE = 5.0  # of a question to an agent


class Restoring(msgspec.Struct, frozen=True):
    """How far an agent is with restoring."""

    lacking: int = 0
    unequal: int = 0
    restored: int = 0
    restored_bytes: int = 0
    waits: float = 0.0


class Seen(msgspec.Struct, frozen=True):
    """The part of an agent's status that tells what faults cost."""

    number: int
    counters: dict[str, int]
    identity: int | None = None  # of its view
    restoring: Restoring = Restoring()


def sides(nodes: Sequence[int], cuts: Collection[tuple[int, int]]) -> list[set[int]]:
    """Return the nodes in groups that are connected, perhaps by way of one another."""
    groups: list[set[int]] = []
    for node in nodes:
        reached = [
            group
            for group in groups
            if any((node, one) not in cuts and (one, node) not in cuts for one in group)
        ]
        groups = [group for group in groups if group not in reached]
        groups.append({node}.union(*reached))
    return groups


class Victims:
    """Agents to kill, stop, resume and restart, and the networks between them, if they have any."""

    def __init__(
        self, directory: Path, restart: Callable[[int], object], networks: Networks | None
    ) -> None:
        self._directory = directory
        self._restart = restart
        home = sessions.read(directory).home
        self._client = Client(sessions.read_key(directory))
        self._agents = {agent.member.node: agent for agent in sessions.agents(directory)}
        self.networks = networks
        self.count = len(home.nodes) if home else 0

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def condition(self, node: int) -> Condition:
        """Tell how the agent of a node is."""
        process = self._process(node)
        try:
            text = Path(f"/proc/{process.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return "dead"
        fields = text.rpartition(")")[2].split()
        state, threads, started = fields[0], int(fields[17]), int(fields[19])
        # A killed process has not ended before its last thread has.
        if started != process.started or (state in "ZX" and threads <= 1):
            return "dead"
        return "stopped" if state == "T" else "running"

    def kill(self, node: int) -> None:
        """End an agent as in a crash, and wait until it is gone."""
        self._signal(node, signal.SIGKILL)
        while self.condition(node) != "dead":
            time.sleep(0.002)

    def stop(self, node: int) -> None:
        """Stop an agent."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a stopped agent go on."""
        self._signal(node, signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Start a new agent on the node of a dead one."""
        if self.condition(node) != "dead":
            raise BadInput(f"node {node} is {self.condition(node)}; kill it before you restart it")
        self._restart(node)

    def arm(self, node: int, stage: str, action: str, after: int = 1) -> None:
        """Let an agent die or stop at a stage; `nothing` disarms it."""
        arm(self._client, self._socket(node), Arm(stage, action, after), _DEADLINE)

    def look(self, node: int) -> Seen | None:
        """Ask an agent how it is doing; None if it does not say."""
        try:
            answer = self._client.call(
                self._socket(node), "agent", "status", b"", deadline=_DEADLINE
            )
        except HoldfastError:
            return None
        return msgspec.msgpack.decode(answer, type=Seen)

    def unsettled(self, cuts: Collection[tuple[int, int]] = ()) -> str:
        """Tell in words who keeps the cluster from being settled; empty if nobody does.

        It is settled when all agents that run and can reach one another agree that these live and
        no others, and nobody lacks a copy.
        """
        running = [node for node in range(self.count) if self.condition(node) == "running"]
        seen = {node: self.look(node) for node in running}
        trouble = [f"node {node} does not answer" for node, one in seen.items() if one is None]
        for side in sides(running, cuts):
            there = {node: one for node in sorted(side) if (one := seen[node]) is not None}
            expected = 0
            for one in there.values():
                expected ^= xxh3_64(one.number.to_bytes(8, "little"))
            for node, one in there.items():
                restoring = one.restoring
                if one.identity not in (None, expected):
                    trouble.append(f"node {node} sees others alive than run")
                elif restoring.lacking or restoring.unequal or restoring.waits:
                    trouble.append(f"node {node} is restoring")
        return ", ".join(trouble)

    def _socket(self, node: int) -> str:
        return f"unix:{self._directory / self._name(node)}.sock"

    def _process(self, node: int) -> Process:
        name = self._name(node)
        if not self._agents[name].process.running:  # there may be a new one
            self._agents |= {a.member.node: a for a in sessions.agents(self._directory)}
        return self._agents[name].process

    def _name(self, node: int) -> str:
        if not isinstance(node, int) or not 0 <= node < self.count:
            raise BadInput(f"there is no node {node!r}; this session has {self.count}")
        return f"node-{node}"

    def _signal(self, node: int, number: signal.Signals) -> None:
        process = self._process(node)
        if self.condition(node) == "dead":
            raise BadInput(f"the agent of node {node} is dead; restart it first")
        with contextlib.suppress(ProcessLookupError):  # it has died this moment
            os.kill(process.pid, number)
