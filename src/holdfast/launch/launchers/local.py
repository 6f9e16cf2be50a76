"""Agents on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from ...config import Config
from ...errors import BadInput
from ...session.node import Orders
from ...units import plural
from ..networks import Networks
from ..starter import AGENT, Started, Starter
from .base import Alone, Environment, Found

DEFAULT = 4
MOST = 1024


class NodeMounts(Protocol):
    """A shared file system that each node sees through a mount of its own."""

    nodes: int

    def under(self, node: int) -> Sequence[str]:
        """Return the command that runs another one where a node's mount is to be seen."""


class Local(Alone):
    """`holdfast up --nodes N`."""

    name = "local"
    needs = "nothing"
    here = True

    def __init__(
        self,
        config: Config,
        environment: Environment,
        count: int | None = None,
        networks: Networks | None = None,
        storage: NodeMounts | None = None,
    ) -> None:
        if count is not None and (not isinstance(count, int) or not 1 <= count <= MOST):
            raise BadInput(f"cannot start {count!r} nodes; one host can run 1 to {MOST}")
        if storage is not None and storage.nodes < (count or DEFAULT):
            raise BadInput(
                f"CountingFS was created for {plural(storage.nodes, 'node', 'nodes')}, but "
                f"{count or DEFAULT} are starting; pass nodes={count or DEFAULT}"
            )
        self._count = count
        self.networks = networks  # one for each node, instead of the host's
        self.storage = storage

    @staticmethod
    def detect(config: Config, environment: Environment) -> Found | None:
        """Find this machine, where nothing else is."""
        return Found("this machine", "there is no host file, Open MPI or Slurm job")

    def nodes(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return node-0 and so on."""
        count = self._count or len(known) or DEFAULT
        return tuple(f"node-{index}" for index in range(count))

    def start(self, orders: Orders, nodes: Sequence[str], log: Path) -> Started:
        """Start processes of this Python."""
        return Started(
            [start(orders, node, log, self.networks, storage=self.storage) for node in nodes]
        )


def start(
    orders: Orders,
    node: str,
    log: Path,
    networks: Networks | None = None,
    under: Sequence[str] = (),
    storage: NodeMounts | None = None,
) -> Starter:
    """Start the agent of one node; `under` is a command that runs another, e.g. strace."""
    index = int(node.rpartition("-")[2])
    own = replace(orders, node=node, index=index)
    if storage is not None:
        under = (*storage.under(index), *under)
    if networks is not None:
        own = replace(own, config=replace(own.config, listen=networks.address(index)))
        under = (*networks.under(index), *under)
    return Starter([node], [*under, *AGENT], own, log)
