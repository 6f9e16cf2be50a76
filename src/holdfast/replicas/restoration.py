"""Restoring copies: ranges that lost copies get new ones, everything else stays where it is."""

from __future__ import annotations

import numpy as np

from .blocks import Bytes
from .buffers import Buffers
from .held_ranges import HeldRanges, checksums, deliver
from .layout import contains, distinct, joined
from .load import Reload, supply
from .permutation import Flags, Ints
from .version import Lengths, Version
from .wire import Wire, address_of


class Restoration:
    """What is to move so that every range of `version` has its copies, `dead` slots left out."""

    def __init__(
        self, version: Version, dead: Flags, ranks: Ints, me: int, reload: Reload | None
    ) -> None:
        self.version = version
        self._dead = dead
        self._me = me
        by_slot = np.append(ranks[version.places], -1)
        mine = np.flatnonzero(by_slot[:-1] == me)
        self._slot = int(mine[0]) if len(mine) else -1
        ranges = version.touched(version.lacking | dead)
        present = version.holders(ranges)
        wanted = version.placement.holders(ranges, dead)
        gone = np.asarray((present < 0).all(axis=1))
        self.lost = ranges[gone] if reload is None else ranges[:0]
        # A row for each new copy: its range, its slot, and who sends it.
        new = (wanted >= 0) & ~(wanted[:, :, None] == present[:, None, :]).any(axis=2)
        if reload is None:
            new &= ~gone[:, None]
        row, column = np.nonzero(new)
        self._ranges, self._targets = ranges[row], by_slot[wanted[row, column]]
        live = present >= 0
        turn = (version.placement.order(self._ranges) + self._targets) % np.maximum(
            live.sum(axis=1)[row], 1
        )
        source = (np.cumsum(live, axis=1)[row] > turn[:, None]).argmax(axis=1)
        # Lost ranges are supplied by the user where they are to lie.
        self._sources = np.where(gone[row], self._targets, by_slot[present[row, source]])
        self._supplied = self._reload(reload, ranges[gone])

    def _reload(self, reload: Reload | None, gone: Ints) -> dict[int, tuple[Bytes, Ints]]:
        if reload is None:
            return {}
        here = distinct(self._ranges[(self._targets == self._me) & contains(gone, self._ranges)])
        _, first, count = self.version.layout.whole(here)
        return {
            number: supply(reload, low, n, self.version.block_bytes)
            for number, low, n in zip(here.tolist(), first.tolist(), count.tolist(), strict=True)
        }

    @property
    def lost_blocks(self) -> list[tuple[int, int]]:
        """Blocks of which no copy is left, as (first, count)."""
        _, first, count = self.version.layout.whole(self.lost)
        return joined(first, count)

    @property
    def new_copies(self) -> int:
        """How many copies of ranges are made, on all ranks together."""
        return len(self._ranges)

    def sent(self) -> Ints:
        """Return the indices of the ranges that this rank sends from what it holds."""
        ranges = self._ranges[self._sources == self._me]
        return self.version.data.find(ranges[~self._is_supplied(ranges)])

    def _is_supplied(self, ranges: Ints) -> Flags:
        return contains(np.array([*self._supplied], np.int64), ranges)

    def run(self, wire: Wire, buffers: Buffers) -> int:
        """Move everything into memory beside what is held; return the bytes that travelled."""
        wire.keep(self)
        version, moved = self.version, 0
        receives = self._targets == self._me
        order = np.argsort(self._ranges[receives], kind="stable")
        fresh, sources = self._ranges[receives][order], self._sources[receives][order]
        self._index = None
        if version.index is None:
            sizes = version.sizes(fresh)
        else:
            self._index = HeldRanges(fresh, 8 * version.layout.whole(fresh).counts, buffers)
            moved += self._move(wire, version.index, self._index, sources, 1)
            sizes = Lengths(self._index).of_ranges()
        self._data = HeldRanges(fresh, sizes, buffers)
        return moved + self._move(wire, version.data, self._data, sources, 0)

    def commit(self) -> None:
        """Let what has arrived join what is held."""
        version = self.version
        wanted = (
            version.placement.held_by(self._slot, self._dead) if self._slot >= 0 else self._data.ids
        )
        ids = version.data.ids
        keep = contains(wanted, ids) & ~contains(self._data.ids, ids)
        index = None
        if version.index is not None and self._index is not None:
            index = version.index.changed(keep, self._index)
        version.hold(version.data.changed(keep, self._data), index)
        version.settle(self._dead, self.lost)

    @property
    def bytes(self) -> int:
        """Memory that the new copies on this rank take."""
        return self._data.bytes + (self._index.bytes if self._index is not None else 0)

    def _move(
        self, wire: Wire, held: HeldRanges, target: HeldRanges, sources: Ints, part: int
    ) -> int:
        sends = self._sources == self._me
        order = np.argsort(self._ranges[sends], kind="stable")
        ranges, peers = self._ranges[sends][order], self._targets[sends][order]
        supplied = self._is_supplied(ranges)
        where = held.find(ranges[~supplied])
        addresses, sizes, crcs = (np.zeros(len(ranges), np.int64) for _ in range(3))
        addresses[~supplied] = held.addresses[where]
        sizes[~supplied] = held.sizes[where]
        crcs[~supplied] = held.crcs[where]
        content = [self._supplied[number][part] for number in ranges[supplied].tolist()]
        addresses[supplied] = [address_of(given) for given in content]
        sizes[supplied] = [given.nbytes for given in content]
        crcs[supplied] = checksums(addresses[supplied], sizes[supplied])
        return deliver(wire, peers, addresses, sizes, crcs.astype(np.uint32), target, sources)
