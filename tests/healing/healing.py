"""Looking into a local cluster: what its agents believe and what they hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

import holdfast
from holdfast import errors
from holdfast._core import AgentClient
from holdfast.client.messages import AgentStatus, ViewReply, ViewRequest
from holdfast.membership.view import Member, MembershipStatus, State, View
from holdfast.restoration.restorer import RestoreStatus
from holdfast.session import session as sessions


@contextlib.contextmanager
def small_cluster(nodes: int) -> Iterator[tuple[holdfast.LocalCluster, holdfast.Job, Inside]]:
    """So many nodes, a program on the first of them, and a look into all."""
    with (
        holdfast.local_cluster(nodes=nodes, memory="64 MiB", disk="64 MiB") as cluster,
        cluster.connect() as job,
        Inside(cluster) as inside,
    ):
        yield cluster, job, inside


class Inside:
    """Asks agents directly, over their own sockets."""

    def __init__(self, cluster: holdfast.LocalCluster) -> None:
        self.cluster = cluster
        self.client = AgentClient(sessions.read_key(cluster.directory))

    def __enter__(self) -> Inside:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def member(self, node: int) -> Member:
        (found,) = (
            agent.member
            for agent in sessions.agents(self.cluster.directory)
            if agent.member.node == f"node-{node}"
        )
        return found

    def view(self, node: int) -> View:
        known = msgspec.msgpack.encode(ViewRequest())
        answer = self.client.call(
            self.member(node).socket, "membership", "view", known, deadline=5.0
        )
        return View(msgspec.msgpack.decode(answer, type=ViewReply).entries)

    def status(self, node: int) -> AgentStatus:
        answer = self.client.call(self.member(node).socket, "agent", "status", b"", deadline=5.0)
        return msgspec.msgpack.decode(answer, type=AgentStatus)

    def restoring(self, node: int) -> RestoreStatus:
        return self.status(node).of("restoring", RestoreStatus)

    def state(self, of: Member, on: int) -> State | None:
        entry = self.view(on).get(of.number)
        return entry.state if entry else None

    def holders(self, key: str) -> list[str]:
        """Nodes whose agents answer and hold `key`."""
        return self.all_holders([key])[key]

    def all_holders(self, keys: list[str]) -> dict[str, list[str]]:
        """The same for many; an agent that does not answer is asked once."""
        found: dict[str, list[str]] = {key: [] for key in keys}
        for agent in sessions.agents(self.cluster.directory):
            with contextlib.suppress(errors.TryAgain):
                for key in keys:
                    with contextlib.suppress(errors.NotFound, errors.Damaged):
                        self.client.stat(agent.member.address, key.encode(), deadline=1.0)
                        found[key].append(agent.member.node)
        return {key: sorted(nodes) for key, nodes in found.items()}

    def settled(self, nodes: list[int]) -> bool:
        """Whether these agents have one view and nothing left to restore or to trim."""
        states = [self.status(node) for node in nodes]
        views = {state.of("membership", MembershipStatus).identity for state in states}
        restoring = [state.of("restoring", RestoreStatus) for state in states]
        return len(views) == 1 and not any(one.missing or one.uncompared_peers for one in restoring)
