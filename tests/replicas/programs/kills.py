"""Random schedules of kills: ranks die by SIGKILL at chosen stages, the others check every byte.

usage: kills.py SEED FIRST COUNT REPORT

Runs up to COUNT schedules one after another on the ranks that are left. Every rank appends a line
to REPORT when it has finished one, and each victim a line with the stage that it dies in, and
with whom.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter

import blocks
import numpy as np
from mpi4py import MPI

from holdfast import mpi
from holdfast.errors import RanksFailed
from holdfast.replicas import Replicas, wire
from holdfast.replicas.wire import Wire

CALLS = ("submit", "load", "restore", "recover")
STAGES = [f"{when} {call}" for call in CALLS for when in ("before", "in", "after")]
EXTRAS = ("one", "two at once", "one more in recovery", "rank 0", "all holders")
FEWEST = 4


#: How many events and seconds each call took on this rank: the fewest so far, and the last time.
EVENTS, SECONDS = Counter[tuple[str, object]](), Counter[str]()


class Killer:
    """Ends this process at a chosen point of a chosen call, at the latest when the call ends.

    How many events a call has depends on the size of blocks, if they have one.
    """

    def __init__(self, report: str, block: int | None) -> None:
        self._report = report
        self._block = block
        self._company = ""
        self._plan: dict[str, tuple[str, float, bool]] = {}

    def plan(self, call: str, when: str, fraction: float, by_clock: bool, company: str) -> None:
        self._plan[call] = (when, fraction, by_clock)
        self._company = company

    def die(self, stage: str) -> None:
        note(self._report, f"kill {stage}, {self._company}")
        os.kill(os.getpid(), signal.SIGKILL)

    def during(self, call: str, action):
        when, fraction, by_clock = self._plan.get(call, ("", 0.0, False))
        if when == "before":
            self.die(f"before {call}")
        delay = fraction * (SECONDS[call] or 0.002)
        timer = threading.Timer(delay, self.die, (f"in {call}",))
        timer.daemon = True
        count, fatal, start = 0, -1, time.perf_counter()
        if when == "in" and by_clock:
            timer.start()
        elif when == "in":
            fatal = int(fraction * (EVENTS[call, self._block] or 40))

        def watch(frame, event, argument):
            nonlocal count
            if event in ("call", "c_call"):
                if count == fatal:
                    sys.setprofile(None)
                    self.die(f"in {call}")
                count += 1

        sys.setprofile(watch)
        try:
            result = action()
        except RanksFailed:
            # Whoever is doomed must not outlive the call and die in some later one.
            sys.setprofile(None)
            if when:
                self.die(f"after {call}")
            raise
        finally:
            sys.setprofile(None)
        EVENTS[call, self._block] = min(EVENTS[call, self._block] or count, count)
        SECONDS[call] = time.perf_counter() - start
        if when:
            self.die(f"after {call}")
        return result


def note(report: str, line: str) -> None:
    """Append a line to the report in one piece."""
    with open(report, "a") as file:
        file.write(f"{line}\n")


def deaths(
    rng: np.random.Generator, number: int, slots: list[int], copies: int
) -> tuple[dict[int, str], str]:
    """Who is to die at which stage: stages in turn, with one, several or particular victims.

    Also returns which of these it came to. `slots` are the ranks in the order in which the
    placement deals out copies.
    """
    size = len(slots)
    stage = STAGES[number % len(STAGES)]
    extra = EXTRAS[number % len(EXTRAS)]
    first = int(rng.integers(size))
    holders = [slots[(first + k * size // copies) % size] for k in range(copies)]
    order = {"rank 0": [0], "all holders": holders}.get(extra, [])
    order += [rank for rank in rng.permutation(size).tolist() if rank not in order]
    many = {"two at once": 2, "one more in recovery": 2, "all holders": copies}.get(extra, 1)
    doomed = order[: max(1, min(many, size - FEWEST))]
    if len(doomed) < many:
        extra = "one"  # too few are left
    plan = dict.fromkeys(doomed, stage)
    if extra == "one more in recovery" and len(doomed) == 2:
        plan[doomed[1]] = "in recover"
    if not stage.endswith(("submit", "load")):
        # Somebody has to die before there is anything to recover from.
        plan[order[len(doomed)]] = "in load"
    return plan, extra


class Schedule:
    """A store whose ranks submit, load, restore and die."""

    def __init__(self, comm: MPI.Intracomm, seed: int, number: int, report: str) -> None:
        self._key = [seed, number]
        rng = np.random.default_rng(self._key)
        size = comm.size
        wire._RADIX = 3 if number % 2 else 64  # they meet as few ranks do, and as many do
        self.copies = int(rng.integers(2, min(4, size) + 1))
        self.block = None if rng.random() < 0.3 else int(rng.choice([1, 16, 64, 200]))
        large = self.block == 64 and rng.random() < 0.5
        self.store = Replicas(
            comm,
            copies=self.copies,
            range_bytes=int(rng.choice([4096, 128 << 10] if large else [64, 1000, 4096])),
            permute=bool(rng.random() < 0.8),
            seed=int(rng.integers(100)),
            nodes=rng.integers(0, 4, size).tolist() if rng.random() < 0.3 else None,
            distribution=str(rng.choice(["A", "B"])),
        )
        self.counts = rng.integers(0, 8000 if large else 60, size)
        self.counts[rng.integers(size)] = 0
        self.counts[rng.integers(size)] += 5
        self.total = int(self.counts.sum())
        self.killer = Killer(report, self.block)
        slots = np.argsort(self.store._labels, kind="stable").tolist()
        plan, extra = deaths(rng, number, slots, self.copies)
        fraction, by_clock = float(rng.random()), number // len(STAGES) % 2 == 1
        if comm.rank in plan:
            when, call = plan[comm.rank].split()
            self.killer.plan(call, when, fraction, by_clock, extra)
        steps = [self.submit, self.load, self.restore, self.load, self.submit, self.load]
        self.steps = [self.submit] * int(rng.integers(2)) + steps
        self.version = 0
        self.done = 0
        self.dead = 0
        self.dead_since = 0

    def rng(self, *more: int) -> np.random.Generator:
        """Random numbers that depend on how far the survivors have come, and on nothing else."""
        return np.random.default_rng([*self._key, self.done, self.dead, *more])

    def run(self) -> MPI.Intracomm:
        while self.done < len(self.steps):
            step = self.steps[self.done]
            try:
                self.killer.during(step.__name__, step)
                self.done += 1
            except RanksFailed:
                self.recovering()
        return self.store.comm

    def recovering(self) -> None:
        while True:
            try:
                return self.recover()
            except RanksFailed:
                pass

    def recover(self) -> None:
        before = self.store.comm.size
        recovery = self.killer.during("recover", self.store.recover)
        assert len(recovery.ranks) == before - self.store.comm.size
        self.dead += len(recovery.ranks)
        self.dead_since += len(recovery.ranks)
        assert recovery.versions.get("default", 0) == self.version
        assert self.dead_since >= self.copies or not recovery.lost, recovery.lost
        where = np.tile([self.version, self.done], (self.store.comm.size, 1))
        wire = self.wire = Wire(self.store.comm)
        with self.store.guard():
            assert (wire.swap_rows(where) == where).all()

    def reload(self, first: int, count: int) -> object:
        assert self.dead_since >= self.copies, f"{first, count} lost: {self.dead_since} deaths"
        if self.block is None:
            return blocks.varied(first, count, self.version)
        return blocks.fixed(first, count, self.block, self.version)

    def submit(self) -> None:
        size, me = self.store.comm.size, self.store.comm.rank
        counts = self.counts
        if len(counts) != size:  # the survivors divide the blocks anew
            counts = np.diff(np.arange(size + 1) * self.total // size)
        first, own, version = int(counts[:me].sum()), int(counts[me]), self.version + 1
        if self.block is None:
            new = self.store.submit_many(blocks.varied(first, own, version))
        else:
            data = blocks.fixed(first, own, self.block, version)
            new = self.store.submit(data, block_bytes=self.block)
        assert new == version
        self.version, self.dead_since = new, 0

    def load(self) -> None:
        plan = []
        for rank in range(self.store.comm.size):
            rng = self.rng(rank)
            firsts = rng.integers(0, self.total, 3).tolist()
            plan.append([(low, int(rng.integers(0, self.total - low + 1))) for low in firsts])
            plan[-1].append((0, self.total))
        mine = plan[self.store.comm.rank]
        if self.rng().random() < 0.5:
            got = self.store.load_all(plan, reload=self.reload)
        else:
            got = self.store.load(mine, reload=self.reload)
        assert np.array_equal(got, blocks.wanted(mine, self.block, self.version)), "wrong bytes"

    def restore(self) -> None:
        restored = self.store.restore_copies(reload=self.reload)
        assert restored.copies == min(self.copies, self.store.comm.size)
        assert not restored.lost
        self.dead_since = 0


def main() -> None:
    seed, first, count = map(int, sys.argv[1:4])
    report = sys.argv[4]
    comm = MPI.COMM_WORLD
    try:
        for number in range(first, first + count):
            comm = Schedule(comm, seed, number, report).run()
            note(report, f"done {number} {comm.rank} {comm.size}")
            if comm.size < FEWEST + 3:
                break
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.write(f"schedule {number} of seed {seed}, rank {comm.rank} of {comm.size}\n")
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(3)
    mpi.finish(comm)


main()
