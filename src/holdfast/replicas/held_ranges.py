"""The ranges that one rank holds: where in its memory they lie, and their checksums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core import crc32c_at
from .blocks import Bytes
from .buffers import Buffers
from .layout import distinct
from .permutation import Flags, Ints
from .wire import Group, Parcels, Wire, address_of, grouped

Checksums = npt.NDArray[np.uint32]


def checksums(addresses: Ints, sizes: Ints) -> Checksums:
    """CRC-32C of each piece of memory."""
    values = np.empty(len(sizes), np.uint32)
    crc32c_at(addresses.data, sizes.data, values.data)
    return values


class HeldRanges:
    """Ranges `ids`, ascending, of `sizes` bytes each, in memory that is yet to be filled."""

    def __init__(self, ids: Ints, sizes: Ints, buffers: Buffers) -> None:
        self.ids = ids
        self.sizes = sizes
        ends = np.cumsum(sizes)
        buffer = buffers.take(int(ends[-1]) if len(ends) else 0)
        self.addresses: Ints = address_of(buffer) + ends - sizes
        self.crcs = np.zeros(len(ids), np.uint32)
        #: Each buffer, beside which of the ranges lie in it.
        self.buffers: list[Bytes] = [buffer]
        self._buffer_of = np.zeros(len(ids), np.int64)

    @property
    def bytes(self) -> int:
        """Memory that is taken, that of ranges given up in a shared buffer included."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def find(self, ids: Ints) -> Ints:
        """Return the index of each range; all must be held."""
        return self.ids.searchsorted(ids)

    def wrong(self, where: Ints) -> Flags:
        """Tell which of the ranges with these indices no longer match their checksum."""
        found = checksums(self.addresses[where], self.sizes[where])
        return np.not_equal(found, self.crcs[where])

    def damaged(self, where: Ints) -> Ints:
        """Return those of the ranges with these indices that no longer match their checksum."""
        used = np.zeros(len(self.ids), np.bool_)
        used[where] = True
        where = used.nonzero()[0]
        return self.ids[where[self.wrong(where).nonzero()[0]]]

    def changed(self, keep: Flags, added: HeldRanges) -> HeldRanges:
        """Return what is held when only `keep` stays and `added` comes; no bytes are copied."""
        merged = HeldRanges.__new__(HeldRanges)
        ids = np.concatenate((self.ids[keep], added.ids))
        order = np.argsort(ids, kind="stable")
        merged.ids = ids[order]
        merged.sizes = np.concatenate((self.sizes[keep], added.sizes))[order]
        merged.addresses = np.concatenate((self.addresses[keep], added.addresses))[order]
        merged.crcs = np.concatenate((self.crcs[keep], added.crcs))[order]
        buffer_of = np.concatenate((self._buffer_of[keep], added._buffer_of + len(self.buffers)))[
            order
        ]
        used = distinct(buffer_of)
        merged._buffer_of = used.searchsorted(buffer_of)
        buffers = self.buffers + added.buffers
        merged.buffers = [buffers[index] for index in used.tolist()]
        return merged


def deliver(
    wire: Wire,
    peers: Ints,
    addresses: Ints,
    sizes: Ints,
    crcs: Checksums,
    target: HeldRanges,
    sources: Ints,
) -> int:
    """Send ranges and their checksums to `peers`, fill `target` from `sources`; return the bytes.

    Ranges that go to one peer must be in ascending order.
    """
    outward, inward = peers.argsort(kind="stable"), sources.argsort(kind="stable")
    to, origin = grouped(peers[outward]), grouped(sources[inward])
    sent, arrived = crcs[outward], np.empty(len(sources), np.uint32)
    wire.keep(sent, arrived, target)
    moved = wire.exchange(
        (
            Parcels(to, addresses[outward], sizes[outward]),
            Parcels(origin, target.addresses[inward], target.sizes[inward]),
        ),
        (crc_parcels(sent, to), crc_parcels(arrived, origin)),
    )
    target.crcs[inward] = arrived
    return moved


def crc_parcels(crcs: Checksums, groups: list[Group]) -> Parcels:
    """Return a piece for each group: the checksums of what it consists of."""
    peers = [(peer, index, index + 1) for index, (peer, _, _) in enumerate(groups)]
    low, high = np.array([group[1:] for group in groups], np.int64).reshape(-1, 2).T
    return Parcels(peers, address_of(crcs) + 4 * low, 4 * (high - low))
