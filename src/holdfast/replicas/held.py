"""The ranges that one rank holds: where in its memory they lie, and their checksums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from .._core import crc32c
from .exchange import NOTHING, Parcels, Wire, address_of, join
from .permutation import Flags, Ints

#: Touching a fresh buffer once per huge page is cheaper than letting MPI do it page by page.
_HUGE_PAGE = 2 << 20


def _view(address: int, size: int) -> Any:
    return MPI.buffer.fromaddress(address, size)


def checksums(addresses: Ints, sizes: Ints) -> npt.NDArray[np.uint32]:
    """CRC-32C of each piece of memory."""
    pieces = zip(addresses.tolist(), sizes.tolist(), strict=True)
    values = (crc32c(_view(at, size)) for at, size in pieces)
    return np.fromiter(values, np.uint32, len(sizes))


class Held:
    """Ranges `ids`, ascending, of `sizes` bytes each, in fresh memory that is yet to be filled."""

    def __init__(self, ids: Ints, sizes: Ints) -> None:
        self.ids = ids
        self.sizes = sizes
        ends = np.cumsum(sizes)
        buffer = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        buffer[::_HUGE_PAGE] = 0
        self.addresses: Ints = address_of(buffer) + ends - sizes
        self.crcs = np.zeros(len(ids), np.uint32)
        #: Each buffer, beside which of the ranges lie in it.
        self._buffers: list[npt.NDArray[Any]] = [buffer]
        self._buffer_of = np.zeros(len(ids), np.int64)

    @property
    def bytes(self) -> int:
        """Memory that is taken, that of ranges given up in a shared buffer included."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def find(self, ids: Ints) -> Ints:
        """Return the index of each range; all must be held."""
        return np.searchsorted(self.ids, ids)

    def damaged(self, ids: Ints) -> Ints:
        """Return those of `ids` whose bytes no longer match their checksum."""
        ids = np.unique(ids)
        where = self.find(ids)
        wrong = checksums(self.addresses[where], self.sizes[where]) != self.crcs[where]
        return np.asarray(ids[wrong])

    def changed(self, keep: Flags, added: Held) -> Held:
        """Return what is held when only `keep` stays and `added` comes; no bytes are copied."""
        merged = Held.__new__(Held)
        ids = np.concatenate((self.ids[keep], added.ids))
        order = np.argsort(ids, kind="stable")
        merged.ids = ids[order]
        merged.sizes = np.concatenate((self.sizes[keep], added.sizes))[order]
        merged.addresses = np.concatenate((self.addresses[keep], added.addresses))[order]
        merged.crcs = np.concatenate((self.crcs[keep], added.crcs))[order]
        buffer_of = np.concatenate((self._buffer_of[keep], added._buffer_of + len(self._buffers)))[
            order
        ]
        used, merged._buffer_of = np.unique(buffer_of, return_inverse=True)
        buffers = self._buffers + added._buffers
        merged._buffers = [buffers[index] for index in used.tolist()]
        return merged


def deliver(
    wire: Wire,
    peers: Ints,
    addresses: Ints,
    sizes: Ints,
    crcs: npt.NDArray[np.uint32],
    target: Held,
    sources: Ints,
) -> int:
    """Send ranges and their checksums to `peers`, fill `target` from `sources`; return the bytes.

    Ranges that go to one peer must be in ascending order.
    """
    outward, inward = np.argsort(peers, kind="stable"), np.argsort(sources, kind="stable")
    sent, arrived = crcs[outward], np.empty(len(sources), np.uint32)
    wire.keep(sent, arrived, target)
    moved = wire.exchange(
        join(Parcels(peers, addresses, sizes), _crc_parcels(sent, peers[outward])),
        join(
            Parcels(sources, target.addresses, target.sizes), _crc_parcels(arrived, sources[inward])
        ),
    )
    target.crcs[inward] = arrived
    return moved


def _crc_parcels(crcs: npt.NDArray[np.uint32], peers: Ints) -> Parcels:
    if not len(peers):
        return NOTHING
    heads = np.append(0, np.flatnonzero(np.diff(peers)) + 1)
    counts = np.diff(np.append(heads, len(peers)))
    return Parcels(peers[heads], address_of(crcs) + 4 * heads, 4 * counts)
