"""Watching the views of all agents of a local cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from ..._core import AgentClient
from ...client.messages import AgentStatus, ViewReply, ViewRequest
from ...errors import DeadlineMissed
from ...job import LocalCluster
from ...membership.view import Member, State, View
from ...session import session as sessions

_PAUSE = 0.005


class Watch:
    """Asks agents, over their sockets, what they believe."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._client = AgentClient(sessions.read_key(cluster.directory))
        self.members = sorted(
            (agent.member for agent in sessions.agents(cluster.directory)),
            key=lambda member: int(member.node.removeprefix("node-")),
        )

    def view(self, member: Member) -> View:
        """Return the view of one agent."""
        known = msgspec.msgpack.encode(ViewRequest())
        answer = self._client.call(member.socket, "membership", "view", known, deadline=5.0)
        return View(msgspec.msgpack.decode(answer, type=ViewReply).entries)

    def status(self, member: Member) -> AgentStatus:
        """Return what one agent tells of itself."""
        answer = self._client.call(member.socket, "agent", "status", b"", deadline=5.0)
        return msgspec.msgpack.decode(answer, type=AgentStatus)

    def until_dead(self, victim: int, within: float) -> float:
        """Wait until all others believe that a member is dead; return the seconds it took."""
        start = time.perf_counter()
        number = self.members[victim].number
        for index, member in enumerate(self.members):
            if index != victim:
                wait_for(lambda m=member: _is_dead(self.view(m), number), start + within)  # type: ignore[misc]
        return time.perf_counter() - start


def _is_dead(view: View, number: int) -> bool:
    entry = view.get(number)
    return entry is not None and entry.state is State.DEAD


def wait_for(condition: Callable[[], bool], until: float) -> None:
    """Wait until `condition` holds; `until` is a time of the performance counter."""
    while not condition():
        if time.perf_counter() > until:
            raise DeadlineMissed(
                "the cluster did not reach the expected state in time; is the machine busy?"
            )
        time.sleep(_PAUSE)
