"""The agent's loop: it answers calls, takes events of the core, and does what is due."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from .. import _core
from ..errors import HoldfastError
from ..membership.key_spaces import KeySpace
from ..membership.view import Member, gives_way_to
from ..session import node
from ..session import session as sessions
from ..session.node import Orders
from ..session.processes import note
from . import metrics
from .control import Control
from .node_driver import NodeDriver
from .service import Service
from .services import Services
from .session_watch import SessionWatch
from .shell import Shell
from .story import Story

#: An agent that nobody introduces to the others ends, in seconds.
_JOIN_WITHIN = 60.0
#: Saying that it goes may take an agent that long.
_FAREWELL_WITHIN = 0.3

#: Makes all services but `agent`, which is the process's own (holdfast/services.py).
Offered = Callable[[Shell, NodeDriver], Iterable[Service]]


def serve(
    core: _core.Agent,
    orders: Orders,
    member: Member,
    directory: str,
    wake: int,
    offered: Offered,
    key_spaces: Sequence[KeySpace],
) -> bool:
    """Take part until told to stop, also by `wake`, or until its lifeline ends (True)."""
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True

    shell = Shell(core, member, orders.config, Story(member.node, _now))
    services = Services(core, shell.trouble, orders.config)
    driver = NodeDriver(shell, services, key_spaces)
    control = Control(shell, services, node.place(orders).log, stop)
    services.add(control)
    for service in offered(shell, driver):
        services.add(service)
    driver.begin()
    poll = select.poll()
    poll.register(core.fileno(), select.POLLIN)
    poll.register(wake, select.POLLIN)
    watch = SessionWatch(directory, bytes.fromhex(orders.job_key))
    poll.register(watch.descriptor, select.POLLIN)
    if orders.lifeline:
        poll.register(sys.stdin.fileno(), select.POLLIN)
    if orders.config.metrics_port:
        _offer_metrics(orders, member, directory)
    end = time.monotonic() + _JOIN_WITHIN
    while not stopping and not driver.successor():
        ready = {descriptor for descriptor, _ in poll.poll(1000 * services.until_tick())}
        stopping |= wake in ready
        if watch.descriptor in ready:
            note("the session's directory was removed, so no client can reach this agent; it exits")
            stopping = True
        if sys.stdin.fileno() in ready or (not driver.joined and time.monotonic() > end):
            return True  # perhaps before the session was complete
        # Whatever is ready: an expected answer to a probe makes nothing readable.
        shell.take_events()
        if core.fileno() in ready:
            services.answer_waiting(due=lambda: not services.until_tick())
        services.tick()
    for descriptor in (wake, watch.descriptor, *([sys.stdin.fileno()] if orders.lifeline else ())):
        poll.unregister(descriptor)
    _leave(driver, shell, poll)
    if orders.config.metrics_file:
        _write_metrics(orders.config.metrics_file, member.node, control)
    return False


def _now() -> tuple[float, float]:
    return time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)


def _leave(driver: NodeDriver, shell: Shell, poll: select.poll) -> None:
    """Say that we go."""
    if later := driver.successor():
        note(f"{gives_way_to(later)}; this one exits")
    driver.leave()
    end = time.monotonic() + _FAREWELL_WITHIN
    while shell.waits and time.monotonic() < end:
        poll.poll(1000 * _FAREWELL_WITHIN)
        shell.take_events()


def _offer_metrics(orders: Orders, member: Member, directory: str) -> None:
    """Answer scrapes from a thread, which asks the loop like everybody else."""
    key = bytes.fromhex(orders.job_key)
    client = _core.AgentClient(key)

    def text() -> str:
        return client.call(member.socket, "agent", "metrics", b"").decode()

    port = orders.config.metrics_port + orders.index
    try:
        bearer = metrics.token(key)
        sessions.write_metrics_token(directory, bearer)
        metrics.serve(port, bearer, text)
    except OSError as error:
        note(f"cannot serve metrics on port {port}: {error.strerror}")
    except HoldfastError as error:
        note(f"cannot serve metrics on port {port}: {error}")


def _write_metrics(path: str, node_name: str, control: Control) -> None:
    try:
        with open(path.replace("{node}", node_name), "w") as file:
            file.write(control.agent_metrics())
    except OSError as error:
        note(f"cannot write metrics to {path}: {error.strerror}")
