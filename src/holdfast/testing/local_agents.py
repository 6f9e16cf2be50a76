"""A cluster of agents on this machine that lives as long as the process that started it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .. import config as settings
from .._core import AgentClient
from ..client import contacts, stories
from ..client.contacts import Contacts
from ..client.events import Event
from ..errors import BadInput, HoldfastError
from ..launch import agents
from ..launch.launchers.local import Local
from ..launch.launchers.local import start as start_one
from ..launch.networks import Networks
from ..launch.starter import Started, Starter
from ..membership.view import Member
from ..session import session as sessions
from ..session.node import place
from ..session.tiers import Tiers

if TYPE_CHECKING:
    from typing_extensions import Self

    from .countfs import CountingFS

_JOIN_WITHIN = 10.0
#: An agent that ends writes its metrics; one that is stopped does not get to it.
_LAST_WORDS_WITHIN = 5.0
#: Agents that are stopped tell nothing; nobody waits longer for that.
_STORY_WITHIN = 0.5


class Node:
    """One node of a local cluster."""

    def __init__(self, member: Member, starter: Starter) -> None:
        self.member = member
        self._starter = starter

    @property
    def name(self) -> str:
        """Its name, e.g. node-0."""
        return self.member.node

    @property
    def pid(self) -> int:
        """The process of its agent."""
        return self.member.pid

    @property
    def alive(self) -> bool:
        """Whether its agent runs (or is stopped, but not ended)."""
        return self._starter.process.poll() is None

    @property
    def log(self) -> Path:
        """Where its agent writes what it has to say."""
        return Path(place(self._starter.orders).log)

    @property
    def tiers(self) -> Tiers:
        """The directories in which it keeps objects."""
        return place(self._starter.orders).tiers

    def __repr__(self) -> str:
        return f"<{self.name} pid {self.pid}{'' if self.alive else ', dead'}>"


class LocalAgents:
    """Agents on this machine, their directory, and ways to hurt them.

    They end with this object, and also when this process dies.
    """

    def __init__(
        self,
        nodes: int = 4,
        networks: Networks | None = None,
        storage: CountingFS | None = None,
        **arguments: Any,
    ) -> None:
        self.config = settings.load(arguments=arguments).config
        self.networks = networks
        self.storage = storage
        launcher = Local(self.config, os.environ, nodes, networks, storage)
        if self.config.run_dir:
            sessions.make_private(Path(self.config.run_dir))
        parent = self.config.run_dir or tempfile.gettempdir()
        try:
            self.directory = Path(tempfile.mkdtemp(prefix="holdfast-", dir=parent))
        except OSError as error:
            raise sessions.no_place(parent, error) from None
        key = secrets.token_bytes(32)
        self._recipe = agents.new_recipe(
            self.directory, self.config, key, launcher.name, lifeline=True
        )
        try:
            self._members, started = agents.start(self._recipe, launcher)
        except BaseException:
            sessions.clear(self.directory)
            raise
        self._starters = list(started.starters)
        self._lives = list(self._members)
        self._story: list[Event] = []  # of a block that failed

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in order."""
        return [Node(*both) for both in zip(self._members, self._starters, strict=True)]

    def kill(self, node: int) -> None:
        """End the agent of a node at once, as a crash would (SIGKILL)."""
        process = self._at(node).process
        process.kill()
        process.wait()

    def stop(self, node: int) -> None:
        """Stop the agent of a node: it lives, and answers nothing (SIGSTOP)."""
        pid = self._at(node).process.pid
        os.kill(pid, signal.SIGSTOP)
        # Until then its threads may still answer.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, node: int) -> None:
        """Let a stopped agent go on (SIGCONT)."""
        os.kill(self._at(node).process.pid, signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Start a new agent on a node; it is a new member, and its node's objects are gone."""
        old, member = self._at(node), self._members[node]
        if old.process.poll() is None:
            raise BadInput(f"{member.node} is running; kill it before you restart it")
        old.discard()
        # The same port if it is still free: clients find the node where it was.
        port = int(member.address.rpartition(":")[2])
        orders = replace(old.orders, port=port, after=member.started)
        starter = start_one(orders, member.node, old.log, self.networks, storage=self.storage)
        self._starters[node] = starter
        outcome = Started([starter]).collect(self.config.start_within)
        if outcome.failed:
            raise agents.failure(outcome.failed)
        newcomer = self._members[node] = outcome.ready[member.node]
        self._lives.append(newcomer)
        client, view = AgentClient(self._recipe.key), agents.as_view(self._lives)
        contacts.join(client, [newcomer], view, _JOIN_WITHIN)
        contacts.tell(client, [one.member for one in self.nodes if one.alive], view)

    def story(self) -> list[Event]:
        """Return what the agents remember; once they are gone, what they did when a block failed.

        A `with` block that ends with an error asks them before it ends them.
        """
        if self._starters:
            return stories.gather(Contacts(self.directory, _STORY_WITHIN))[0]
        return self._story

    def close(self) -> None:
        """End all agents and remove everything."""
        # Nothing is lost with agents that are killed, unless they have something to write.
        gently = _LAST_WORDS_WITHIN if self.config.metrics_file else 0.0
        for starter in self._starters:
            starter.discard(gently)
        self._starters.clear()
        self._members.clear()
        sessions.clear(self.directory)

    def _at(self, node: int) -> Starter:
        if not 0 <= node < len(self._starters):
            raise BadInput(f"there is no node {node}; this cluster has {len(self._starters)}")
        return self._starters[node]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None and self._starters:
                with contextlib.suppress(HoldfastError):
                    self._story = self.story()
        finally:
            self.close()
