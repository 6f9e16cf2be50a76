"""Starting and ending the agents of a session on this host."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from .._core import Client, xxh3_64
from ..config import Config
from ..errors import BadInput, DeadlineMissed, HoldfastError
from ..membership.view import Member, View
from . import capacity
from . import networks as networking
from . import session as sessions
from .networks import Networks
from .session import Process, Session, Tiers
from .settings import AgentSettings, Ready

#: `-c` rather than `-m`: starts without the machinery that looks for a module's file.
_AGENT = [sys.executable, "-c", "from holdfast.agent.main import main; main()"]
_READY_WITHIN = 30.0
_END_WITHIN = 5.0


class Launched:
    """An agent that was started by this process, and is perhaps not ready yet."""

    def __init__(self, settings: AgentSettings, log: Path, under: Sequence[str] = ()) -> None:
        self.settings = settings
        self.log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*under, *_AGENT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd="/",
                start_new_session=True,
            )
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once: wait_ready() tells why
            self.process.stdin.write(msgspec.json.encode(settings) + b"\n")
            self.process.stdin.flush()
        if not settings.lifeline:
            self.process.stdin.close()

    def wait_ready(self) -> Member:
        """Wait until the agent listens."""
        assert self.process.stdout is not None
        line = _read_line(self.process.stdout.fileno(), _READY_WITHIN)
        self.process.stdout.close()
        ready = msgspec.json.decode(line, type=Ready) if line else Ready(error=self._last_words())
        if ready.error:
            raise HoldfastError(f"the agent of {self.settings.node} did not start: {ready.error}")
        settings = self.settings
        return Member(
            settings.node, settings.number, ready.address, settings.socket, self.process.pid
        )

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else f"it said nothing; see {self.log}"

    def as_process(self) -> Process:
        """Return what the session file keeps of it."""
        started = sessions.start_time(self.process.pid) or 0
        tiers = Tiers(self.settings.memory_dir, self.settings.disk_dir)
        return Process(self.process.pid, started, tiers)

    def discard(self) -> None:
        """Kill the agent if it runs, and remove what it leaves."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        remove_leftovers(
            Tiers(self.settings.memory_dir, self.settings.disk_dir), self.settings.socket
        )


def _read_line(descriptor: int, within: float) -> bytes:
    import select  # noqa: PLC0415 - only the launcher waits like this

    line, end = b"", time.monotonic() + within
    while not line.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            raise DeadlineMissed(
                f"an agent was not ready within {within:g} s; is the host overloaded?"
            )
        more = os.read(descriptor, 4096)
        if not more:
            return b""
        line += more
    return line


class Recipe(msgspec.Struct, frozen=True):
    """What the agents of a session have in common."""

    config: Config
    directory: Path
    key: bytes
    nodes: int
    lifeline: bool
    networks: Networks | None = None  # one for each node, instead of the host's

    def launch(self, index: int, port: int | None = None, under: Sequence[str] = ()) -> Launched:
        """Start the agent of one node, on `port` if that is given and free.

        `under` is a command that runs another, e.g. strace with its options.
        """
        settings = self._settings(index, () if port is None else (port,))
        if self.networks is not None:
            under = (*self.networks.under(index), *under)
        return Launched(settings, self.directory / f"{settings.node}.log", under)

    def _settings(self, index: int, ports: tuple[int, ...]) -> AgentSettings:
        config, name, node = self.config, self.directory.name, f"node-{index}"
        memory_dir, disk_dir = config.memory_dir, config.disk_dir or tempfile.gettempdir()
        private = f"holdfast-{os.getuid()}-{name}-{node}"
        first = config.port or 20000 + xxh3_64(f"{os.getuid()}/{name}".encode()) % 30000
        more = (first + index + self.nodes * attempt for attempt in range(8))
        return AgentSettings(
            node=node,
            number=secrets.randbits(63),
            job_key=self.key.hex(),
            socket=f"unix:{self.directory / node}.sock",
            listen=self.networks.address(index) if self.networks else config.listen,
            ports=(*ports, *(port for port in more if port < 1 << 16), 0),
            memory_dir=os.path.join(memory_dir, private),
            memory=capacity.resolve(config.memory, memory_dir, self.nodes, in_memory=True),
            disk_dir=os.path.join(disk_dir, f"{private}-disk"),
            disk=capacity.resolve(config.disk, disk_dir, self.nodes, in_memory=False),
            scrub_rate=config.scrub_rate,
            lifeline=self.lifeline,
        )


def start(recipe: Recipe) -> tuple[Session, list[Launched]]:
    """Start all agents of a session whose directory is new and empty; all or none."""
    if not isinstance(recipe.nodes, int) or not 1 <= recipe.nodes <= 1024:
        raise BadInput(f"{recipe.nodes!r} nodes; start 1 to 1024 on one host")
    sessions.write_key(recipe.directory, recipe.key)
    launched: list[Launched] = []
    try:
        for index in range(recipe.nodes):
            launched.append(recipe.launch(index))
        members = tuple(agent.wait_ready() for agent in launched)
        processes = {agent.settings.node: agent.as_process() for agent in launched}
        session = Session(
            recipe.directory.name,
            time.time(),
            View(members),
            processes,
            recipe.config.virtual_nodes,
        )
        sessions.write(recipe.directory, session)
        tell_view(session.view, recipe.key)
    except BaseException:
        for agent in launched:
            agent.discard()
        raise
    return session, launched


def tell_view(view: View, key: bytes) -> None:
    """Give every agent that answers the list of all."""
    client = Client(key)
    message = msgspec.msgpack.encode(view)
    for member in view.members:
        with contextlib.suppress(HoldfastError):  # who does not answer is avoided by all anyway
            client.call(member.socket, "agent", "set_view", message, deadline=1.0)


def end(directory: Path, session: Session) -> None:
    """End the agents of a session, gently first, and remove all it left."""
    for process in session.processes.values():
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)  # a stopped one hears the rest only after this
    deadline = time.monotonic() + _END_WITHIN
    for node, process in session.processes.items():
        while sessions.is_running(process) and time.monotonic() < deadline:
            time.sleep(0.005)
        _signal(process, signal.SIGKILL)
        while sessions.is_running(process):
            time.sleep(0.005)
        remove_leftovers(process.tiers, f"unix:{directory / node}.sock")
    if (networks := networking.of_session(directory)) is not None:
        networks.remove()
    shutil.rmtree(directory, ignore_errors=True)


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The handle keeps the pid from being given away between the look and the signal.
        if sessions.is_running(process):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def remove_leftovers(tiers: Tiers, socket: str) -> None:
    """Remove what an agent that was killed could not remove itself."""
    for directory in (tiers.memory_dir, tiers.disk_dir):
        shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket.removeprefix("unix:"))


@contextlib.contextmanager
def locked(parent: Path) -> Iterator[None]:
    """Hold the directory of sessions while one is started or ended."""
    sessions.make_private(parent)
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
