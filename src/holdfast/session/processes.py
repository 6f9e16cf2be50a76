"""Processes of this host: whether that very one still runs, how to end it, what it writes down."""

from __future__ import annotations

import contextlib
import os
import sys
import time

import msgspec

_LOOK_EVERY = 0.005
#: Nothing but a storage that hangs keeps a killed process longer.
_KILLED_WITHIN = 10.0


class Process(msgspec.Struct, frozen=True):
    """A process that cannot be taken for another: a pid alone may be somebody else's by now."""

    pid: int
    started: int  # clock ticks since boot
    boot: str  # of the host: hosts may share a directory

    @property
    def here(self) -> bool:
        """Whether it is, or was, on this host since its last start."""
        return self.boot == boot()

    @property
    def running(self) -> bool:
        """Whether it still runs here, or is stopped."""
        return self.here and start_time(self.pid) == self.started


def boot() -> str:
    """Return the name of this start of this host."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which process `pid` started; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may itself contain any character.
    fields = text.rpartition(")")[2].split()
    # While other threads of it end, it has its files open and their locks.
    ended = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if ended else int(fields[19])


def process(pid: int) -> Process:
    """Return process `pid` as it is now."""
    return Process(pid, start_time(pid) or 0, boot())


def end(processes: list[Process], within: float) -> list[Process]:
    """End processes, gently first; returns those that hang in the kernel and do not end."""
    from signal import SIGCONT, SIGKILL, SIGTERM  # noqa: PLC0415 - agents do not end others

    for one in processes:
        _signal(one, SIGTERM)
        _signal(one, SIGCONT)  # a stopped one hears the rest only after this
    wait(processes, within)
    for one in processes:
        _signal(one, SIGKILL)
    wait(processes, _KILLED_WITHIN)
    return [one for one in processes if one.running]


def wait(processes: list[Process], within: float) -> bool:
    """Wait until all have ended; tells whether they did."""
    deadline = time.monotonic() + within
    while any(one.running for one in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _signal(one: Process, number: int) -> None:
    from signal import pidfd_send_signal  # noqa: PLC0415

    try:
        handle = os.pidfd_open(one.pid)
    except ProcessLookupError:
        return
    try:
        # The handle keeps the pid from being given away between the look and the signal.
        if one.running:
            pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def note(line: str) -> None:
    """Write a line to our log; without room for it the line is lost, and nothing else."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"{line}\n".encode(errors="replace"))
