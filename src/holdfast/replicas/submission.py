"""Submitting: a new version is filled beside the old one."""

from __future__ import annotations

import numpy as np

from .blocks import Bytes
from .buffers import Buffers
from .held_ranges import HeldRanges, checksums, deliver
from .permutation import Ints
from .version import Lengths, Version
from .wire import Wire, address_of


class Submission:
    """This rank's part in filling `version`: `blocks` of `lengths` (None: all of one size).

    Lengths, if there are any, travel first: they say how much room the blocks take.
    """

    def __init__(
        self, version: Version, blocks: Bytes, lengths: Ints | None, ranks: Ints, me: int
    ) -> None:
        self.version = version
        self.blocks = blocks
        self.lengths = lengths
        layout, placement = version.layout, version.placement
        mine = layout.ranges_of(me)
        self._counts = layout.whole(mine).counts
        slots = placement.first_slots(mine)
        self._peers = ranks[version.places[slots]].ravel()
        my_slot = int(np.flatnonzero(ranks[version.places] == me)[0])
        self._held = placement.held_by(my_slot, version.settled)
        self._sources = layout.submitters[layout.run_of(self._held)]
        self._index: HeldRanges | None = None

    def make_room_for_lengths(self, buffers: Buffers) -> None:
        """Allocate memory for the lengths of the blocks that this rank is to hold."""
        self._index = HeldRanges(
            self._held, 8 * self.version.layout.whole(self._held).counts, buffers
        )

    def send_lengths(self, wire: Wire) -> int:
        """Send this rank's lengths to all that will hold its blocks; return the bytes."""
        assert self.lengths is not None
        assert self._index is not None
        return self._send(wire, address_of(self.lengths), 8 * self._counts, self._index)

    def make_room(self, buffers: Buffers) -> None:
        """Allocate memory for the blocks that this rank is to hold."""
        if self._index is None:
            sizes = self.version.sizes(self._held)
        else:
            sizes = Lengths(self._index).of_ranges()
        self._data = HeldRanges(self._held, sizes, buffers)

    def send(self, wire: Wire) -> int:
        """Send this rank's blocks to all that will hold them, and receive theirs."""
        version, counts = self.version, self._counts
        if self.lengths is None:
            assert version.block_bytes is not None
            sizes = counts * version.block_bytes
        else:
            summed = np.append(0, np.cumsum(self.lengths))
            ends = np.cumsum(counts)
            sizes = summed[ends] - summed[ends - counts]
        moved = self._send(wire, address_of(self.blocks), sizes, self._data)
        version.hold(self._data, self._index)
        return moved

    def _send(self, wire: Wire, start: int, sizes: Ints, target: HeldRanges) -> int:
        wire.keep(self)
        addresses = start + np.cumsum(sizes) - sizes
        crcs = checksums(addresses, sizes)
        copies = self.version.placement.copies
        return deliver(
            wire,
            self._peers,
            np.repeat(addresses, copies),
            np.repeat(sizes, copies),
            np.repeat(crcs, copies),
            target,
            self._sources,
        )
