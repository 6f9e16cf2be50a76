"""Processes that start agents: this Python, or a command that runs it elsewhere."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ..membership.view import Member
from ..session.node import Orders, Ready, place
from ..session.processes import Process, process

#: `-c` rather than `-m`: starts without the machinery that looks for a module's file.
#: msgspec takes typing_extensions where it is there, and with it a quarter of an agent's start.
_MAIN = "sys.modules['typing_extensions'] = None; from holdfast.services import main; main()"
#: Python writes a traceback in pieces, and agents that fail together share a log.
_LAST_WORDS = "''.join(__import__('traceback').format_exception(*error)).encode(errors='replace')"
_HOOK = f"sys.excepthook = lambda *error: os.write(2, {_LAST_WORDS})"
AGENT = [sys.executable, "-c", f"import os, sys; {_HOOK}; {_MAIN}"]

#: How often a launcher's complaints are looked for while agents start.
_LOOK_EVERY = 0.2
#: A launcher may say that an agent failed before it passes on what the agent said, in seconds.
_LAST_LINES_WITHIN = 1.0


class Starter:
    """One process, the nodes whose agents it starts, and what they have said."""

    def __init__(
        self,
        nodes: Sequence[str],
        command: Sequence[str],
        orders: Orders,
        log: Path,
        environment: Mapping[str, str] | None = None,
        complaints: Callable[[str], dict[str, str]] | None = None,
    ) -> None:
        self.orders = orders
        self.waiting = set(nodes)
        self.log = log
        self._complaints = complaints
        self._begin = log.stat().st_size if log.exists() else 0
        self._rest = b""
        with log.open("ab") as stderr, _stdin(orders) as stdin:
            self.process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it died at once: its log tells why
                self.process.stdin.write(_line(orders))
                self.process.stdin.flush()

    def hear(self) -> list[Ready] | None:
        """Return what agents said; None when nothing more is to come."""
        assert self.process.stdout is not None
        more = os.read(self.process.stdout.fileno(), 1 << 16)
        if not more:
            return None
        *lines, self._rest = (self._rest + more).split(b"\n")
        said = []
        for line in lines:  # a login shell may say something before the agent does
            with contextlib.suppress(msgspec.DecodeError):
                said.append(msgspec.json.decode(line, type=Ready))
        return said

    def complaints(self) -> dict[str, str]:
        """Return which nodes have failed, as the command itself says."""
        return self._complaints(self._said()) if self._complaints else {}

    def last_words(self, node: str) -> str:
        """Return the most telling line about a node, or of all."""
        complaint = self.complaints().get(node)
        lines = self._said().splitlines()
        about = [line for line in lines if node in line]
        return (
            complaint or telling(about) or telling(lines) or f"it left no message; see {self.log}"
        )

    def _said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode(errors="replace")

    def close(self) -> None:
        """Hear no more; a lifeline stays."""
        assert self.process.stdout is not None
        self.process.stdout.close()

    def discard(self, gently: float = 0) -> None:
        """End the process, by force after `gently` seconds, and remove what its agent left here."""
        if gently:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(gently)
        self.process.kill()
        self.process.wait()
        self.close()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        if self.orders.here:
            where = place(self.orders)
            where.leave()
            where.tiers.remove()


class StartOutcome(msgspec.Struct):
    """Who is ready, and what those said who are not."""

    ready: dict[str, Member] = {}
    failed: dict[str, Ready] = {}


class Started:
    """What a launcher has begun: agents that are perhaps not ready yet."""

    #: Seconds that the processes have to end by themselves when the start is given up.
    grace = 0.0
    #: Whether they live as long as their agents.
    linger = False

    def __init__(self, starters: Sequence[Starter]) -> None:
        self.starters = starters

    def collect(self, within: float) -> StartOutcome:
        """Wait until all agents are ready or have failed."""
        return collect(self.starters, within)

    def keep(self) -> tuple[Process, ...]:
        """Let the agents live; return the processes that do so with them."""
        for starter in self.starters:
            starter.close()
        alive = (starter.process for starter in self.starters if self.linger)
        return tuple(process(one.pid) for one in alive if one.poll() is None)

    def abandon(self) -> None:
        """End all that was started."""
        for starter in self.starters:
            starter.discard(self.grace)


def collect(starters: Sequence[Starter], within: float) -> StartOutcome:
    """Wait until all agents are ready or have failed."""
    outcome = StartOutcome()
    deadline = time.monotonic() + within
    failing: dict[str, float] = {}  # nodes, since when the launcher says so
    with selectors.DefaultSelector() as selector:
        for starter in starters:
            assert starter.process.stdout is not None
            selector.register(starter.process.stdout, selectors.EVENT_READ, starter)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(_LOOK_EVERY):
                said = key.data.hear()
                if said is None:
                    selector.unregister(key.fileobj)
                for ready in said or []:
                    _note(ready, key.data, outcome)
            for key in list(selector.get_map().values()):
                now = time.monotonic()
                for node, words in key.data.complaints().items():
                    if now >= failing.setdefault(node, now) + _LAST_LINES_WITHIN:
                        _note(Ready(node, error=words), key.data, outcome)
                if not key.data.waiting:
                    selector.unregister(key.fileobj)
        late = {key.data for key in selector.get_map().values()}
    for starter in starters:
        for node in starter.waiting:
            words = f"it was not ready within {within:g} s; is the host overloaded?"
            outcome.failed[node] = Ready(
                node, error=words if starter in late else starter.last_words(node)
            )
    return outcome


def telling(lines: Sequence[str]) -> str:
    """Return the last line that speaks of an error, or the last that says anything."""
    lines = [line.strip() for line in lines if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1]


def _note(ready: Ready, starter: Starter, outcome: StartOutcome) -> None:
    if ready.node not in starter.waiting:
        return
    starter.waiting.discard(ready.node)
    if ready.member is not None:
        outcome.ready[ready.node] = ready.member
    else:
        outcome.failed[ready.node] = ready


def _line(orders: Orders) -> bytes:
    return msgspec.json.encode(orders) + b"\n"


@contextlib.contextmanager
def _stdin(orders: Orders) -> Iterator[int]:
    """Give orders as an anonymous file, which no slow reader keeps us waiting for."""
    if orders.lifeline:
        yield subprocess.PIPE
        return
    descriptor = os.memfd_create("orders", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, _line(orders))
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
