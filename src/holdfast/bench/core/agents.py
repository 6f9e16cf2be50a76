"""An agent's start and its size."""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from ... import config as settings
from ..._core import AgentClient
from ...launch.agents import new_recipe
from ...launch.launchers import local
from ...launch.starter import Started
from ...session import session as sessions
from ...session.node import Orders
from ..figures import at_most
from ..measure import interleave
from ..programs import on_core, two_cores
from .setup import ReportPart

_OPENED = re.compile(r"\bopen(?:at|at2)?\(.* = \d+$", re.MULTILINE)
_BARE = [sys.executable, "-c", "pass"]


def run() -> ReportPart:
    """Start agents, one after the other."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        key = secrets.token_bytes(32)
        config = settings.load(arguments={"memory": "64 MiB", "disk": "64 MiB"}).config
        place = Path(directory)
        recipe = new_recipe(place, config, key, "local", lifeline=True)
        sessions.make(place, recipe.session, key)
        orders = recipe.orders(here=True, agents=1)
        sizes: list[float] = []
        client = AgentClient(key)

        def agent() -> float:
            start = perf_counter()
            started = Started([local.start(orders, "node-0", place / "log")])
            try:
                member = started.collect(config.start_within).ready["node-0"]
                client.call(member.socket, "agent", "status", b"")
                seconds = perf_counter() - start
                sizes.append(_resident(member.pid))
            finally:
                started.abandon()
            return seconds

        def bare() -> float:
            start = perf_counter()
            subprocess.run(_BARE, check=True)
            return perf_counter() - start

        with on_core(two_cores()[0]):
            times = interleave({"bare": bare, "agent": agent})
        opened, notes = _opened(orders, place)
    bare_python, ratio = "python -c pass", times.ratio("agent", "bare")
    return ReportPart(
        [
            at_most("agent ready after exec", ratio, 6, "x its time", bare_python),
            at_most("files opened until an agent is ready", opened, 100, "more", bare_python),
            at_most("memory of an idle agent", median(sizes) / 1e6, 60, "MB", ""),
        ],
        notes=notes,
    )


def _resident(pid: int) -> float:
    """Bytes of memory that process `pid` occupies."""
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^VmRSS:\s*(\d+) kB", text, re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def _opened(orders: Orders, directory: Path) -> tuple[float | None, list[str]]:
    """Files that an agent opens beyond those of the bare interpreter, as strace counts them."""
    if shutil.which("strace") is None:
        return None, ["Files were not counted: install Debian's strace (`scripts/packages bench`)."]
    trace = directory / "trace"
    strace = ["strace", "-f", "-e", "trace=open,openat,openat2,write", "-o", str(trace)]

    def count() -> int:
        # An agent that has said that it is ready opens more, while we read.
        until_ready = trace.read_text(errors="replace").partition("write(1, ")[0]
        return len(_OPENED.findall(until_ready))

    subprocess.run([*strace, *_BARE], check=True)
    bare = count()
    starter = local.start(orders, "node-0", directory / "log", under=strace)
    try:
        Started([starter]).collect(orders.config.start_within)
        opened = count()
        assert starter.process.stdin is not None
        starter.process.stdin.close()  # ends the agent, and with it strace
        starter.process.wait(10)
    finally:
        starter.discard()
    return opened - bare, []
