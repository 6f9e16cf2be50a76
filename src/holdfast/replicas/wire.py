"""Moves bytes between the memories of ranks, straight from where they lie to where they belong.

What to move is said by arrays of addresses and lengths, in the same order for both ends of each
pair; nothing is packed and no identifiers travel. Large pieces go as messages of their own, a
few at a time (thousands of open messages make MPI search for each); small ones to the same
peer go as one message that a derived datatype gathers and scatters.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

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
#: Partners in a round of `swap_rows`.
_RADIX = 64
#: How often to look for a message before looking whether a rank has died.
_LOOKS = 64
#: Messages in communicators that were given up, never to be freed, and memory that they may use.
_ABANDONED: list[Any] = []


Group: TypeAlias = tuple[int, int, int]
#: Pieces from one to before another.
Span: TypeAlias = tuple[int, int]
_NO_PIECES: Span = (0, 0)


class Parcels(NamedTuple):
    """Pieces of memory to send or to receive, an entry for each in `addresses` and `lengths`.

    Those of one peer lie side by side: `groups` gives each peer, its first piece and its last + 1.
    """

    groups: list[Group]
    addresses: Ints
    lengths: Ints


def grouped(peers: Ints) -> list[Group]:
    """Return the groups of pieces whose peers these are, equal ones side by side."""
    if not len(peers):
        return []
    edges = ((peers[1:] != peers[:-1]).nonzero()[0] + 1).tolist()
    heads = [0, *edges]
    return list(zip(peers.take(heads).tolist(), heads, [*edges, len(peers)], strict=True))


def address_of(array: npt.NDArray[Any]) -> int:
    """Return where the bytes of a contiguous array begin."""
    return int(array.__array_interface__["data"][0])


def _ignored(low: int, high: int) -> None:
    """Nobody wants to know what has arrived."""


class Wire:
    """A communicator, and what messages in it may use.

    When a rank dies, messages between others stay open, and MPI still reads from and writes to
    their memory, even if the communicator is revoked and nobody waits for them any more: it must
    stay allocated until all ranks have drained the communicator. Nor may a message be waited for
    that may yet fail: waiting frees it, and Open MPI ends the process when a message that was freed
    turns out to have failed. So we look until it has ended well.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self._memory: list[Any] = []
        self._rounds = _rounds(comm.size)
        #: All other ranks, the right neighbour first.
        self._others = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
        self._sends: list[MPI.Request] = []
        self._receives: list[MPI.Request] = []
        #: Ranks that were sent to fragment by fragment.
        self._pushed: set[int] = set()

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
        self._memory.clear()
        self._pushed.clear()

    def drain(self) -> None:
        """Wait until no message arrives here any more, in a communicator that was revoked.

        What was being received from ranks that live still comes in; the rest is cancelled.
        """
        for request in self._receives:
            while not request.Get_status():
                request.Cancel()

    def abandon(self) -> None:
        """Forget what was kept after a failure: all ranks that live have drained the communicator.

        Only what is pushed to a rank that died may be read until the program ends.
        """
        _ABANDONED.extend(self._sends + self._receives)
        if self._pushed.intersection(mpi.failed_ranks(self.comm)):
            _ABANDONED.append(self._memory)

    def transfer(self, receives: list[MPI.Request], sends: list[MPI.Request]) -> None:
        """Wait until everything has been received here; what is sent may still be on its way."""
        self._receives.extend(receives)
        self._sends.extend(sends)
        self._watch(self._receives)
        _free(self._receives)

    def exchange(
        self, *pairs: tuple[Parcels, Parcels], arrived: Callable[[int, int], None] = _ignored
    ) -> int:
        """Send and receive all pieces, local ones by copying; return the bytes that travelled.

        Each pair has what goes out and what comes in. The caller keeps the memory. `arrived` is
        told which pieces of the first pair have come in, from one to before another, while they
        are likely to be in the processor's cache.
        """
        comm = self.comm
        sends, receives = (_Side(comm, parcels) for parcels in zip(*pairs, strict=True))
        self._pushed.update(sends.bundled)
        for step in range(max(1, -(-max(sends.longest, receives.longest) // WINDOW))):
            if 0 < step * WINDOW < sends.longest:
                self._watch(self._sends)
            spans = receives.post(comm.Irecv, step, self._receives)
            sends.post(comm.Isend, step, self._sends)
            if step == 0:  # local copies overlap with the first messages
                for mine, there in zip(receives.local, sends.local, strict=True):
                    ctypes.memmove(mine.address, there.address, there.length)
                    arrived(*mine.span)
            for request, span in zip(self._receives, spans, strict=True):
                self._watch((request,))
                arrived(*span)
            _free(self._receives)
        return sends.bytes + receives.bytes

    def _watch(self, requests: Iterable[MPI.Request]) -> None:
        """Wait until these messages have ended well, without freeing them."""
        status = MPI.Status()
        for request in requests:
            looks = 0
            while not request.Get_status(status):
                looks += 1
                if looks % _LOOKS == 0 and mpi.is_broken(self.comm):
                    raise MPI.Exception(MPI.ERR_OTHER)
            if status.error != MPI.SUCCESS:
                raise MPI.Exception(status.error)

    def swap_rows(self, rows: Ints) -> Ints:
        """Send row i to rank i, for all ranks; return the rows that came, by sender.

        Among many ranks by Bruck's algorithm: a row travels by the digits of its distance, one
        round for each digit. Collectives of MPI would free their sends.
        """
        comm, size, me = self.comm, self.comm.size, self.comm.rank
        if size <= _RADIX:  # one round, every row straight to its place
            arrived = rows.copy()
            self.keep(rows, arrived)
            receives = [comm.Irecv(arrived[peer], peer, _ROWS_TAG) for peer in self._others]
            sends = [comm.Isend(rows[peer], peer, _ROWS_TAG) for peer in self._others]
            self.transfer(receives, sends)
            return arrived
        distances = np.arange(size)
        rows = rows[(distances + me) % size]
        for partners in self._rounds:
            leaving = [rows[travels] for _, travels in partners]
            arriving = [np.empty_like(part) for part in leaving]
            self.keep(leaving, arriving)
            receives = [
                comm.Irecv(part, (me - step) % size, _ROWS_TAG)
                for part, (step, _) in zip(arriving, partners, strict=True)
            ]
            sends = [
                comm.Isend(part, (me + step) % size, _ROWS_TAG)
                for part, (step, _) in zip(leaving, partners, strict=True)
            ]
            self.transfer(receives, sends)
            for part, (_, travels) in zip(arriving, partners, strict=True):
                rows[travels] = part
        return rows[(me - distances) % size]

    def gather_objects(self, mine: Any) -> list[Any]:
        """Return what each rank says; for the rare cases where arrays are not enough."""
        size = self.comm.size
        content = np.frombuffer(pickle.dumps(mine), np.uint8)
        lengths = self.swap_rows(np.full((size, 1), content.nbytes, np.int64))[:, 0]
        parts = [np.empty(length, np.uint8) for length in lengths.tolist()]
        self.keep(content, parts)
        own = np.full(size, address_of(content)), np.full(size, content.nbytes)
        theirs = np.array([address_of(part) for part in parts])
        peers = grouped(np.arange(size))
        self.exchange((Parcels(peers, *own), Parcels(peers, theirs, lengths)))
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
    requests.clear()


class _Local(NamedTuple):
    """A piece that stays in this rank's memory."""

    address: int
    length: int
    span: Span


class _Messages(NamedTuple):
    """What one peer gets or gives: pieces of memory, and what has gone when each of them has."""

    peer: int
    addresses: list[int]
    lengths: list[int]
    spans: list[Span]


class _Side:
    """The sends, or the receives, of one rank, as groups by peer."""

    def __init__(self, comm: MPI.Intracomm, parcels: Iterable[Parcels]) -> None:
        me, size = comm.rank, comm.size
        self.local: list[_Local] = []
        self.bytes = 0
        #: The most messages of their own that one peer gets.
        self.longest = 0
        self._bundles: list[_Messages] = []
        self._direct: list[_Messages] = []
        for number, (groups, all_addresses, all_lengths) in enumerate(parcels):
            addresses, lengths = all_addresses.tolist(), all_lengths.tolist()
            # Everybody begins with its right neighbour, so that no rank is everybody's first.
            for peer, low, high in sorted(groups, key=lambda group: (group[0] - me) % size):
                where, sizes = addresses[low:high], lengths[low:high]
                spans = [(i, i + 1) for i in range(low, high)]
                if number:  # only pieces of the first parcels are followed
                    spans = [_NO_PIECES] * len(spans)
                if peer == me:
                    self.local.extend(map(_Local, where, sizes, spans))
                    continue
                total = sum(sizes)
                self.bytes += total
                messages = _Messages(peer, where, sizes, spans)
                if total > LONGEST:
                    messages = _shortened(messages)
                count = len(messages.lengths)
                if total >= DIRECT_BYTES * count or count == 1:
                    self._direct.append(messages)
                    self.longest = max(self.longest, count)
                else:
                    bundle = messages._replace(spans=[_NO_PIECES if number else (low, high)])
                    self._bundles.append(bundle)

    @property
    def bundled(self) -> list[int]:
        """The peers whose pieces go as one message; MPI moves it fragment by fragment."""
        return [messages.peer for messages in self._bundles]

    def post(
        self, start: Callable[..., MPI.Request], step: int, requests: list[MPI.Request]
    ) -> list[Span]:
        """Start the messages of one step; return what has gone when each of them has.

        Both ends of a pair cut their steps alike.
        """
        going: list[Span] = []
        if step == 0:
            for peer, addresses, lengths, spans in self._bundles:
                gather = MPI.BYTE.Create_hindexed(lengths, addresses).Commit()
                requests.append(start([MPI.BOTTOM, 1, gather], peer, _TAG))
                gather.Free()
                going += spans
        low, high = step * WINDOW, (step + 1) * WINDOW
        for peer, addresses, lengths, spans in self._direct:
            for address, length in zip(addresses[low:high], lengths[low:high], strict=True):
                memory = MPI.buffer.fromaddress(address, length)
                requests.append(start([memory, MPI.BYTE], peer, _TAG))
            going += spans[low:high]
        return going


def _shortened(messages: _Messages) -> _Messages:
    """Cut pieces that are too long for a message; one has gone when its last part has."""
    peer, *pieces = messages
    parts = [
        (
            address + offset,
            min(length - offset, LONGEST),
            span if offset + LONGEST >= length else _NO_PIECES,
        )
        for address, length, span in zip(*pieces, strict=True)
        for offset in range(0, max(length, 1), LONGEST)
    ]
    addresses, lengths, spans = (list(column) for column in zip(*parts, strict=True))
    return _Messages(peer, addresses, lengths, spans)
