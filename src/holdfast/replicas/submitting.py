"""Submitting: a new version is filled beside the old one."""

from __future__ import annotations

import numpy as np

from .buffers import Buffers
from .exchange import Wire, address_of
from .held import Held, checksums, deliver
from .inputs import Bytes
from .permutation import Ints
from .version import Lengths, Version


class Submission:
    """This rank's part in filling `version`: `blocks` of `lengths` (None: all of one size)."""

    def __init__(
        self,
        version: Version,
        blocks: Bytes,
        lengths: Ints | None,
        ranks: Ints,
        me: int,
        buffers: Buffers,
    ) -> None:
        self.version = version
        self.blocks = blocks
        self.lengths = lengths
        self._buffers = buffers
        layout, placement = version.layout, version.placement
        self._mine = layout.ranges_of(me)
        slots = placement.first_slots(self._mine)
        self._peers = ranks[version.places[slots]].ravel()
        my_slot = int(np.flatnonzero(ranks[version.places] == me)[0])
        held = placement.held_by(my_slot, version.settled)
        self._sources = layout.submitters[layout.run_of(held)]
        # How much room blocks of variable size take is known when their lengths have arrived.
        sizes = version.sizes(held) if lengths is None else 8 * layout.whole(held).counts
        self._first_part = Held(held, sizes, buffers)

    def run(self, wire: Wire) -> int:
        """Send this rank's blocks to all that will hold them, and receive theirs."""
        wire.keep(self)
        version, moved = self.version, 0
        count = version.layout.whole(self._mine).counts
        data, index = self._first_part, None
        if self.lengths is None:
            assert version.block_bytes is not None
            sizes = count * version.block_bytes
        else:
            index = self._first_part
            moved += self._send(wire, address_of(self.lengths), 8 * count, index)
            data = Held(index.ids, Lengths(index).of_ranges(), self._buffers)
            summed = np.append(0, np.cumsum(self.lengths))
            ends = np.cumsum(count)
            sizes = summed[ends] - summed[ends - count]
        moved += self._send(wire, address_of(self.blocks), sizes, data)
        version.hold(data, index)
        return moved

    def _send(self, wire: Wire, start: int, sizes: Ints, target: Held) -> int:
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
