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

from .... import config as settings
from ...._core import Client
from ....cluster.launch import Recipe
from ..figures import at_most
from ..measure import interleave
from ..programs import on_core, two_cores
from .stage import Part

_OPENED = re.compile(r"\bopen(?:at|at2)?\(.* = \d+$", re.MULTILINE)
_BARE = [sys.executable, "-c", "pass"]


def run() -> Part:
    """Start agents, one after the other."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        key = secrets.token_bytes(32)
        config = settings.load(arguments={"memory": "64 MiB", "disk": "64 MiB"}).config
        recipe = Recipe(config, Path(directory), key, nodes=1, lifeline=True)
        sizes: list[float] = []
        client = Client(key)

        def agent() -> float:
            start = perf_counter()
            launched = recipe.launch(0)
            try:
                member = launched.wait_ready()
                client.call(member.socket, "agent", "view", b"")
                seconds = perf_counter() - start
                sizes.append(_resident(member.pid))
            finally:
                launched.discard()
            return seconds

        def bare() -> float:
            start = perf_counter()
            subprocess.run(_BARE, check=True)
            return perf_counter() - start

        with on_core(two_cores()[0]):
            times = interleave({"bare": bare, "agent": agent})
        opened, notes = _opened(recipe, Path(directory))
    bare_python, ratio = "python -c pass", times.ratio("agent", "bare")
    return Part(
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


def _opened(recipe: Recipe, directory: Path) -> tuple[float | None, list[str]]:
    """Files that an agent opens beyond those of the bare interpreter, as strace counts them."""
    if shutil.which("strace") is None:
        return None, ["Files were not counted: install Debian's strace (`scripts/packages bench`)."]
    trace = directory / "trace"
    strace = ["strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(trace)]

    def count() -> int:
        return len(_OPENED.findall(trace.read_text(errors="replace")))

    subprocess.run([*strace, *_BARE], check=True)
    bare = count()
    launched = recipe.launch(0, under=strace)
    try:
        launched.wait_ready()
        opened = count()
        assert launched.process.stdin is not None
        launched.process.stdin.close()  # ends the agent, and with it strace
        launched.process.wait(10)
    finally:
        launched.discard()
    return opened - bare, []
