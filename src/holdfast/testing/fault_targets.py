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

from .._core import AgentClient
from ..client.fault_points import FaultPoint, arm
from ..client.messages import AgentStatus
from ..errors import BadInput, HoldfastError, TryAgain
from ..launch.networks import Networks
from ..membership.view import Entry, MembershipStatus, State, View
from ..restoration.restorer import RestoreStatus
from ..session import session as sessions
from ..session.session import AgentFile

Condition = Literal["running", "stopped", "dead"]
_DEADLINE = 5.0  # of a question to an agent


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


def _restores(status: RestoreStatus) -> bool:
    return bool(status.missing or status.uncompared_peers or status.partition_wait_left)


class FaultTargets:
    """Agents to kill, stop, resume and restart, and the networks between them, if they have any."""

    def __init__(
        self, directory: Path, restart: Callable[[int], object], networks: Networks | None
    ) -> None:
        self._directory = directory
        self._restart = restart
        session = sessions.read(directory)
        if session.home is None or session.launcher != "local":
            raise BadInput(
                f"session {session.name!r} was not started on this machine with `holdfast "
                "up --nodes N`; faults can only be injected into such sessions"
            )
        self._client = AgentClient(sessions.read_key(directory))
        self._agents: dict[str, AgentFile] = {}
        self._read_agents()
        self.networks = networks
        self.count = len(session.home.nodes)

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def condition(self, node: int) -> Condition:
        """Tell how the agent of a node is."""
        agent = self._agent(node)
        if agent is None:
            return "dead"
        try:
            text = Path(f"/proc/{agent.process.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return "dead"
        fields = text.rpartition(")")[2].split()
        state, threads, started = fields[0], int(fields[17]), int(fields[19])
        # A killed process has not ended before its last thread has.
        if started != agent.process.started or (state in "ZX" and threads <= 1):
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

    def arm(self, node: int, stage: str, action: str, after: int) -> None:
        """Let an agent die or stop at a stage."""
        if (condition := self.condition(node)) != "running":
            raise BadInput(f"the agent of node {node} is {condition}, so it reaches no stage")
        try:
            arm(self._client, self._socket(node), FaultPoint(stage, action, after), _DEADLINE)
        except TryAgain:
            # It may get there before it has answered.
            if self.condition(node) == "running":
                raise

    def disarm(self, node: int, stage: str) -> None:
        """Take that back, unless it has happened."""
        with contextlib.suppress(TryAgain):  # it has gone off this moment
            arm(self._client, self._socket(node), FaultPoint(stage, "nothing"), _DEADLINE)

    def look(self, node: int) -> AgentStatus | None:
        """Ask an agent how it is doing; None if it does not say."""
        try:
            answer = self._client.call(
                self._socket(node), "agent", "status", b"", deadline=_DEADLINE
            )
        except HoldfastError:
            return None
        return msgspec.msgpack.decode(answer, type=AgentStatus)

    def unsettled(self, cuts: Collection[tuple[int, int]] = (), copies: bool = True) -> str:
        """Tell in words who keeps the cluster from being settled; empty if nobody does.

        It is settled when all agents that run and can reach one another agree that these live and
        no others, and, if it is about `copies` too, nobody lacks one.
        """
        running = [node for node in range(self.count) if self.condition(node) == "running"]
        trouble = []
        for side in sides(running, cuts):
            agents = [agent for node in side if (agent := self._agent(node)) is not None]
            expected = View(Entry(agent.member, 0, State.ALIVE) for agent in agents).identity
            for node in sorted(side):
                seen = self.look(node)
                if seen is None:
                    trouble.append(f"node {node} does not answer")
                elif seen.of("membership", MembershipStatus).identity != expected:
                    trouble.append(f"node {node} does not agree on who is alive")
                elif copies and _restores(seen.of("restoring", RestoreStatus)):
                    trouble.append(f"node {node} is restoring")
        return ", ".join(trouble)

    def _socket(self, node: int) -> str:
        return f"unix:{self._directory / self._name(node)}.sock"

    def _agent(self, node: int) -> AgentFile | None:
        """Return the last agent of a node, as far as known."""
        name = self._name(node)
        agent = self._agents.get(name)
        if agent is None or not agent.process.running:  # there may be a new one
            self._read_agents()
        return self._agents.get(name)

    def _read_agents(self) -> None:
        self._agents |= {agent.member.node: agent for agent in sessions.agents(self._directory)}

    def _name(self, node: int) -> str:
        if not isinstance(node, int) or not 0 <= node < self.count:
            raise BadInput(f"there is no node {node!r}; this session has {self.count}")
        return f"node-{node}"

    def _signal(self, node: int, number: signal.Signals) -> None:
        agent = self._agent(node)
        if agent is None or self.condition(node) == "dead":
            raise BadInput(f"the agent of node {node} is dead; restart it first")
        with contextlib.suppress(ProcessLookupError):  # it has died this moment
            os.kill(agent.process.pid, number)
