"""How soon simulated members learn of deaths, and how often they are wrong."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import msgspec

from ..errors import BadInput
from ..membership.view import Entry, Member, State
from .members import Members
from .network import Network

#: Periods before the first deaths, in which members make themselves known.
_BEFORE = 25
#: Periods after the last ones, in which everybody must have learnt of them.
_AFTER = 40


class MembershipFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one simulation of members showed; times are in periods."""

    nodes: int
    periods: int
    loss: float
    seed: int
    deaths: int
    unknown: int  # deaths that some survivor has not learnt of; 0 or something is broken
    false_deaths: int  # live members that somebody declared dead
    false_suspicions: int  # live members that somebody suspected, all times counted
    suspicion_known: float  # to all survivors, after the death: median over deaths
    suspicion_known_worst: float
    death_known: float  # likewise
    death_known_worst: float
    messages: float  # sent by a member in a period, answers too: mean


class _Watch:
    """Notes when each survivor learnt of each death."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.died: dict[int, float] = {}  # by number of the member
        self.suspected: dict[int, dict[int, float]] = {}  # by dead member, by survivor
        self.declared: dict[int, dict[int, float]] = {}
        self.wrongly_declared: set[int] = set()
        self.wrongly_suspected: set[tuple[int, int]] = set()  # with the incarnation

    def die(self, member: Member) -> None:
        self.died[member.number] = self._network.now
        self.suspected[member.number] = {}
        self.declared[member.number] = {}
        for known in (*self.suspected.values(), *self.declared.values()):
            known.pop(member.number, None)  # only survivors count

    def changed(self, member: Member, entry: Entry) -> None:
        number = entry.member.number
        if entry.state is State.ALIVE:
            return
        if number in self.died:
            self.suspected[number].setdefault(member.number, self._network.now)
            if entry.state is State.DEAD:
                self.declared[number].setdefault(member.number, self._network.now)
        elif entry.state is State.DEAD:
            self.wrongly_declared.add(number)
        else:
            self.wrongly_suspected.add((number, entry.incarnation))

    def last(self, known: dict[int, dict[int, float]]) -> list[float]:
        """Return how long after each death the last survivor learnt of it."""
        return [max(times.values()) - self.died[n] for n, times in known.items() if times]


def membership(
    nodes: int,
    periods: int,
    *,
    moments: int,
    deaths_each: int = 1,
    loss: float = 0.01,
    seed: int = 1,
) -> MembershipFigures:
    """Simulate `nodes` members that die at random, `deaths_each` at each of `moments`."""
    if periods < _BEFORE + _AFTER + moments or moments < 1:
        raise BadInput(
            f"{moments} moments of death do not fit into {periods} periods; "
            f"take at least {_BEFORE + _AFTER + 1} periods and 1 moment"
        )
    if not 0 < moments * deaths_each < nodes / 2:
        raise BadInput(
            f"{moments * deaths_each} of {nodes} nodes cannot die; let 1 to half of them"
        )
    network = Network(seed, loss=loss)
    watch = _Watch(network)
    with _no_garbage():
        members = Members(network, nodes, watch.changed)
        for moment in range(moments):
            network.run(_BEFORE + moment * (periods - _BEFORE - _AFTER) / moments)
            for node in network.rng.sample(sorted(members.running), deaths_each):
                watch.die(members.kill(node))
        network.run(periods)
    survivors = len(members.running)
    suspected, declared = watch.last(watch.suspected), watch.last(watch.declared)
    return MembershipFigures(
        nodes=nodes,
        periods=periods,
        loss=loss,
        seed=seed,
        deaths=len(watch.died),
        unknown=sum(len(times) < survivors for times in watch.declared.values()),
        false_deaths=len(watch.wrongly_declared),
        false_suspicions=len(watch.wrongly_suspected),
        suspicion_known=median(suspected),
        suspicion_known_worst=max(suspected),
        death_known=median(declared),
        death_known_worst=max(declared),
        messages=network.sent / periods / ((nodes + survivors) / 2),
    )


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Spare the collector's rounds over millions of objects, none of which are in cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
