"""`Replicas`: r copies of every block in the memory of the ranks of an MPI program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from mpi4py import MPI

from .. import mpi
from .._core import xxh3_64
from ..errors import BadInput, Full
from ..units import parse_size
from .blocks import Blocks, Bytes, as_name, as_whole
from .buffers import Buffers
from .contribution import Contribution
from .layout import Layout
from .load import CopyRanges, Load, Reload
from .permutation import Flags, Ints
from .placement import Placement
from .recovery import Recovery, Regrouped, regroup
from .rendezvous import Rendezvous
from .restoration import Restoration
from .submission import Submission
from .version import Version

Ranges = Iterable[tuple[int, int]]

#: Bytes in a range where the user says nothing; docs/explanation/replicas.md says why.
RANGE_BYTES = "256 KiB"


@dataclass(frozen=True)
class Memory:
    """Bytes on this rank: `stored` now, `peak` at most so far, `in_flight` in the last call.

    `idle` is what an earlier version left for the next one, or what was laid aside for copies to
    be restored; the system may take it at any time.
    """

    stored: int
    peak: int
    in_flight: int
    idle: int


@dataclass(frozen=True)
class Restored:
    """What `restore_copies` did, on all ranks together.

    Every block has `copies` copies now, except those in `lost`, by data set.
    """

    copies: int
    new_copies: int
    lost: dict[str, list[tuple[int, int]]]


class Replicas:
    """Keeps `copies` copies of every block in the memory of the ranks of `comm`.

    All methods but `guard` and `memory` are collective: every rank of `store.comm` calls them, in
    the same order. `store.comm` is a duplicate of `comm`, and a smaller or refilled one after
    `recover`; a program that is to survive failures makes its own MPI calls in it, too.

    Blocks travel and are found in ranges of about `range_bytes`, dealt out in an order that `seed`
    permutes, so that the blocks of one rank can be had from many; `permute=False` is for programs
    that always load everything. `nodes` names the host of each rank where MPI does not know it.
    `distribution` chooses where restored copies go: "A", double hashing, or "B", a permutation.
    """

    def __init__(
        self,
        comm: MPI.Intracomm | mpi.Crew,
        copies: int = 4,
        range_bytes: int | str = RANGE_BYTES,
        permute: bool = True,
        seed: int = 0,
        nodes: Sequence[str | int] | None = None,
        distribution: Literal["A", "B"] = "A",
    ) -> None:
        self._crew = comm if isinstance(comm, mpi.Crew) else None
        given = comm.comm if isinstance(comm, mpi.Crew) else comm
        if given is None:
            raise BadInput("this rank is a spare; call Replicas.join(crew) instead")
        if not isinstance(given, MPI.Intracomm):
            raise BadInput(f"comm is {given!r:.60}; pass a communicator such as MPI.COMM_WORLD")
        self._meeting = Rendezvous(mpi.settle(given.Dup()))
        problem = None
        try:
            copies, seed = as_whole(copies, "copies", 1), as_whole(seed, "seed", 0)
            self._range_bytes = parse_size(range_bytes)
            labels = [] if nodes is None else [str(label) for label in nodes]
            problem = _refusal(self.comm.size, copies, self._range_bytes, nodes, distribution)
        except Exception as error:  # all ranks must hear of it
            problem, labels = str(error), []
        options = (copies, range_bytes, permute, seed, labels, distribution)
        call = f"Replicas{options}"
        host = labels[self.comm.rank] if labels and not problem else MPI.Get_processor_name()
        self._label = xxh3_64(host.encode()) >> 1
        self._labels = self._meeting.meet(call, problem, self._meeting.words(self._label))[:, 0]
        self._meeting.conclude()
        self._copies = copies
        self._permute = permute
        self._seed = seed
        self._distribution = distribution
        self._place = self.comm.rank
        self._ranks: Ints = np.arange(self.comm.size)
        self._versions: dict[str, Version] = {}
        self._buffers = Buffers()
        self._peak = 0
        self._in_flight = 0
        self.last_recovery: Recovery | None = None

    @classmethod
    def join(cls, crew: mpi.Crew) -> Replicas | None:
        """Wait, on a spare, until it takes a dead rank's place; None if the others finish first.

        The store that it returns is in the state of the others' after `recover`.
        """
        store = cls.__new__(cls)
        store._crew = crew
        store._label = xxh3_64(MPI.Get_processor_name().encode()) >> 1
        while crew.wait():
            nothing = np.empty(0, np.int64)
            group = regroup(crew.everyone, -1, store._label, nothing, dict)
            crew.everyone = group.everyone
            if group.comm is not None:
                store.__dict__.update(group.state)
                store._place = int(group.places[group.comm.rank])
                store._meeting = Rendezvous(group.comm)
                store._peak = store._in_flight = 0
                store._buffers = Buffers()
                crew.spare = False
                store._take(group)
                return store
            if not len(group.places):
                break
        return None

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of those who are at work."""
        return self._meeting.comm

    @property
    def copies(self) -> int:
        """How many copies a block gets now: as many as wanted, or one on each rank that is left."""
        return min(self._copies, self.comm.size)

    @property
    def versions(self) -> dict[str, int]:
        """The version of each data set that stands."""
        return {name: version.number for name, version in self._versions.items()}

    def guard(self) -> AbstractContextManager[None]:
        """Turn failures of ranks that MPI reports inside the block into `RanksFailed`."""
        return self._meeting.guard()

    # Submitting.

    def submit(
        self, data: Any, first: int | None = None, block_bytes: int = 64, name: str = "default"
    ) -> int:
        """Store this rank's blocks, the next version of data set `name`; return its number.

        `data` is any buffer or numeric array; its blocks are numbered from `first`, by default
        after those of the ranks before.
        """
        return self._submit([Contribution.whole(data, first, block_bytes, name)])[name]

    def submit_many(
        self, blocks: Iterable[Any], first: int | None = None, name: str = "default"
    ) -> int:
        """Store blocks given one by one, of equal or of different lengths, like `submit`."""
        return self._submit([Contribution.one_by_one(blocks, first, name)])[name]

    def submit_together(
        self, sets: Mapping[str, Any], block_bytes: int | Mapping[str, int] = 64
    ) -> dict[str, int]:
        """Store this rank's blocks of several data sets, like `submit`; return the versions.

        After a failure all of them stand or none does: data that belong together, such as a state
        and its step, are never of different versions. `block_bytes` may be given by name.
        """
        try:
            sizes = (
                block_bytes
                if isinstance(block_bytes, Mapping)
                else dict.fromkeys(sets, block_bytes)
            )
            given = [
                Contribution.whole(data, None, sizes.get(name, 64), name)
                for name, data in sets.items()
            ]
            unknown = sizes.keys() - sets.keys()
        except Exception as error:  # all ranks must hear of it
            given, unknown = (
                [Contribution.wrong(f"sets is not a mapping of names to data ({error})")],
                set(),
            )
        if not given:
            given = [Contribution.wrong("sets is empty; name at least one data set")]
        if unknown:
            given = [
                Contribution.wrong(f"block_bytes names {sorted(unknown)}, which are not in sets")
            ]
        return self._submit(given)

    def _submit(self, given: Sequence[Contribution]) -> dict[str, int]:
        """Fill the next versions of some data sets beside the old ones, and agree on them."""
        calls = "; ".join(one.call for one in given)
        wrong = next((one for one in given if one.problem is not None), Contribution())
        versions: dict[str, Version] = {}
        self._in_flight = 0
        for one in given:
            said = self._meeting.meet(
                calls, wrong.problem, self._meeting.words(*one.words), wrong.cause
            )
            versions[one.name] = self._fill(one, said)
        new = sum(version.bytes for version in versions.values())
        self._peak = max(self._peak, self.memory().stored + new)
        self._meeting.conclude()
        for name, version in versions.items():
            old, self._versions[name] = self._versions.get(name), version
            if old is not None:
                self._buffers.give(old.buffers, self.memory().stored)
        others = self.comm.size - self.copies
        if others:
            # What a dead rank held goes to those that do not hold it yet, a little unevenly.
            stored = self.memory().stored
            with suppress(MemoryError):
                self._buffers.reserve(min(5 * stored // (4 * others), stored // 2))
        return {name: version.number for name, version in versions.items()}

    def _fill(self, given: Contribution, said: Ints) -> Version:
        """Fill a version with what all ranks have; `said` are their words."""
        count, total = int(said[:, 0].sum()), int(said[:, 2].sum())
        layout = Layout(
            np.cumsum(said[:, 0]) - said[:, 0] if given.consecutive else said[:, 1],
            said[:, 0],
            max(1, self._range_bytes * count // max(total, 1)),
        )
        longest = int(said[:, 4].max())
        fixed = longest if said[:, 3].min() == longest > 0 else None
        # Ranks of one host side by side: copies are far apart in this order.
        order = np.argsort(self._labels, kind="stable")
        places = np.flatnonzero(self._ranks >= 0)[np.argsort(self._ranks[self._ranks >= 0])][order]
        placement = Placement(
            layout.ranges, self._labels[order], self.copies, self._seed, self._permute,
            self._distribution,
        )  # fmt: skip
        name = given.name
        version = Version(self.versions.get(name, 0) + 1, layout, placement, places, fixed)
        lengths = given.lengths if fixed is None else None
        submission = Submission(version, given.blocks, lengths, self._ranks, self.comm.rank)
        if lengths is not None:
            self._allocate(submission.make_room_for_lengths, name)
            with self._meeting.guard(wake=True):
                self._in_flight += submission.send_lengths(self._meeting.wire)
        self._allocate(submission.make_room, name)
        with self._meeting.guard(wake=True):
            self._in_flight += submission.send(self._meeting.wire)
        return version

    def _allocate(self, make_room: Callable[[Buffers], None], name: str) -> None:
        enough = False
        with suppress(MemoryError):
            make_room(self._buffers)
            enough = True
        if not self._meeting.conclude(enough):
            raise Full(
                f"some rank does not have enough memory for another version of {name!r}; "
                "the old version is kept"
            )

    # Loading.

    def load(
        self,
        ranges: Ranges,
        name: str = "default",
        out: Any = None,
        reload: Reload | None = None,
    ) -> Bytes:
        """Return the blocks of `ranges`, a list of (first, count), in the order asked, as bytes.

        They are put into `out` if given. Each rank asks for what it wants. Blocks that no rank
        holds any more are had from `reload(first, count)`, or raise BlocksLost.
        """
        return self._load(ranges, name, out, reload).data

    def load_many(
        self, ranges: Ranges, name: str = "default", reload: Reload | None = None
    ) -> Blocks:
        """Return the blocks of `ranges` one by one, a sequence of memoryviews."""
        load = self._load(ranges, name, None, reload)
        return Blocks(load.data, load.lengths)

    def load_all(
        self,
        plan: Sequence[Ranges],
        name: str = "default",
        out: Any = None,
        reload: Reload | None = None,
    ) -> Bytes:
        """Return the blocks of `plan[rank]`, like `load`, where every rank knows the whole plan."""
        return self._load(plan, name, out, reload, planned=True).data

    def _load(
        self, asked: Any, name: str, out: Any, reload: Reload | None, planned: bool = False
    ) -> Load:
        load, problem, cause = None, None, None
        try:
            load = Load(self._version(name), asked, self.comm, out, planned)
        except (BadInput, TypeError) as error:
            problem = str(error)
        except MemoryError:
            problem = "not enough memory for the blocks that it requests"
        while True:
            words = self._meeting.words()
            try:
                if load is not None:
                    load.choose(self._ranks, reload)
                    load.ask(words)
            except Exception as error:  # of the user's callback
                problem, cause = f"reload failed: {error}", error
            call = f"load({name=})"
            if planned:
                call = f"load_all({name=}, plan {load.digest if load else 0:x})"
            words = self._meeting.meet(call, problem, words, cause)
            assert load is not None
            version = load.version
            with self._meeting.guard(wake=True):
                load.listen(self._meeting.wire, words)
            if version.index is not None and not self._sound(
                version, self._mine(version.index.damaged(load.where))
            ):
                continue
            with self._meeting.guard(wake=True):
                self._in_flight = load.run(self._meeting.wire)
            if self._sound(version, load.damaged):
                load.check()
                return load

    def _version(self, name: str) -> Version:
        if as_name(name) not in self._versions:
            known = ", ".join(map(repr, self._versions)) or "none"
            raise BadInput(f"there is no data set {name!r}; submitted so far: {known}")
        return self._versions[name]

    def _mine(self, ranges: Ints) -> CopyRanges:
        return CopyRanges(np.full(len(ranges), self.comm.rank), ranges)

    def _sound(self, version: Version, damaged: CopyRanges) -> bool:
        """Conclude a call in which this rank found these copies damaged; True if nobody found any.

        Damaged copies count as lost from then on, for everybody.
        """
        if self._meeting.conclude(not len(damaged.ranges)):
            return True
        order = self._ranks[version.places].argsort()
        slots = order[self._ranks[version.places[order]].searchsorted(damaged.ranks)]
        with self._meeting.guard(wake=True):
            for those, ranges in self._meeting.wire.gather_objects((slots, damaged.ranges)):
                version.condemn(those, ranges)
        return False

    # After a failure.

    def recover(self) -> Recovery:
        """Find out who lives, and go on with them: a new `store.comm`, and what is lost.

        Spares of the crew take the places of the dead. Ranks that die meanwhile are dealt with.
        """
        before = self._ranks
        self._meeting.meet_to_recover()
        everyone = self.comm
        if self._crew is not None:
            self._crew.call_spares()
            everyone = self._crew.everyone
        group = regroup(
            everyone, self._place, self._label, np.flatnonzero(before >= 0), self._describe
        )
        assert group.comm is not None
        if self._crew is not None:
            self._crew.everyone = group.everyone
        self._meeting.move_to(group.comm)
        return self._take(group)

    def _describe(self) -> dict[str, Any]:
        own = ("_crew", "_meeting", "_place", "_label", "_peak", "_in_flight", "_buffers")
        return {key: value for key, value in self.__dict__.items() if key not in own}

    def _take(self, group: Regrouped) -> Recovery:
        """Take over the places that were assigned after a failure."""
        assert group.comm is not None
        before = self._ranks
        ranks = np.full(len(before), -1, np.int64)
        ranks[group.places] = np.arange(len(group.places))
        newcomers = group.places[list(group.joined)]
        # The rank that took a dead one's place has nothing of what that one had.
        empty = ranks < 0
        empty[newcomers] = True
        gone = np.flatnonzero((before >= 0) & empty)
        for version in self._versions.values():
            version.lose(gone)
        self._ranks, self._labels = ranks, group.labels
        if self._crew is not None:
            self._crew.comm = group.comm
        lost = {name: version.lost() for name, version in self._versions.items()}
        self.last_recovery = Recovery(
            tuple(sorted(before[gone].tolist())),
            group.joined,
            self.versions,
            {name: ranges for name, ranges in lost.items() if ranges},
        )
        return self.last_recovery

    def restore_copies(self, reload: Reload | None = None) -> Restored:
        """Bring every block back to as many copies as it had, or one on each rank that is left.

        Only what was lost moves. Blocks that no rank holds any more are had from
        `reload(first, count)`, or listed in the result.
        """
        new_copies, lost = 0, {}
        for name in sorted(self._versions):
            restoration = self._restore(name, reload)
            new_copies += restoration.new_copies
            if restoration.lost_blocks:
                lost[name] = restoration.lost_blocks
        return Restored(self.copies, new_copies, lost)

    def _restore(self, name: str, reload: Reload | None) -> Restoration:
        version = self._versions[name]
        dead: Flags = self._ranks[version.places] < 0
        while True:
            restoration, problem, cause = None, None, None
            try:
                restoration = Restoration(version, dead, self._ranks, self.comm.rank, reload)
            except Exception as error:  # of the user's callback
                problem, cause = f"reload failed: {error}", error
            call = f"restore_copies({reload is not None})"
            self._meeting.meet(call, problem, self._meeting.words(), cause)
            assert restoration is not None
            sent = restoration.sent()
            if version.index is not None and not self._sound(
                version, self._mine(version.index.damaged(sent))
            ):
                continue
            with self._meeting.guard(wake=True):
                self._in_flight = restoration.run(self._meeting.wire, self._buffers)
            self._peak = max(self._peak, self.memory().stored + restoration.bytes)
            if self._sound(version, self._mine(version.data.damaged(sent))):
                restoration.commit()
                return restoration

    def memory(self) -> Memory:
        """Return the bytes that the store takes on this rank: `copies` times its share of all.

        While a new version is on its way there are as many again; `in_flight` is what the last
        call sent and received.
        """
        stored = sum(version.bytes for version in self._versions.values())
        self._peak = max(self._peak, stored)
        return Memory(stored, self._peak, self._in_flight, self._buffers.idle)


def _refusal(
    size: int, copies: int, range_bytes: int, nodes: Sequence[str | int] | None, distribution: str
) -> str | None:
    if size < copies:
        return (
            f"{copies} copies, but the communicator has {size} rank{'s'[: size > 1]}; no two "
            "copies may be on one rank, so start more ranks "
            f"(mpiexec -n {copies} ...) or ask for copies={size}"
        )
    if range_bytes < 1:
        return f"range_bytes is {range_bytes}; use at least 1"
    if nodes is not None and len(nodes) != size:
        return f"nodes names {len(nodes)} hosts; give one for each of the {size} ranks"
    if distribution not in ("A", "B"):
        return f"distribution is {distribution!r}; use 'A' (double hashing) or 'B' (permutation)"
    return None
