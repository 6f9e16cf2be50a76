"""The agent's process: orders on standard input, `Ready` on standard output, then the loop.

Imports here are few on purpose: thousands of agents start at once, from a shared file system.
What only the loop needs is imported when the agent is ready, while others start.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec

from .. import _core
from ..errors import Busy, HoldfastError
from ..membership.view import COMPUTE, Member
from ..session import capacity, node
from ..session import session as sessions
from ..session.node import Orders, Place, Ready
from ..session.processes import note, process
from ..session.session import AgentFile

if TYPE_CHECKING:
    from ..membership.key_spaces import KeySpace
    from .loop import Offered


def run(offered: Offered, key_spaces: Sequence[KeySpace] = ()) -> None:
    """Run an agent until it is told to stop; `offered` makes its services.

    `key_spaces` are those of the session; its clients must have the same.
    """
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
    locks = contextlib.ExitStack()
    try:
        core, member = _start(orders, where, locks)
    except Exception as error:
        locks.close()
        where.tiers.remove()
        node.depart(orders, where, orphaned=False)
        _refuse(orders, error)
    wake = _catch_signals()
    try:
        _say(Ready(member.node, member))
    except BrokenPipeError:
        orphaned = True
    else:
        from .loop import serve  # noqa: PLC0415 - see above

        orphaned = serve(core, orders, member, where.directory, wake, offered, key_spaces)
    core.stop()
    locks.close()
    where.tiers.remove()  # while our file still tells `down` of them, should we be killed
    node.depart(orders, where, orphaned)


def _refuse(orders: Orders, error: Exception) -> NoReturn:
    """Say why no agent runs; who started us may be far from our log."""
    reason = str(error) if isinstance(error, HoldfastError) else repr(error)
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
        _say(Ready(orders.node or node.own_name(), error=reason, kind=type(error).__name__))
    sys.exit(1)


def _start(orders: Orders, where: Place, locks: contextlib.ExitStack) -> tuple[_core.Agent, Member]:
    """Listen, and say so in the session's directory."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # one per client and file being sent
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    log = os.open(where.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    config, tiers, agents = orders.config, where.tiers, orders.agents
    core = _core.Agent(
        bytes.fromhex(orders.job_key),
        memory_dir=tiers.memory_dir,
        memory_capacity=capacity.resolve(
            config.memory, os.path.dirname(tiers.memory_dir), agents, in_memory=True
        ),
        disk_dir=tiers.disk_dir,
        disk_capacity=capacity.resolve(
            config.disk, os.path.dirname(tiers.disk_dir), agents, in_memory=False
        ),
        scrub_rate=config.scrub_rate,
        huge_pages=config.huge_pages,
    )
    locks.enter_context(tiers.held())
    control = _core.choose_congestion_control(config.congestion)
    note(f"TCP congestion control: {control}")
    core.publish_attributes(where.table)
    core.listen(where.socket)
    member = Member(
        node=where.node,
        number=int.from_bytes(os.urandom(8), "big") >> 1,
        started=max(time.time_ns(), orders.after + 1),
        address=_listen(core, node.address(orders), node.ports(orders)),
        socket=where.socket,
        pid=os.getpid(),
        role=orders.session.roles.get(where.node, COMPUTE),
        host=os.uname().nodename,
        rack=node.rack(config),
    )
    core.set_self(member.number)  # from its first moment: others probe it before our loop runs
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


def _catch_signals() -> int:
    """Return a descriptor that is readable once we are to stop; nothing else happens by a signal.

    Also one that arrives just before the loop waits must end it.
    """
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return wake_read


def _say(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the reader has read its line and is gone
