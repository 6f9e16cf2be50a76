"""Programs of all nodes that ask their agents, as mounts do."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support import frames, settings
from support.waits import WITHIN

import holdfast
from holdfast import _core
from holdfast.errors import HoldfastError
from holdfast.session import session as sessions

NODES = 8
SETTINGS: dict[str, Any] = {**settings.SETTINGS, "tree_degree": 2, "tree_largest": "1 MiB"}
FILE, LISTING, PART = 0, 1, 2


class Programs:
    """What programs of each node see of a root through their agent."""

    def __init__(self, cluster: holdfast.LocalCluster, root: Path) -> None:
        self.cluster = cluster
        self.root = os.fsencode(root)
        self.client = _core.AgentClient(sessions.read_key(cluster.directory))

    def ask(self, node: int, kind: int, name: str = "", part: int = 0) -> bytes:
        """Ask a node's agent for a file, a listing or a part."""
        path = os.path.join(self.root, os.fsencode(name)) if name else self.root
        address = self.cluster.nodes[node].member.socket
        descriptor, _ = frames.tree(address, kind, self.root, path, part, deadline=WITHIN)
        with open(descriptor, "rb") as file:
            return file.read()

    def listing(self, node: int, name: str = "") -> dict[str, int]:
        """Names and sizes of a directory."""
        entries = frames.listing(self.ask(node, LISTING, name))
        return {entry: attributes[6] for entry, attributes in entries.items()}

    def read(self, node: int, name: str) -> bytes:
        """Read a file as the mount does: from the storage if the agent has it not."""
        try:
            return self.ask(node, FILE, name)
        except HoldfastError:
            return Path(os.fsdecode(self.root), name).read_bytes()


def node_view(cluster: holdfast.LocalCluster, node: int) -> list[str]:
    """Who lives, as one agent sees it."""
    with cluster.connect(node=node) as job:
        return [member.node for member in job._connection.routing.live]


def storm(nodes: Iterable[int], names: list[str], one: Callable[[int, str], None]) -> None:
    """Let 4 programs of each node go through all names, each in an order of its own."""

    def program(node: int, seed: int) -> None:
        order = names[:]
        random.Random(seed).shuffle(order)
        for name in order:
            one(node, name)

    jobs = [(node, 4 * node + seed) for node in nodes for seed in range(4)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        for outcome in [pool.submit(program, *job) for job in jobs]:
            outcome.result()
