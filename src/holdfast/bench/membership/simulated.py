"""Members in large numbers: simulated, with one message in a hundred lost."""

from __future__ import annotations

from ...simulation.figures import membership
from ..figures import Figure, at_most, exactly, shown

_LOSS = 0.01
#: Nodes, for how many periods, and how many deaths, one after the other.
_RUNS = ((10_000, 200, 20), (500, 5_000, 100))


def run() -> list[Figure]:
    """Simulate them; the longest part of the benchmark."""
    return [figure for one in _RUNS for figure in _one(*one)]


def _one(nodes: int, periods: int, moments: int) -> list[Figure]:
    seen = membership(nodes, periods, moments=moments, loss=_LOSS)
    what = f"simulated, {nodes:,} nodes for {periods:,} periods"
    deaths = f"median of {seen.deaths} deaths"
    return [
        exactly(f"{what}: live nodes declared dead", seen.false_deaths, 0, "nodes"),
        exactly(f"{what}: deaths not known to all", seen.unknown, 0, "deaths"),
        at_most(f"{what}: suspicion known to all", seen.suspicion_known, 12, "periods", deaths),
        at_most(f"{what}: death known to all", seen.death_known, 22, "periods", deaths),
        shown(f"{what}: messages of a node", seen.messages, "per period"),
    ]
