"""Loading: who serves what to whom, and the bytes straight into the arrays of those who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from .._core import crc32c_at, xxh3_64
from ..errors import BadInput, BlocksLost
from .blocks import Bytes, as_blocks, as_bytes, as_ranges, as_writable
from .held_ranges import checksums, crc_parcels
from .layout import Pieces, joined
from .permutation import Ints
from .version import Version
from .wire import Group, Parcels, Wire, address_of, grouped

_TAG = 12

Reload = Callable[[int, int], Any]


class CopyRanges(NamedTuple):
    """Copies of ranges: the rank that holds each, and its range."""

    ranks: Ints
    ranges: Ints


class Load:
    """One rank's part in a load of `asked`: its own ranges, or in a plan those of every rank."""

    def __init__(
        self, version: Version, asked: Any, comm: MPI.Intracomm, out: Any, planned: bool
    ) -> None:
        self.version = version
        self._me = comm.rank
        layout = version.layout
        self._plan: tuple[Pieces, Ints] | None = None
        if planned:
            if not hasattr(asked, "__len__"):
                raise BadInput(
                    f"a plan must be a list with the ranges of each rank, not {asked!r:.60}"
                )
            if len(asked) != comm.size:
                raise BadInput(f"the plan is for {len(asked)} ranks, but there are {comm.size}")
            lists = [as_ranges(ranges, layout.blocks) for ranges in asked]
            who = np.repeat(np.arange(comm.size), [len(first) for first, _ in lists])
            first, count = (np.concatenate(column) for column in zip(*lists, strict=True))
            self.digest = xxh3_64(np.stack((who, first, count)).tobytes())
            pieces, parts = layout.cut(first, count)
            self._plan = pieces, np.repeat(who, parts)
            mine = lists[comm.rank]
        else:
            mine = as_ranges(asked, layout.blocks)
        self.pieces, _ = layout.cut(*mine)
        self._lengths: Ints | None = None
        self._out = None if out is None else as_writable(out)
        if version.block_bytes is not None:
            self._make_room(self.pieces.counts * version.block_bytes)
            self._check_room()

    @property
    def lengths(self) -> Ints:
        """The length of each block that was asked for."""
        if self._lengths is None:
            return np.full(int(self.pieces.counts.sum()), self.version.block_bytes)
        return self._lengths

    def choose(self, ranks: Ints, reload: Reload | None) -> None:
        """Choose who serves each piece; have `reload` supply those that nobody holds."""
        version, pieces = self.version, self.pieces
        if self._plan is not None:
            (ranges, _, _), requesters = self._plan
            self._plan_servers = version.servers(ranges, requesters, ranks)
        servers = version.my_servers(pieces.ranges, self._me, ranks)
        # The pieces by server, those that nobody has before all others.
        self._order = servers.argsort(kind="stable")
        self._servers = servers[self._order]
        groups = grouped(self._servers)
        nobody = groups.pop(0)[2] if groups and groups[0][0] < 0 else 0
        self._lost, self._groups = self._order[:nobody], groups
        self._supplied = {}
        if reload is not None:
            for piece in self._lost.tolist():
                first, count = int(pieces.first[piece]), int(pieces.counts[piece])
                self._supplied[piece] = supply(reload, first, count, version.block_bytes)

    def ask(self, words: Ints) -> None:
        """Tell each rank how many pieces it is asked for, and as many of them as there is room."""
        inline = (words.shape[1] - 1) // 2
        self._asked = np.empty((len(self._order), 2), np.int64)
        self._asked[:, 0] = self.pieces.first[self._order]
        self._asked[:, 1] = self.pieces.counts[self._order]
        if self._plan is None:
            for server, low, high in self._groups:
                pieces = self._asked[low : min(high, low + inline)].ravel()
                words[server, 0] = high - low
                words[server, 1 : 1 + len(pieces)] = pieces

    def listen(self, wire: Wire, words: Ints) -> None:
        """Learn which pieces are wanted from this rank, by itself too, in groups by requester."""
        if self._plan is not None:
            (_, first, count), requesters = self._plan
            serves = (self._plan_servers == self._me).nonzero()[0]
            self._requesters = grouped(requesters[serves])
            self._first, self._count = first[serves], count[serves]
        else:
            self._requesters, self._first, self._count = self._requests(wire, words)
        #: Where the ranges that they belong to are in what the rank holds.
        self.where = self.version.find(self._first)

    def _requests(self, wire: Wire, words: Ints) -> tuple[list[Group], Ints, Ints]:
        groups, end, comm, inline = [], 0, wire.comm, (words.shape[1] - 1) // 2
        for peer in words[:, 0].nonzero()[0].tolist():
            groups.append((peer, end, end + int(words[peer, 0])))
            end = groups[-1][2]
        wanted = np.empty((end, 2), np.int64)
        wire.keep(wanted, self._asked)
        receives = []
        for peer, low, high in groups:
            there = min(high - low, inline)
            wanted[low : low + there] = words[peer, 1 : 1 + 2 * there].reshape(-1, 2)
            if high - low > inline:
                receives.append(comm.Irecv(wanted[low + inline : high], peer, _TAG))
        sends = [
            comm.Isend(self._asked[low + inline : high], server, _TAG)
            for server, low, high in self._groups
            if high - low > inline
        ]
        wire.transfer(receives, sends)
        return groups, wanted[:, 0], wanted[:, 1]

    def run(self, wire: Wire) -> int:
        """Serve others and fetch what this rank asked for; return the bytes that travelled."""
        version, moved, count = self.version, 0, self.pieces.counts
        groups, served = self._requesters, (self.where, self._first, self._count)
        if version.block_bytes is None:
            self._lengths = lengths = np.empty(int(count.sum()), np.int64)
            wire.keep(lengths)
            ends = count.cumsum()
            moved += wire.exchange(
                (
                    Parcels(groups, *version.index_spans(*served)),
                    self._incoming(lengths, 8 * (ends - count), 8 * count),
                )
            )
            for piece, (_, given) in self._supplied.items():
                lengths[ends[piece] - count[piece] : ends[piece]] = given
            summed = np.append(0, np.cumsum(lengths))
            self._make_room(summed[ends] - summed[ends - count])
        wire.keep(self.data)
        outgoing = Parcels(groups, *version.spans(*served))
        incoming = self._incoming(self.data, self._starts, self._sizes)
        moved += self._exchange(wire, outgoing, incoming)
        for piece, (content, _) in self._supplied.items():
            start = int(self._starts[piece])
            self.data[start : start + len(content)] = content
        return moved

    def _exchange(self, wire: Wire, outgoing: Parcels, incoming: Parcels) -> int:
        """Move the blocks, and note which copies of ranges turned out to be damaged.

        All pieces are checked by those who get them, as they come in: that finds what happens on
        the way, too, and what has just come in need not be had from memory again. Parts of
        ranges have a checksum only once they are served, so those who serve them check the whole
        range before.
        """
        held, ranges = self.version.data, self.pieces.ranges
        parts = (~self.version.is_whole(self.where, self._count)).nonzero()[0]
        spoilt = held.damaged(self.where[parts])
        self.damaged = CopyRanges(np.full(len(spoilt), self._me), spoilt)
        sent = held.crcs[self.where]
        sent[parts] = checksums(outgoing.addresses[parts], outgoing.lengths[parts])
        expected, found = (np.zeros(len(self._order), np.uint32) for _ in range(2))
        wire.keep(expected, sent)
        addresses, sizes = incoming.addresses, incoming.lengths

        def check(low: int, high: int) -> None:
            crc32c_at(addresses[low:high].data, sizes[low:high].data, found[low:high].data)

        moved = wire.exchange(
            (outgoing, incoming),
            (crc_parcels(sent, outgoing.groups), crc_parcels(expected, incoming.groups)),
            arrived=check,
        )
        wrong = (found != expected).nonzero()[0]  # both 0 for what nobody has
        if len(wrong):
            copies = CopyRanges(self._servers[wrong], ranges[self._order[wrong]])
            self.damaged = CopyRanges(*map(np.append, self.damaged, copies))
        return moved

    def _make_room(self, sizes: Ints) -> None:
        """Let the pieces, of these sizes, lie in `out` if they fit, or else in an array of ours."""
        ends = sizes.cumsum()
        self._sizes, self._starts = sizes, ends - sizes
        total = int(ends[-1]) if len(ends) else 0
        fits = self._out is not None and self._out.nbytes == total
        self.data = self._out if self._out is not None and fits else np.empty(total, np.uint8)

    def _incoming(self, target: Any, starts: Ints, sizes: Ints) -> Parcels:
        order = self._order
        return Parcels(self._groups, address_of(target) + starts[order], sizes[order])

    def check(self) -> None:
        """Raise if pieces are still missing, or did not fit into `out`."""
        self._check_room()
        if not len(self._lost) or self._supplied:
            return
        first, count = self.pieces.first[self._lost], self.pieces.counts[self._lost]
        order = np.argsort(first, kind="stable")
        ranges = joined(first[order], count[order])
        shown = ", ".join(map(str, ranges[:5])) + (" ..." if len(ranges) > 5 else "")
        raise BlocksLost(
            f"every copy of blocks {shown} was lost; read them from their source (reload=)", ranges
        )

    def _check_room(self) -> None:
        wanted = self.data.nbytes
        if self._out is not None and self._out.nbytes != wanted:
            raise BadInput(
                f"out has {self._out.nbytes} bytes, but the requested blocks have {wanted}"
            )


def supply(reload: Reload, first: int, count: int, block_bytes: int | None) -> tuple[Bytes, Ints]:
    """Return blocks that the user's callback supplies, and their lengths."""
    content = reload(first, count)
    if block_bytes is None:
        data, lengths = as_blocks(content)
        if len(lengths) != count:
            raise BadInput(f"reload({first}, {count}) returned {len(lengths)} blocks")
        return data, lengths
    data = as_bytes(content, f"what reload({first}, {count}) returned")
    if data.nbytes != count * block_bytes:
        raise BadInput(
            f"reload({first}, {count}) returned {data.nbytes} bytes, not {count * block_bytes}"
        )
    return data, np.full(count, block_bytes, np.int64)
