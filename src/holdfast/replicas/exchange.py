"""Moves bytes between the memories of ranks, straight from where they lie to where they belong.

What to move is said by arrays of peers, addresses and lengths, in the same order for both ends of
each pair; nothing is packed and no identifiers travel. Large pieces go as messages of their own, a
few at a time (thousands of open messages make MPI search for each); small ones to the same
peer go as one message that a derived datatype gathers and scatters.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from .. import mpi
from .permutation import Ints

#: Pieces of at least this mean length travel as messages of their own (measured: 64 KiB breaks
#: even, and below it derived datatypes win by up to 70 times).
DIRECT_BYTES = 96 * 1024
#: Messages open at once for each peer.
WINDOW = 16
#: A longer piece is cut, because lengths inside a datatype are 32-bit integers.
LONGEST = 1 << 30
_TAG, _ROWS_TAG = 11, 13
#: Partners in a round of `swap_rows`: up to so many ranks it takes one round.
_RADIX = 64
#: How often to look for a message before looking whether a rank has died.
_LOOKS = 64
#: Messages in communicators that were given up; never to be freed.
_ABANDONED: list[MPI.Request] = []


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


class Wire:
    """A communicator, and what messages in it may use.

    When a rank dies, messages between others stay open, and MPI may still read from and write to
    their memory: it must stay allocated until nobody uses the communicator any more. Nor may a
    message be waited for that may yet fail: waiting frees it, and Open MPI ends the process when a
    message that was freed turns out to have failed. So we look until it has ended well.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self._memory: list[Any] = []
        self._rounds = _rounds(comm.size)
        self._sends: list[MPI.Request] = []

    def keep(self, *objects: Any) -> None:
        """Keep memory allocated until `release`, or for as long as the wire exists."""
        self._memory.extend(objects)

    def release(self) -> None:
        """Forget what was kept, all ranks having received everything.

        If a rank has died since, some of it is still in use; the next recovery deals with it.
        """
        try:
            self._watch(self._sends)
        except MPI.Exception:
            return
        _free(self._sends)
        self._sends.clear()
        self._memory.clear()

    def abandon(self) -> None:
        """Forget what was kept after a failure: all ranks that live have left the communicator."""
        _ABANDONED.extend(self._sends)

    def transfer(self, receives: list[MPI.Request], sends: list[MPI.Request]) -> None:
        """Wait until everything has been received here; what is sent may still be on its way."""
        self._sends.extend(sends)
        self._watch(receives)
        _free(receives)

    def exchange(self, outgoing: Parcels, incoming: Parcels) -> int:
        """Send and receive all pieces, local ones by copying; return the bytes that travelled.

        The caller keeps the memory.
        """
        comm, step = self.comm, 0
        sends, receives = _Side(comm, outgoing), _Side(comm, incoming)
        receiving, sending = receives.post(comm.Irecv, step), sends.post(comm.Isend, step)
        # Local copies overlap with the first messages.
        for target, source, length in zip(
            receives.local_addresses, sends.local_addresses, sends.local_lengths, strict=True
        ):
            ctypes.memmove(target, source, length)
        while receiving or sending:
            self.transfer(receiving, sending)
            step += 1
            if step * WINDOW < sends.longest:
                self._watch(sending)
            receiving, sending = receives.post(comm.Irecv, step), sends.post(comm.Isend, step)
        return sends.bytes + receives.bytes

    def _watch(self, requests: list[MPI.Request]) -> None:
        """Wait until these messages have ended well, without freeing them."""
        status = MPI.Status()
        for request in requests:
            looks = 0
            while not request.Get_status(status):
                looks += 1
                if looks % _LOOKS == 0 and mpi.is_broken(self.comm):
                    _ABANDONED.extend(requests)
                    raise MPI.Exception(MPI.ERR_OTHER)
            if status.error != MPI.SUCCESS:
                _ABANDONED.extend(requests)
                raise MPI.Exception(status.error)

    def swap_rows(self, rows: Ints) -> Ints:
        """Send row i to rank i, for all ranks; return the rows that came, by sender.

        Bruck's algorithm: a row travels by the digits of its distance, one round for each digit.
        Collectives of MPI would free their sends.
        """
        size, me = self.comm.size, self.comm.rank
        distances = np.arange(size)
        rows = rows[(distances + me) % size]
        for rounds in self._rounds:
            leaving = [rows[travels] for _, travels in rounds]
            arriving = [np.empty_like(part) for part in leaving]
            self.keep(leaving, arriving)
            receives = [
                self.comm.Irecv(part, (me - step) % size, _ROWS_TAG)
                for part, (step, _) in zip(arriving, rounds, strict=True)
            ]
            sends = [
                self.comm.Isend(part, (me + step) % size, _ROWS_TAG)
                for part, (step, _) in zip(leaving, rounds, strict=True)
            ]
            self.transfer(receives, sends)
            for part, (_, travels) in zip(arriving, rounds, strict=True):
                rows[travels] = part
        return rows[(me - distances) % size]

    def gather_objects(self, mine: Any) -> list[Any]:
        """Return what each rank says; for the rare cases where arrays are not enough."""
        size = self.comm.size
        content = np.frombuffer(pickle.dumps(mine), np.uint8)
        lengths = self.swap_rows(np.full((size, 1), content.nbytes, np.int64))[:, 0]
        parts = [np.empty(length, np.uint8) for length in lengths.tolist()]
        self.keep(content, parts)
        peers = np.arange(size)
        own = np.full(size, address_of(content)), np.full(size, content.nbytes)
        theirs = np.array([address_of(part) for part in parts])
        self.exchange(Parcels(peers, *own), Parcels(peers, theirs, lengths))
        return [pickle.loads(part.tobytes()) for part in parts]  # noqa: S301 (our own ranks)


def _rounds(size: int) -> list[list[tuple[int, Ints]]]:
    """Return, for each digit of a distance, the distances to send over and the rows that go."""
    distances, weight, rounds = np.arange(size), 1, []
    while weight < size:
        digits = distances // weight % _RADIX
        rounds.append(
            [
                (digit * weight, np.flatnonzero(digits == digit))
                for digit in range(1, min(_RADIX, -(-size // weight)))
            ]
        )
        weight *= _RADIX
    return rounds


def _free(requests: list[MPI.Request]) -> None:
    MPI.Request.Waitall(requests, [MPI.Status() for _ in requests])


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
        #: The most messages of their own that one peer gets.
        self.longest = 0
        edges = (np.flatnonzero(np.diff(peers[local:])) + 1 + local).tolist()
        for low, high in zip([local, *edges], [*edges, len(peers)], strict=True):
            if high == low:
                continue
            peer, where, sizes = int(peers[low]), addresses[low:high], lengths[low:high]
            if sizes.sum() >= DIRECT_BYTES * len(sizes) or len(sizes) == 1:
                self._direct.append((peer, where.tolist(), sizes.tolist()))
                self.longest = max(self.longest, len(sizes))
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
