"""Reads of cached files: local ones against direct reads, remote ones against raw requests."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...files import Files
from ..figures import Figure, at_least
from ..measure import interleave, median_time
from ..programs import on_core
from .readers import DISK, MEMORY, TURN_MS, ReaderCluster, spread, together, typical

_LOCAL = {"4 KB": (4_000, 0.6), "100 KB": (100_000, 0.85), "2.5 MB": (2_500_000, 0.95)}
_MIDDLES = {"100 KB": (100_000, 0.5, 0.6), "2.5 MB": (2_500_000, 0.3, 0.7)}
_AGENTS, _READERS_EACH, _CROWDED = 4, 2, 100_000
_FILES = 16


def run() -> list[Figure]:
    """Read what is on the same node, then what another node owns, then eight readers at once."""
    return [*_local(), *_remote(), *_crowd()]


def _local() -> list[Figure]:
    """Open, ask about, read and close, each size on the file systems of both tiers."""
    figures = []
    with ReaderCluster(nodes=2) as setup:
        for tier in (DISK, MEMORY):
            paths = {
                name: [setup.file(tier, 0, size) for _ in range(_FILES)]
                for name, (size, _) in _LOCAL.items()
            }
            setup.warm(tier)
            for name, (_, target) in _LOCAL.items():
                rates = interleave(
                    {
                        "direct": partial(typical, setup.reader(0, paths[name])),
                        "shim": partial(typical, setup.shimmed(tier, 0, paths[name])),
                    }
                )
                where = f"local hit of {name} through the shim, {tier} tier"
                against = f"the original on the same {'tmpfs' if tier == MEMORY else 'disk'}"
                ratio = rates.ratio("shim", "direct")
                figures.append(at_least(where, ratio, target, "of its rate", against))
    return figures


def _remote() -> list[Figure]:
    """Let one reader read what the other node owns, through the shim and into a buffer."""
    figures = []
    # The reader has one core and the owner the other, as client and server of the raw requests
    # have; the reader's agent, which prepares pages while it fetches, may use both.
    with ReaderCluster(nodes=2, loose=[0]) as setup:
        paths = {
            name: [setup.file(MEMORY, 1, size) for size in spread(middle)]
            for name, (middle, _, _) in _MIDDLES.items()
        }
        setup.warm(MEMORY)
        with setup.cluster.connect(0) as job:
            files = job.files(setup.roots[MEMORY])
            for name, (middle, shim, into) in _MIDDLES.items():
                least, most = middle // 2, middle // 2 + middle
                server = setup.server(1, most)
                rates = interleave(
                    {
                        "raw": partial(typical, setup.raw(0, [server], f"{least}-{most}")),
                        "shim": partial(typical, setup.shimmed(MEMORY, 0, paths[name])),
                        "out": partial(_into, setup, files, paths[name], most),
                    }
                )
                where, unit = f"of {name}, 0.5x to 1.5x", "of its rate"
                against = "raw TCP request of the same sizes"
                ratio, direct = rates.ratio("shim", "raw"), rates.ratio("out", "raw")
                figures += [
                    at_least(f"remote hit {where}, through the shim", ratio, shim, unit, against),
                    at_least(f"remote hit {where}, read(out=)", direct, into, unit, against),
                ]
    return figures


def _into(setup: ReaderCluster, files: Files, paths: list[Path], most: int) -> float:
    """Return how many reads into one buffer a second fit the median one."""
    out, turn = bytearray(most), iter(range(1 << 62))
    with on_core(setup.cores[0]):
        seconds = median_time(
            lambda: files.read(paths[next(turn) * 37 % len(paths)], out=out), TURN_MS
        )
    return 1 / seconds


def _crowd() -> list[Figure]:
    """Let eight readers read what four nodes own."""
    with ReaderCluster(nodes=_AGENTS) as setup:
        paths = [
            setup.file(MEMORY, node, _CROWDED) for _ in range(_FILES) for node in range(_AGENTS)
        ]
        setup.warm(MEMORY)
        servers = [setup.server(node, _CROWDED) for node in range(_AGENTS)]
        shimmed = [setup.shimmed(MEMORY, node, paths, _READERS_EACH) for node in range(_AGENTS)]
        raw = [
            setup.raw(node, servers[:node] + servers[node + 1 :], str(_CROWDED), _READERS_EACH)
            for node in range(_AGENTS)
        ]
        slowest: list[float] = []

        def readers() -> float:
            pace = together(shimmed)
            slowest.append(min(pace.each) / (pace.per_second / len(pace.each)))
            return pace.per_second

        rates = interleave({"raw": lambda: together(raw).per_second, "shim": readers})
    what = "8 readers on 4 agents through the shim, 100 KB, 3 of 4 remote"
    against = "8 processes with raw TCP requests"
    slow = sorted(slowest)[len(slowest) // 2]
    return [
        at_least(what, rates.ratio("shim", "raw"), 0.5, "of their rate", against),
        at_least("the slowest of these readers", slow, 0.7, "of the mean", "the eight"),
    ]
