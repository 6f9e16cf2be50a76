"""Moves bytes between the memories of ranks, straight from where they lie to where they belong.

What to move is said by arrays of peers, addresses and lengths, in the same order for both ends of
each pair; nothing is packed and no identifiers travel. Large pieces go as messages of their own, a
few at a time (thousands of open messages make MPI search for each); small ones to the same
peer go as one message that a derived datatype gathers and scatters.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from .permutation import Ints

#: Pieces of at least this mean length travel as messages of their own (measured: 64 KiB breaks
#: even, and below it derived datatypes win by up to 70 times).
DIRECT_BYTES = 96 * 1024
#: Messages open at once for each peer.
WINDOW = 16
#: A longer piece is cut, because lengths inside a datatype are 32-bit integers.
LONGEST = 1 << 30
_TAG = 11


class Parcels(NamedTuple):
    """Pieces of memory to send or to receive: an entry per piece in each array."""

    peers: Ints
    addresses: Ints
    lengths: Ints


NOTHING = Parcels(*(np.empty(0, np.int64) for _ in range(3)))


def join(*parts: Parcels) -> Parcels:
    """Put lists of pieces after one another; both ends must do it alike."""
    return Parcels(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def address_of(array: npt.NDArray[Any]) -> int:
    """Return where the bytes of a contiguous array begin."""
    return int(array.__array_interface__["data"][0])


def exchange(comm: MPI.Intracomm, outgoing: Parcels, incoming: Parcels) -> int:
    """Send and receive all pieces, local ones by copying; return the bytes that travelled."""
    sends, receives = _Side(comm, outgoing), _Side(comm, incoming)
    step = 0
    requests = receives.post(comm.Irecv, step) + sends.post(comm.Isend, step)
    # Local copies overlap with the first messages.
    for target, source, length in zip(
        receives.local_addresses, sends.local_addresses, sends.local_lengths, strict=True
    ):
        ctypes.memmove(target, source, length)
    while requests:
        MPI.Request.Waitall(requests)
        step += 1
        requests = receives.post(comm.Irecv, step) + sends.post(comm.Isend, step)
    return sends.bytes + receives.bytes


class _Side:
    """The sends, or the receives, of one rank, as groups by peer."""

    def __init__(self, comm: MPI.Intracomm, parcels: Parcels) -> None:
        peers, addresses, lengths = _shortened(parcels)
        # Everybody begins with its right neighbour, so that no rank is everybody's first.
        distance = (peers - comm.rank) % comm.size
        order = np.argsort(distance, kind="stable")
        peers, addresses, lengths = peers[order], addresses[order], lengths[order]
        local = int((distance == 0).sum())
        self.local_addresses: list[int] = addresses[:local].tolist()
        self.local_lengths: list[int] = lengths[:local].tolist()
        self.bytes = int(lengths[local:].sum())
        self._bundles: list[tuple[int, Ints, Ints]] = []
        self._direct: list[tuple[int, list[int], list[int]]] = []
        edges = (np.flatnonzero(np.diff(peers[local:])) + 1 + local).tolist()
        for low, high in zip([local, *edges], [*edges, len(peers)], strict=True):
            if high == low:
                continue
            peer, where, sizes = int(peers[low]), addresses[low:high], lengths[low:high]
            if sizes.sum() >= DIRECT_BYTES * len(sizes) or len(sizes) == 1:
                self._direct.append((peer, where.tolist(), sizes.tolist()))
            else:
                self._bundles.append((peer, where, sizes))

    def post(self, start: Callable[..., MPI.Request], step: int) -> list[MPI.Request]:
        """Start the messages of one step; both ends of a pair cut their steps alike."""
        requests = []
        if step == 0:
            for peer, where, sizes in self._bundles:
                gather = MPI.BYTE.Create_hindexed(sizes.tolist(), where.tolist()).Commit()
                requests.append(start([MPI.BOTTOM, 1, gather], peer, _TAG))
                gather.Free()
        window = slice(step * WINDOW, (step + 1) * WINDOW)
        for peer, addresses, lengths in self._direct:
            for address, length in zip(addresses[window], lengths[window], strict=True):
                memory = MPI.buffer.fromaddress(address, length)
                requests.append(start([memory, MPI.BYTE], peer, _TAG))
        return requests


def _shortened(parcels: Parcels) -> Parcels:
    peers, addresses, lengths = parcels
    if not len(lengths) or lengths.max() <= LONGEST:
        return parcels
    parts = np.maximum(-(-lengths // LONGEST), 1)
    owner = np.repeat(np.arange(len(lengths)), parts)
    offset = (np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)) * LONGEST
    return Parcels(
        peers[owner], addresses[owner] + offset, np.minimum(lengths[owner] - offset, LONGEST)
    )
