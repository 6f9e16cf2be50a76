"""Submitting: a new version is filled beside the old one."""

from __future__ import annotations

import numpy as np

from .exchange import Wire, address_of
from .held import Held, checksums, deliver
from .inputs import Bytes
from .permutation import Ints
from .version import Version


class Submission:
    """This rank's part in filling `version`: `blocks` of `lengths` (None: all of one size)."""

    def __init__(
        self, version: Version, blocks: Bytes, lengths: Ints | None, ranks: Ints, me: int
    ) -> None:
        self.version = version
        self.blocks = blocks
        self.lengths = lengths
        layout, placement = version.layout, version.placement
        self._mine = layout.ranges_of(me)
        slots = placement.first_slots(self._mine)
        self._peers = ranks[version.places[slots]].ravel()
        my_slot = int(np.flatnonzero(ranks[version.places] == me)[0])
        self._held = placement.held_by(my_slot, version.settled)
        self._sources = layout.submitters[layout.run_of(self._held)]
        if lengths is None:
            version.data = Held(self._held, version.sizes(self._held))
        else:
            # How much room the blocks take is known when their lengths have arrived.
            version.index = Held(self._held, 8 * layout.whole(self._held).counts)

    def run(self, wire: Wire) -> int:
        """Send this rank's blocks to all that will hold them, and receive theirs."""
        wire.keep(self)
        version, moved = self.version, 0
        count = version.layout.whole(self._mine).counts
        if self.lengths is None:
            assert version.block_bytes is not None
            sizes = count * version.block_bytes
        else:
            assert version.index is not None
            moved += self._send(wire, address_of(self.lengths), 8 * count, version.index)
            version.set_index(version.index)
            version.data = Held(self._held, version.sizes(self._held))
            summed = np.append(0, np.cumsum(self.lengths))
            ends = np.cumsum(count)
            sizes = summed[ends] - summed[ends - count]
        return moved + self._send(wire, address_of(self.blocks), sizes, version.data)

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
