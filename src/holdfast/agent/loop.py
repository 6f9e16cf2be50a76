"""The agent's loop: it answers calls, takes events of the core, and does what is due."""

from __future__ import annotations

import select
import sys
import time

import msgspec

from .. import _core
from ..client.messages import AgentStatus
from ..errors import HoldfastError
from ..membership.view import Member, gives_way_to
from ..session import node
from ..session import session as sessions
from ..session.orders import Orders
from ..session.processes import note
from .control import Control
from .fault_points import FaultPoints
from .members import Members
from .services import Services, offered
from .session_watch import SessionWatch
from .story import Story
from .trouble import Trouble

#: An agent that nobody introduces to the others ends, in seconds.
_JOIN_WITHIN = 60.0
#: Saying that it goes may take an agent that long.
_FAREWELL_WITHIN = 0.3


def serve(core: _core.Agent, orders: Orders, member: Member, directory: str, wake: int) -> bool:
    """Take part until told to stop, also by `wake`, or until whoever started us is gone (True)."""
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True

    trouble = Trouble()
    story = Story(member.node, _now)
    members = Members(core, member, orders.config, trouble, story)
    services = Services(trouble)
    control = Control(core, members, story, node.place(orders).log, stop)
    services.register(control)
    services.register(members)
    services.register(FaultPoints(core))
    for service in offered(core, member):
        services.register(service)
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
    while not stopping and not members.successor():
        ready = {descriptor for descriptor, _ in poll.poll(1000 * members.until_tick())}
        stopping |= wake in ready
        if watch.descriptor in ready:
            note("the session's directory was removed, so no client can reach this agent; it exits")
            stopping = True
        if sys.stdin.fileno() in ready or (not members.joined and time.monotonic() > end):
            return True  # perhaps before the session was complete
        # Before calls are answered: who asks for the story wants what has just happened to it. And
        # whatever is ready: an expected answer to a probe makes nothing readable.
        members.take_events()
        if core.fileno() in ready:
            services.answer_waiting(core, due=lambda: not members.until_tick())
        if not members.until_tick():
            try:
                members.tick()
            except Exception as error:  # the next one may do
                trouble.failure("the periodic work", error)
    for descriptor in (wake, watch.descriptor, *([sys.stdin.fileno()] if orders.lifeline else ())):
        poll.unregister(descriptor)
    _leave(members, poll)
    if orders.config.metrics_file:
        _write_metrics(orders.config.metrics_file, control)
    return False


def _now() -> tuple[float, float]:
    return time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)


def _leave(members: Members, poll: select.poll) -> None:
    """Say that we go."""
    if later := members.successor():
        note(f"{gives_way_to(later)}; this one exits")
    members.leave()
    end = time.monotonic() + _FAREWELL_WITHIN
    while members.talks() and time.monotonic() < end:
        poll.poll(1000 * _FAREWELL_WITHIN)
        members.take_events()


def _offer_metrics(orders: Orders, member: Member, directory: str) -> None:
    """Answer scrapes from a thread, which asks the loop like everybody else."""
    from . import metrics  # noqa: PLC0415 - few want it

    key = bytes.fromhex(orders.job_key)
    client = _core.AgentClient(key)

    def text() -> str:
        answer = client.call(member.socket, "agent", "status", b"")
        return metrics.render(msgspec.msgpack.decode(answer, type=AgentStatus))

    port = orders.config.metrics_port + orders.index
    try:
        bearer = metrics.token(key)
        sessions.write_metrics_token(directory, bearer)
        metrics.serve(port, bearer, text)
    except OSError as error:
        note(f"cannot serve metrics on port {port}: {error.strerror}")
    except HoldfastError as error:
        note(f"cannot serve metrics on port {port}: {error}")


def _write_metrics(path: str, control: Control) -> None:
    from . import metrics  # noqa: PLC0415

    status = control.status()
    try:
        with open(path.replace("{node}", status.node), "w") as file:
            file.write(metrics.render(status))
    except OSError as error:
        note(f"cannot write metrics to {path}: {error.strerror}")
