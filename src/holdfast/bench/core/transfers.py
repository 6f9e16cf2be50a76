"""Large objects: get against raw transfers and a bare event loop, put of 2 copies against 1."""

from __future__ import annotations

import os

from ..figures import at_least
from ..measure import interleave, median_time
from ..programs import on_core, pin
from .stage import LARGE, MEDIUM, TURN_MS, ReportPart, Stage


def gets(stage: Stage) -> ReportPart:
    """Measure get; the servers are on one core, the clients on another."""
    core, agent = stage.client_core, stage.member.address
    blocking = stage.server("blocking_server", "tcp:127.0.0.1:0", LARGE)
    epoll = stage.server("epoll_server", "tcp:127.0.0.1:0", MEDIUM)
    rates = interleave(
        {
            # Of one client the median request is taken, which a moment of noise does not move.
            "raw 1": lambda: 1 / stage.raw(core, blocking, LARGE).seconds,
            "get 1": lambda: 1 / stage.gets(core, agent, LARGE).seconds,
            "raw 8": lambda: stage.raw(core, blocking, LARGE, clients=8).per_second,
            "get 8": lambda: stage.gets(core, agent, LARGE, clients=8).per_second,
            "epoll": lambda: stage.raw(core, epoll, MEDIUM, clients=8).per_second,
            "get": lambda: stage.gets(core, agent, MEDIUM, clients=8).per_second,
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


def puts(stage: Stage) -> ReportPart:
    """Measure put; the client shares a core with the second owner, the first has one to itself."""
    objects, data = stage.job.objects, os.urandom(LARGE)
    pin(stage.cluster.nodes[2].pid, stage.client_core)

    def put(copies: int) -> str:
        key = stage.fresh_key(1, 2)
        objects.put(key, data, copies=copies)
        return key

    def turn(copies: int) -> float:
        return median_time(lambda: put(copies), TURN_MS, after=objects.drop)

    with on_core(stage.client_core):
        times = interleave({"1": lambda: turn(1), "2": lambda: turn(2)})
    name, against, ratio = "put of 4 MB with 2 copies", "put of 4 MB with 1", times.ratio("1", "2")
    return ReportPart([at_least(name, ratio, 0.45, "of its rate", against)])
