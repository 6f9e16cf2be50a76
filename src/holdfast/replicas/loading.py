"""Loading: who serves what to whom, and the bytes straight into the arrays of those who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from .._core import xxh3_64
from ..errors import BadInput, BlocksLost
from .exchange import Parcels, Wire, address_of
from .inputs import Bytes, as_blocks, as_bytes, as_ranges, as_writable
from .layout import Pieces, joined
from .permutation import Ints
from .version import Version

#: Requests of up to this many pieces travel with the first exchange of a call.
INLINE = 2
WORDS = 1 + 2 * INLINE
_TAG = 12

Reload = Callable[[int, int], Any]


class Load:
    """One rank's part in a load of `asked`: its own ranges, or in a plan those of every rank."""

    def __init__(
        self, version: Version, asked: Any, comm: MPI.Intracomm, out: Any, planned: bool
    ) -> None:
        self.version = version
        self.planned = planned
        self._me = comm.rank
        blocks = version.layout.blocks
        if planned:
            if len(asked) != comm.size:
                raise BadInput(f"the plan is for {len(asked)} ranks; there are {comm.size}")
            lists = [as_ranges(ranges, blocks) for ranges in asked]
            who = np.repeat(np.arange(comm.size), [len(first) for first, _ in lists])
            first, count = (np.concatenate(column) for column in zip(*lists, strict=True))
        else:
            first, count = as_ranges(asked, blocks)
            who = np.full(len(first), comm.rank)
        self._all, request = version.layout.cut(first, count)
        self._requesters = who[request]
        self.digest = xxh3_64(np.stack((who, first, count)).tobytes()) if planned else 0
        self._mine = self._requesters == comm.rank
        self.pieces = self._all.pick(self._mine)
        self._out = None if out is None else as_writable(out)
        if version.block_bytes is not None and self._out is not None:
            self._check_room(int(self.pieces.counts.sum()) * version.block_bytes)

    def choose(self, ranks: Ints, reload: Reload | None) -> None:
        """Choose who serves each piece; have `reload` supply those that nobody holds."""
        servers = self.version.servers(self._all.ranges, self._requesters, ranks)
        self._all_servers = servers
        self._servers = servers[self._mine]
        remote = np.flatnonzero((self._servers >= 0) & (self._servers != self._me))
        # The pieces to ask others for, by server.
        self._remote = remote[np.argsort(self._servers[remote], kind="stable")]
        lost = np.flatnonzero(self._servers < 0).tolist() if reload is not None else []
        self._supplied = {
            piece: supply(
                reload,
                int(self.pieces.first[piece]),
                int(self.pieces.counts[piece]),
                self.version.block_bytes,
            )
            for piece in lost
            if reload is not None
        }

    def words(self, size: int) -> Ints:
        """Return what to tell each rank: how many pieces it is asked for, and the first of them."""
        words = np.zeros((size, WORDS), np.int64)
        if not self.planned:
            servers, pieces = self._servers[self._remote], self.pieces.pick(self._remote)
            words[:, 0] = np.bincount(servers, minlength=size)
            turn = np.arange(len(servers)) - (np.cumsum(words[:, 0]) - words[:, 0])[servers]
            few = turn < INLINE
            words[servers[few], 1 + 2 * turn[few]] = pieces.first[few]
            words[servers[few], 2 + 2 * turn[few]] = pieces.counts[few]
        return words

    def _requests(self, wire: Wire, words: Ints) -> tuple[Pieces, Ints]:
        """Return the pieces that others want from this rank, and who wants each."""
        if self.planned:
            serves = np.flatnonzero((self._all_servers == self._me) & ~self._mine)
            return self._all.pick(serves), self._requesters[serves]
        comm, counts = wire.comm, words[:, 0]
        ends = np.cumsum(counts)
        wanted = np.empty((int(counts.sum()), 2), np.int64)
        for turn in range(INLINE):
            some = np.flatnonzero(counts > turn)
            wanted[(ends - counts)[some] + turn] = words[some, 1 + 2 * turn : 3 + 2 * turn]
        pieces = self.pieces.pick(self._remote)
        asked = np.bincount(self._servers[self._remote], minlength=comm.size)
        starts = np.cumsum(asked) - asked
        mine = np.stack((pieces.first, pieces.counts), axis=1)
        wire.keep(wanted, mine)
        receives = [
            comm.Irecv(wanted[ends[peer] - counts[peer] + INLINE : ends[peer]], peer, _TAG)
            for peer in np.flatnonzero(counts > INLINE).tolist()
        ]
        sends = [
            comm.Isend(mine[starts[peer] + INLINE : starts[peer] + asked[peer]], peer, _TAG)
            for peer in np.flatnonzero(asked > INLINE).tolist()
        ]
        wire.transfer(receives, sends)
        first, count = wanted.T
        return (
            Pieces(self.version.layout.range_at(first), first, count),
            np.repeat(np.arange(comm.size), counts),
        )

    def run(self, wire: Wire, words: Ints) -> int:
        """Serve others and fetch what this rank asked for; return the bytes that travelled."""
        version = self.version
        wanted, requesters = self._requests(wire, words)
        own = self.pieces.pick(self._servers == self._me)
        serve = Pieces(*(np.concatenate(pair) for pair in zip(own, wanted, strict=True)))
        to = np.concatenate((np.full(len(own.ranges), self._me), requesters))
        self.served = serve.ranges
        moved, count = 0, self.pieces.counts
        if version.block_bytes is not None:
            sizes = count * version.block_bytes
            self.lengths = np.full(int(count.sum()), version.block_bytes)
        else:
            self.lengths = lengths = np.empty(int(count.sum()), np.int64)
            wire.keep(lengths)
            ends = np.cumsum(count)
            targets = self._incoming(lengths, 8 * (ends - count), 8 * count)
            moved += wire.exchange(Parcels(to, *version.index_spans(serve)), targets)
            for piece, (_, given) in self._supplied.items():
                lengths[ends[piece] - count[piece] : ends[piece]] = given
            summed = np.append(0, np.cumsum(lengths))
            sizes = summed[ends] - summed[ends - count]
        total = int(sizes.sum())
        fits = self._out is not None and self._out.nbytes == total
        self.data = target = (
            self._out if fits and self._out is not None else np.empty(total, np.uint8)
        )
        wire.keep(target)
        starts = np.cumsum(sizes) - sizes
        targets = self._incoming(target, starts, sizes)
        moved += wire.exchange(Parcels(to, *version.spans(serve)), targets)
        for piece, (content, _) in self._supplied.items():
            target[starts[piece] : starts[piece] + sizes[piece]] = content
        return moved

    def _incoming(self, target: Any, starts: Ints, sizes: Ints) -> Parcels:
        there = self._servers >= 0
        return Parcels(self._servers[there], address_of(target) + starts[there], sizes[there])

    def check(self) -> None:
        """Raise if pieces are still missing, or did not fit into `out`."""
        if self._out is not None:
            self._check_room(self.data.nbytes)
        lost = self.pieces.pick(self._servers < 0)
        if not len(lost.first) or self._supplied:
            return
        order = np.argsort(lost.first, kind="stable")
        ranges = joined(lost.first[order], lost.counts[order])
        shown = ", ".join(map(str, ranges[:5])) + (" ..." if len(ranges) > 5 else "")
        raise BlocksLost(
            f"every copy of blocks {shown} was lost; read them from their source (reload=)", ranges
        )

    def _check_room(self, wanted: int) -> None:
        if self._out is not None and self._out.nbytes != wanted:
            raise BadInput(f"out has {self._out.nbytes} bytes; the blocks asked for have {wanted}")


def supply(reload: Reload, first: int, count: int, block_bytes: int | None) -> tuple[Bytes, Ints]:
    """Return blocks that the user's callback supplies, and their lengths."""
    content = reload(first, count)
    if block_bytes is None:
        data, lengths = as_blocks(content)
        if len(lengths) != count:
            raise BadInput(f"reload({first}, {count}) gave {len(lengths)} blocks")
        return data, lengths
    data = as_bytes(content, f"what reload({first}, {count}) gave")
    if data.nbytes != count * block_bytes:
        raise BadInput(
            f"reload({first}, {count}) gave {data.nbytes} bytes, not {count * block_bytes}"
        )
    return data, np.full(count, block_bytes, np.int64)
