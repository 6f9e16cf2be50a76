"""The hash ring, spelled out; `holdfast._core.Ring` is the same function at full speed.

Each node stands on a circle of 2^64 positions at many points, its *virtual nodes*; a key belongs
to the first node clockwise of its hash, its further copies to the next distinct ones. When a node
goes, only its own keys move, in small shares to many others.

What follows the first zero byte of a key does not count: versions of one thing live together.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable

from .._core import xxh3_64
from ..errors import BadInput

#: Keeps positions of virtual nodes apart from positions of keys, whatever a key contains.
_LABEL_SEED = 1


def point(node: str, index: int) -> int:
    """Position of virtual node `index` of `node`.

    The name is written with its length before it: "server1" + 10 must not be "server11" + 0.
    """
    name = node.encode()
    return xxh3_64(struct.pack("<I", len(name)) + name + struct.pack("<I", index), _LABEL_SEED)


class Ring:
    """An immutable ring over `nodes`; the order in which they are given does not matter."""

    def __init__(self, nodes: Iterable[str], virtual_nodes: int = 100) -> None:
        self.nodes = sorted(nodes)
        if len(set(self.nodes)) != len(self.nodes):
            raise BadInput("a node is named twice on the ring; names must differ")
        if virtual_nodes < 1:
            raise BadInput(f"{virtual_nodes} virtual nodes; a node needs at least 1")
        # Equal positions are settled by name, so that every member settles them alike.
        points = sorted((point(node, i), node) for node in self.nodes for i in range(virtual_nodes))
        self._positions = [position for position, _ in points]
        self._owners = [node for _, node in points]

    def owners(self, key: bytes, count: int = 1) -> list[str]:
        """Return the first `count` distinct nodes for `key`, fewer if there are fewer."""
        start = bisect_left(self._positions, xxh3_64(key.split(b"\0", 1)[0]))
        found: list[str] = []
        for step in range(len(self._owners)):
            if len(found) >= count:
                break
            node = self._owners[(start + step) % len(self._owners)]
            if node not in found:
                found.append(node)
        return found
