"""get of large objects over TCP against raw transfers, and against a bare event loop.

The servers are on one core, the clients on another.
"""

from __future__ import annotations

from ..figures import at_least
from ..measure import interleave
from .stage import LARGE, MEDIUM, Part, Stage


def run(stage: Stage) -> Part:
    """Measure them."""
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
    return Part(
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
