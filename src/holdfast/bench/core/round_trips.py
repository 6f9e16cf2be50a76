"""get of a small object, and view of a large one, against a ping-pong over the same socket.

Both ends are on one core, where nothing but software lies between them.
"""

from __future__ import annotations

from ..figures import at_most, shown
from ..measure import interleave, median_time
from ..programs import on_core
from .stage import HUGE, MEDIUM, SMALL, TURN_MS, ReportPart, Stage


def run(stage: Stage) -> ReportPart:
    """Measure them."""
    core, objects, member = stage.server_core, stage.job.objects, stage.member
    server = stage.server("blocking_server", f"unix:{stage.directory}/ping-pong", SMALL)

    def get() -> float:
        return median_time(lambda: objects.get(stage.keys[SMALL]), TURN_MS)

    def view(size: int) -> float:
        # Unmapping takes longer the larger the object, but not for those who wait for the view.
        key, unmap = stage.keys[size], memoryview.release
        return median_time(lambda: objects.view(key), TURN_MS, after=unmap)

    with on_core(core):
        times = interleave(
            {
                "ping-pong": lambda: stage.raw(core, server, SMALL).seconds,
                "C++": lambda: stage.gets(core, member.socket, SMALL).seconds,
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
