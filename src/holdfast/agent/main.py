"""The agent's process: orders on standard input, `Ready` on standard output, then the loop.

Imports here are few on purpose: thousands of agents start at once, from a shared file system.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import time
from typing import NoReturn

import msgspec

from .. import _core
from ..cluster import capacity, node
from ..cluster import session as sessions
from ..cluster.messages import AgentStatus
from ..cluster.node import Place
from ..cluster.processes import process
from ..cluster.session import AgentFile
from ..cluster.settings import Orders, Ready
from ..errors import Busy, HoldfastError
from ..membership.view import Member
from .control import Control
from .faults import Faults
from .members import Members
from .services import Services, offered

#: An agent that nobody introduces to the others ends, in seconds.
_JOIN_WITHIN = 60.0
#: Saying that it goes may take an agent that long.
_FAREWELL_WITHIN = 0.3


def main() -> None:
    """Run an agent until it is told to stop."""
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    if orders.detach:
        if os.fork():
            os._exit(0)
        os.setsid()
    try:
        where = node.place(orders)
        node.prepare(orders, where)
    except Exception as error:
        _refuse(orders, error)
    try:
        core, member = _start(orders, where)
    except Exception as error:
        where.tiers.remove()
        node.depart(orders, where, orphaned=False)
        _refuse(orders, error)
    orphaned = _serve(core, orders, member)
    core.stop()
    where.tiers.remove()  # while our file still tells `down` of them, should we be killed
    node.depart(orders, where, orphaned)


def _refuse(orders: Orders, error: Exception) -> NoReturn:
    """Say why no agent runs; whoever started us may be far from our log."""
    reason = str(error) if isinstance(error, HoldfastError) else repr(error)
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
        _say(Ready(orders.node or node.own_name(), error=reason, kind=type(error).__name__))
    sys.exit(1)


def _start(orders: Orders, where: Place) -> tuple[_core.Agent, Member]:
    """Listen, and say so in the session's directory."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # one per client and file being sent
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    log = os.open(where.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    config, tiers, agents = orders.config, where.tiers, orders.agents
    core = _core.Agent(
        bytes.fromhex(orders.job_key),
        tiers.memory_dir,
        capacity.resolve(config.memory, os.path.dirname(tiers.memory_dir), agents, in_memory=True),
        tiers.disk_dir,
        capacity.resolve(config.disk, os.path.dirname(tiers.disk_dir), agents, in_memory=False),
        config.scrub_rate,
    )
    core.publish_attributes(where.table)
    core.listen(where.socket)
    member = Member(
        node=where.node,
        number=int.from_bytes(os.urandom(8), "big") >> 1,
        started=time.time_ns(),
        address=_listen(core, node.address(orders), node.ports(orders)),
        socket=where.socket,
        pid=os.getpid(),
        role=config.role,
        host=os.uname().nodename,
        rack=node.rack(config),
    )
    core.start()
    sessions.write_agent(where.directory, AgentFile(member, process(os.getpid()), tiers))
    return core, member


def _listen(core: _core.Agent, address: str, ports: tuple[int, ...]) -> str:
    for port in ports[:-1]:
        try:
            return core.listen(f"tcp:{address}:{port}")
        except Busy:  # somebody has this port: the next one will do
            continue
    return core.listen(f"tcp:{address}:{ports[-1]}")


def _serve(core: _core.Agent, orders: Orders, member: Member) -> bool:
    """Take part until told to stop, or until whoever started us is gone (True)."""
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True

    members = Members(core, member, orders.config)
    services = Services()
    control = Control(core, members, stop)
    services.register(control)
    services.register(members)
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
    if orders.lifeline:
        poll.register(sys.stdin.fileno(), select.POLLIN)
    try:
        _say(Ready(member.node, member))
    except BrokenPipeError:
        return True
    for service in offered(core, member):  # imports more, while others start
        services.register(service)
    if orders.config.metrics_port:
        _offer_metrics(orders, member)
    end = time.monotonic() + _JOIN_WITHIN
    while not stopping and not members.superseded():
        ready = {descriptor for descriptor, _ in poll.poll(1000 * members.until_tick())}
        if sys.stdin.fileno() in ready or (not members.joined and time.monotonic() > end):
            return True  # perhaps before the session was complete
        if core.fileno() in ready:
            services.answer_waiting(core)
        members.take_events()  # an expected answer to a probe makes nothing readable
        if not members.until_tick():
            members.tick()
    for descriptor in (wake_read, *([sys.stdin.fileno()] if orders.lifeline else ())):
        poll.unregister(descriptor)
    members.leave()
    end = time.monotonic() + _FAREWELL_WITHIN
    while members.talks() and time.monotonic() < end:
        poll.poll(1000 * _FAREWELL_WITHIN)
        members.take_events()
    if orders.config.metrics_file:
        _write_metrics(orders.config.metrics_file, control)
    return False


def _offer_metrics(orders: Orders, member: Member) -> None:
    """Answer scrapes from a thread, which asks the loop like everybody else."""
    from . import metrics  # noqa: PLC0415 - few want it

    client = _core.Client(bytes.fromhex(orders.job_key))

    def text() -> str:
        answer = client.call(member.socket, "agent", "status", b"")
        return metrics.render(msgspec.msgpack.decode(answer, type=AgentStatus))

    port = orders.config.metrics_port + orders.index
    try:
        metrics.serve(port, text)
    except OSError as error:
        print(f"no metrics on port {port}: {error.strerror}", file=sys.stderr, flush=True)


def _write_metrics(path: str, control: Control) -> None:
    from . import metrics  # noqa: PLC0415

    status = control.status()
    try:
        with open(path.replace("{node}", status.node), "w") as file:
            file.write(metrics.render(status))
    except OSError as error:
        print(f"no metrics in {path}: {error.strerror}", file=sys.stderr, flush=True)


def _say(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the reader has read its line and is gone
