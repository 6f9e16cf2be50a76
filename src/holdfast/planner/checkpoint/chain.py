"""The model itself, for any number of levels: an absorbing Markov chain, solved as it is written.

A compute state is (mode, j): segment j+1 is running. Modes: `C` after a recovery from this
period's start on the shared file system (and all of the synchronous case), `I` its drain in
flight, `F` drain finished, `P` the previous period executed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from .failure_times import NEVER, fails_with, mean_time, survives
from .system import Outcome, Schedule, System, check_drain, level_of


class _Compute(NamedTuple):
    mode: str
    done: int


class _Recovery(NamedTuple):
    mode: str
    position: int
    level: int


_State = _Compute | _Recovery


class _Chain:
    """States and moves of one period."""

    def __init__(self, system: System, schedule: Schedule, *, asynchronous: bool) -> None:
        self.system = system
        self.schedule = schedule
        self.asynchronous = asynchronous
        self.draining = check_drain(system, schedule) if asynchronous else 0
        self.levels = [level_of(q, schedule.counts) for q in range(1, schedule.segments + 1)]
        self.newest = {need: self._newest(need) for need in range(1, system.levels + 1)}
        self.start = _Compute("C" if not asynchronous else "I" if self.draining else "F", 0)

    def _newest(self, need: int) -> list[int]:
        """Return, by segments done, the newest position with a checkpoint of `need` or above."""
        found = [0]
        for position, level in enumerate(self.levels, 1):
            found.append(position if level >= need else found[-1])
        return found

    def pick(self, mode: str, done: int, need: int) -> _Recovery:
        """Find the newest checkpoint that recovers a failure which needs level `need`."""
        position = self.newest[need][done]
        if position:
            return _Recovery(mode, position, self.levels[position - 1])
        top = self.system.levels
        if mode in "CP":
            return _Recovery(mode, 0, top)
        if need < top:
            return _Recovery(mode, 0, top - 1)
        return _Recovery("C" if mode == "F" else "P", 0, top)

    def length(self, state: _State) -> float:
        if isinstance(state, _Recovery):
            return self.system.recoveries[state.level - 1]
        level = self.levels[state.done]
        slow = 1 + self.system.overhead if state.mode == "I" else 1
        cost = self.system.blocking_cost(level, asynchronous=self.asynchronous)
        return slow * self.schedule.interval + cost

    def after(self, state: _State) -> _Compute | None:
        """Return where success leads; None at the end of the period."""
        if isinstance(state, _Recovery):
            return _Compute(state.mode, state.position)
        mode, done = state.mode, state.done + 1
        if done == self.schedule.segments:
            return self.start if mode == "P" else None
        return _Compute("F" if mode == "I" and done >= self.draining else mode, done)

    def moves(self, state: _State) -> Iterator[tuple[_State, float]]:
        """Yield where the chain goes from `state`, with probabilities; the rest is absorbed."""
        length = self.length(state)
        following = self.after(state)
        if following is not None:
            yield following, survives(self.system.rate, length)
        for index, probability in enumerate(fails_with(self.system.rates, length)):
            if probability:
                yield self.failed(state, index + 1), probability

    def failed(self, state: _State, level: int) -> _Recovery:
        """Return where a failure of `level` leads."""
        if isinstance(state, _Compute):
            return self.pick(state.mode, state.done, level)
        if level < state.level or state.level == self.system.levels:
            return state
        return self.pick(state.mode, state.position, max(level, state.level + 1))


def evaluate(system: System, schedule: Schedule, *, asynchronous: bool) -> Outcome:
    """Judge one schedule: mean time from the period's start until it is absorbed."""
    chain = _Chain(system, schedule, asynchronous=asynchronous)
    index: dict[_State, int] = {chain.start: 0}
    todo: list[_State] = [chain.start]
    rows, columns, values, times = [], [], [], []
    while todo:
        state = todo.pop()
        row = index[state]
        times.append((row, mean_time(max(system.rate, NEVER), chain.length(state))))
        for target, probability in chain.moves(state):
            if target not in index:
                index[target] = len(index)
                todo.append(target)
            rows.append(row)
            columns.append(index[target])
            values.append(-probability)
    size = len(index)
    diagonal = list(range(size))
    matrix = csc_matrix(
        (values + [1.0] * size, (rows + diagonal, columns + diagonal)), shape=(size, size)
    )
    mean = np.zeros(size)
    for row, time in times:
        mean[row] = time
    solution = splu(matrix).solve(mean)
    return Outcome(schedule, float(solution[0]), chain.draining)
