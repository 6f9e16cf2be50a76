"""get of a small object, and view of a large one, against a ping-pong over the same socket.

Both ends are on one core, where nothing but software lies between them.
"""

from __future__ import annotations

from ..figures import at_most, shown
from ..measure import interleave, median_time
from ..programs import on_core
from .setup import HUGE, MEDIUM, SMALL, TURN_MS, BenchCluster, ReportPart


def run(setup: BenchCluster) -> ReportPart:
    """Measure them."""
    core, objects, member = setup.server_core, setup.job.objects, setup.member
    server = setup.server("blocking_server", f"unix:{setup.directory}/ping-pong", SMALL)

    def get() -> float:
        return median_time(lambda: objects.get(setup.keys[SMALL]), TURN_MS)

    def view(size: int) -> float:
        # Unmapping takes longer the larger the object, but not for those who wait for the view.
        key, unmap = setup.keys[size], memoryview.release
        return median_time(lambda: objects.view(key), TURN_MS, after=unmap)

    with on_core(core):
        times = interleave(
            {
                "ping-pong": lambda: setup.raw(core, server, SMALL).seconds,
                "C++": lambda: setup.gets(core, member.socket, SMALL).seconds,
                "Python": get,
                "view": lambda: view(HUGE),
                "smaller view": lambda: view(MEDIUM),
            }
        )
    name, against, unit = "get of 64 B over the Unix socket", "raw blocking ping-pong", "x its time"
    cpp, python = times.ratio("C++", "ping-pong"), times.ratio("Python", "ping-pong")
    name_of_view, mapped = (
        "view of a 16 MB local object, until mapped",
        times.ratio("view", "Python"),
    )
    growth = times.ratio("view", "smaller view")
    return ReportPart(
        [
            at_most(f"{name}, from C++", cpp, 1.5, unit, against),
            at_most(f"{name}, from Python", python, 2.5, unit, against),
            at_most(name_of_view, mapped, 4, unit, "get of 64 B from Python"),
            shown(name_of_view, growth, unit, "view of a 100 KB local object"),
        ],
        {"raw ping-pong of 64 B": 1 / times.middle("ping-pong")},
    )
