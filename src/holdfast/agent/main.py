"""The agent's process: settings on standard input, `Ready` on standard output, then the loop.

Imports here are few on purpose: thousands of agents start at once, from a shared file system.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys

import msgspec

from .. import _core
from ..cluster.settings import AgentSettings, Ready
from ..errors import Busy, HoldfastError
from .control import Control
from .faults import Faults
from .services import Services

_VIEW_WITHIN_MS = 60_000


def main() -> None:
    """Run an agent until it is told to stop."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=AgentSettings)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # one per client and file being sent
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        core = _core.Agent(
            bytes.fromhex(settings.job_key),
            settings.memory_dir,
            settings.memory,
            settings.disk_dir,
            settings.disk,
            settings.scrub_rate,
        )
        core.listen(settings.socket)
        address = _listen(core, settings)
    except HoldfastError as error:
        _say(Ready(error=str(error)))
        sys.exit(1)
    orphaned = _serve(core, settings, address)
    core.stop()
    if orphaned:
        _clear_session(os.path.dirname(settings.socket.removeprefix("unix:")))


def _listen(core: _core.Agent, settings: AgentSettings) -> str:
    for port in settings.ports[:-1]:
        try:
            return core.listen(f"tcp:{settings.listen}:{port}")
        except Busy:  # somebody has this port: the next one will do
            continue
    return core.listen(f"tcp:{settings.listen}:{settings.ports[-1]}")


def _serve(core: _core.Agent, settings: AgentSettings, address: str) -> bool:
    """Answer calls until told to stop, or until whoever started us is gone (True)."""
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True

    control = Control(settings.node, settings.number, core, stop)
    services = Services()
    services.register(control)
    services.register(Faults(core))
    # A signal must wake the loop also when it arrives just before the wait.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())

    poll = select.poll()
    poll.register(core.fileno(), select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    if settings.lifeline:
        poll.register(sys.stdin.fileno(), select.POLLIN)
    core.start()
    _say(Ready(address=address))
    while not stopping:
        patience = None if control.view.members else _VIEW_WITHIN_MS
        ready = {descriptor for descriptor, _ in poll.poll(patience)}
        if not ready or sys.stdin.fileno() in ready:
            return True  # perhaps before the session was complete
        services.answer_waiting(core)
    return False


def _clear_session(directory: str) -> None:
    """Remove the session's directory if we are the last: nobody else is left to do it."""
    try:
        names = os.listdir(directory)
        if any(name.endswith(".sock") for name in names):
            return
        for name in names:
            os.unlink(f"{directory}/{name}")
        os.rmdir(directory)
    except OSError:
        return  # another agent is doing the same, or somebody's files are there


def _say(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the reader has read its line and is gone
