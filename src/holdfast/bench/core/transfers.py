"""Large objects: get against raw transfers and a bare event loop, put of 2 copies against 1."""

from __future__ import annotations

import os

from ..figures import at_least
from ..measure import interleave, median_time
from ..programs import on_core, pin
from .setup import LARGE, MEDIUM, TURN_MS, BenchCluster, ReportPart


def gets(setup: BenchCluster) -> ReportPart:
    """Measure get; the servers are on one core, the clients on another."""
    core, agent = setup.client_core, setup.member.address
    blocking = setup.server("blocking_server", "tcp:127.0.0.1:0", LARGE)
    epoll = setup.server("epoll_server", "tcp:127.0.0.1:0", MEDIUM)
    rates = interleave(
        {
            # Of one client the median request is taken, which a moment of noise does not move.
            "raw 1": lambda: 1 / setup.raw(core, blocking, LARGE).seconds,
            "get 1": lambda: 1 / setup.gets(core, agent, LARGE).seconds,
            "raw 8": lambda: setup.raw(core, blocking, LARGE, clients=8).per_second,
            "get 8": lambda: setup.gets(core, agent, LARGE, clients=8).per_second,
            "epoll": lambda: setup.raw(core, epoll, MEDIUM, clients=8).per_second,
            "get": lambda: setup.gets(core, agent, MEDIUM, clients=8).per_second,
        }
    )
    name, against, unit = "get of 4 MB over TCP", "raw TCP transfer of 4 MB", "of its rate"
    one, eight = rates.ratio("get 1", "raw 1"), rates.ratio("get 8", "raw 8")
    many = rates.ratio("get", "epoll")
    return ReportPart(
        [
            at_least(f"{name}, 1 client", one, 0.8, unit, f"{against}, 1 client"),
            at_least(f"{name}, 8 clients", eight, 0.8, unit, f"{against}, 8 clients"),
            at_least("get of 100 KB over TCP, 8 processes", many, 0.7, unit, "bare epoll server"),
        ],
        {
            "raw transfer of 4 MB, 1 client": rates.middle("raw 1"),
            "raw transfer of 4 MB, 8 clients": rates.middle("raw 8"),
            "bare epoll server, 100 KB, 8 clients": rates.middle("epoll"),
        },
    )


def puts(setup: BenchCluster) -> ReportPart:
    """Measure put; the client shares a core with the second owner, the first has one to itself."""
    objects, data = setup.job.objects, os.urandom(LARGE)
    pin(setup.cluster.nodes[2].pid, setup.client_core)

    def put(copies: int) -> str:
        key = setup.fresh_key(1, 2)
        objects.put(key, data, copies=copies)
        return key

    def turn(copies: int) -> float:
        return median_time(lambda: put(copies), TURN_MS, after=objects.drop)

    with on_core(setup.client_core):
        times = interleave({"1": lambda: turn(1), "2": lambda: turn(2)})
    name, against, ratio = "put of 4 MB with 2 copies", "put of 4 MB with 1", times.ratio("1", "2")
    return ReportPart([at_least(name, ratio, 0.45, "of its rate", against)])
