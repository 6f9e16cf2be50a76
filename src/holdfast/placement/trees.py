"""The trees of a broadcast, spelled out; `holdfast._core.Trees` is the same at full speed.

Each path has a tree of its own over all nodes. Its *head*, the path's first owner on the ring, is
the only one to read the shared file system; every other node asks the one above it. The racks form
a tree with the head's rack on top, and each has a leader; within a rack the nodes form a tree below
its leader. So what goes down a tree enters each rack once. Who leads, and who stands above whom,
differs from path to path, so that all nodes share the work.

A node has at most `degree` children in its rack; a leader has as many in other racks besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from .._core import xxh3_64
from ..errors import BadInput

#: Keeps the shape of a tree apart from where its head lies on the ring.
_SHAPE_SEED = 2


class AnyRing(Protocol):
    """The ring, spelled out or at full speed."""

    @property
    def nodes(self) -> list[str]:
        """Sorted names."""
        ...

    def owners(self, key: bytes, count: int = 1) -> list[str]:
        """Return the first `count` nodes for `key`."""
        ...


class _Turned(NamedTuple):
    """Things of which one is first; the others follow it in their order, turned by `turn`."""

    size: int
    first: int
    turn: int

    def position(self, index: int) -> int:
        if index == self.first:
            return 0
        other = index if index < self.first else index - 1
        return (other - self.turn) % (self.size - 1) + 1

    def at(self, position: int) -> int:
        if position == 0:
            return self.first
        other = (position - 1 + self.turn) % (self.size - 1)
        return other if other < self.first else other + 1


class Trees:
    """The trees over the nodes of a ring; `racks` are theirs, in the order of `ring.nodes`."""

    def __init__(self, ring: AnyRing, racks: Sequence[str], degree: int) -> None:
        if len(racks) != len(ring.nodes):
            raise BadInput(
                f"{len(racks)} racks for {len(ring.nodes)} nodes; give one for each node"
            )
        if not ring.nodes:
            raise BadInput("a tree needs at least one node")
        if degree < 2:
            raise BadInput(f"a tree cannot have the degree {degree}; use at least 2")
        self._ring = ring
        self._degree = degree
        order = {name: index for index, name in enumerate(sorted(set(racks)))}
        self._racks: list[list[str]] = [[] for _ in order]
        self._places: dict[str, tuple[int, int]] = {}
        for node, name in zip(ring.nodes, racks, strict=True):
            rack = order[name]
            self._places[node] = (rack, len(self._racks[rack]))
            self._racks[rack].append(node)

    def ancestors(self, key: bytes, node: str) -> list[str]:
        """Return who stands above `node`: its parent first, the head last."""
        head = self._ring.owners(key, 1)[0]
        if node not in self._places:
            return [head]
        shape = xxh3_64(key.split(b"\0", 1)[0], _SHAPE_SEED)
        top, top_index = self._places[head]

        def inside(rack: int) -> _Turned:
            count = len(self._racks[rack])
            return _Turned(count, top_index if rack == top else shape % count, shape // count)

        found: list[str] = []
        rack, index = self._places[node]
        members = inside(rack)
        at = members.position(index)
        while at > 0:
            at = (at - 1) // self._degree
            found.append(self._racks[rack][members.at(at)])
        racks = _Turned(len(self._racks), top, shape >> 32)
        at = racks.position(rack)
        while at > 0:
            at = (at - 1) // self._degree
            above = racks.at(at)
            found.append(self._racks[above][inside(above).first])
        return found
