"""A cluster of agents on this machine that lives as long as the process that started it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .. import config as settings
from ..errors import BadInput
from . import launch
from . import session as sessions
from .launch import Launched, Recipe
from .networks import Networks
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Self


class Node:
    """One node of a local cluster."""

    def __init__(self, launched: Launched) -> None:
        self._launched = launched

    @property
    def name(self) -> str:
        """Its name, e.g. node-0."""
        return self._launched.settings.node

    @property
    def pid(self) -> int:
        """The process of its agent."""
        return self._launched.process.pid

    @property
    def alive(self) -> bool:
        """Whether its agent runs (or is stopped, but not ended)."""
        return self._launched.process.poll() is None

    @property
    def log(self) -> Path:
        """Where its agent writes what it has to say."""
        return self._launched.log

    def __repr__(self) -> str:
        return f"<{self.name} pid {self.pid}{'' if self.alive else ', dead'}>"


class LocalAgents:
    """Agents on this machine, their directory, and ways to hurt them.

    They end with this object, and also when this process dies.
    """

    def __init__(self, nodes: int = 4, networks: Networks | None = None, **arguments: Any) -> None:
        self.config = settings.load(arguments=arguments).config
        self.networks = networks
        if self.config.run_dir:
            sessions.make_private(Path(self.config.run_dir))
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-", dir=self.config.run_dir or None))
        self._launched: list[Launched] = []
        key = secrets.token_bytes(32)
        self._recipe = Recipe(self.config, self.directory, key, nodes, True, networks)
        try:
            self._session, self._launched = launch.start(self._recipe)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in order."""
        return [Node(launched) for launched in self._launched]

    @property
    def session(self) -> Session:
        """The session as it is now."""
        return self._session

    def kill(self, node: int) -> None:
        """End the agent of a node at once, as a crash would (SIGKILL)."""
        process = self._at(node).process
        process.kill()
        process.wait()

    def stop(self, node: int) -> None:
        """Stop the agent of a node: it lives, and answers nothing (SIGSTOP)."""
        os.kill(self._at(node).process.pid, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a stopped agent go on (SIGCONT)."""
        os.kill(self._at(node).process.pid, signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Start a new agent on a node; it is a new member, and its node's objects are gone."""
        old = self._at(node)
        if old.process.poll() is None:
            raise BadInput(f"{old.settings.node} is running; kill it before you restart it")
        old.discard()
        member = self._session.view.node(old.settings.node)
        assert member is not None
        # The same port if it is still free: clients find the node where it was.
        launched = self._recipe.launch(node, int(member.address.rpartition(":")[2]))
        self._launched[node] = launched
        view = self._session.view.replace(launched.wait_ready())
        processes = self._session.processes | {old.settings.node: launched.as_process()}
        self._session = replace(self._session, view=view, processes=processes)
        sessions.write(self.directory, self._session)
        launch.tell_view(view, self._recipe.key)

    def close(self) -> None:
        """End all agents and remove everything."""
        for launched in self._launched:
            launched.discard()
        self._launched.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _at(self, node: int) -> Launched:
        if not 0 <= node < len(self._launched):
            raise BadInput(f"there is no node {node}; this cluster has {len(self._launched)}")
        return self._launched[node]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
