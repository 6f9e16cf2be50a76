"""What an agent is told at its start, finds out and prepares on its node, and then answers."""

from __future__ import annotations

import contextlib
import os
import time

import msgspec

from .._core import xxh3_64
from ..config import Config
from ..errors import BadInput, Damaged, NoSession
from ..membership.view import Member
from . import session as sessions
from . import tiers
from .session import AgentFile, Session
from .tiers import Tiers

#: Ports are derived from the session's name, so that two sessions rarely meet on one.
_FIRST_PORT, _PORTS = 20000, 30000
_ATTEMPTS = 8
_OLD = 600.0
_NAME = 64  # characters; a socket's path has room for little more


class Orders(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of JSON on the agent's standard input."""

    session: Session
    job_key: str  # hexadecimal
    config: Config
    node: str = ""  # empty: as the scheduler calls the node on which the agent finds itself
    index: int = 0  # among all agents: those that share a host try different ports
    directory: str = ""  # of the session; empty: where the node's own settings put it
    agents: int = 1  # that share the host, and its memory and disk
    port: int = 0  # to try before all others
    after: int = 0  # when the node's last agent started, by a clock that may have been ahead
    here: bool = False  # all agents are on one host: other hosts need not reach them
    lifeline: bool = False  # end when standard input closes: the session lives in one process
    detach: bool = False  # leave the process that was started, which is to end


class Ready(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of JSON on the agent's standard output: who is there now, or why nobody is."""

    node: str
    member: Member | None = None
    error: str = ""
    kind: str = ""  # the class of the error


class Place(msgspec.Struct, frozen=True):
    """Where one agent lives."""

    node: str
    directory: str
    tiers: Tiers

    @property
    def parent(self) -> str:
        """The directory of all sessions."""
        return os.path.dirname(self.directory)

    @property
    def socket(self) -> str:
        """For processes on this host."""
        return f"unix:{self.directory}/{self.node}.sock"

    @property
    def table(self) -> str:
        """What programs of this host need to know of their copies; outlives an agent."""
        return f"{self.directory}/{self.node}.attributes"

    @property
    def log(self) -> str:
        """What it has to say."""
        return f"{self.directory}/{self.node}.log"

    def leave(self) -> None:
        """Remove what says that an agent runs here."""
        for suffix in ("json", "sock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.directory}/{self.node}.{suffix}")


def check_name(node: str) -> str:
    """Return the name of a node, which also names files."""
    plain = node.isascii() and all(c.isalnum() or c in "-_." for c in node)
    if not plain or not node[:1].isalnum() or len(node) > _NAME or node == "session":
        raise BadInput(
            f"{node!r} is not a valid node name; use up to {_NAME} letters, digits, '-', "
            "'_' and '.', a letter or digit first"
        )
    return node


def own_name() -> str:
    """Return how the scheduler calls this node, or its host's name."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def place(orders: Orders) -> Place:
    """Return where the agent with these orders lives; it runs on this host."""
    name, config = orders.session.name, orders.config
    node = check_name(orders.node or own_name())
    directory = orders.directory or os.path.join(sessions.run_dir(config), name)
    disk_dir = config.disk_dir or sessions.temporary()
    key = bytes.fromhex(orders.job_key)
    return Place(node, directory, tiers.of_agent(config.memory_dir, disk_dir, name, node, key))


def prepare(orders: Orders, where: Place) -> None:
    """Make the session's directory on this host unless it is there, and the node's place free."""
    if not orders.directory:
        with sessions.locked_parent(where.parent):
            sweep(where.parent, where.directory)
            if _key(where.directory) != bytes.fromhex(orders.job_key):
                clear_stale(where.directory)
                sessions.make(where.directory, orders.session, bytes.fromhex(orders.job_key))
    for other in sessions.agents(where.directory):
        if other.member.node == where.node and other.process.running:
            raise BadInput(
                f"{where.node} already has a running agent (process {other.process.pid}); "
                "end it first"
            )
    where.leave()
    where.tiers.remove()
    tiers.sweep(os.path.dirname(where.tiers.memory_dir), os.path.dirname(where.tiers.disk_dir))


def clear_stale(directory: str) -> bool:
    """Remove what a session left that ended without `down`; refuse if it still runs here."""
    if not os.path.lexists(directory):
        return False
    sessions.check_ours(directory)
    running = _running(directory)
    if running:
        raise BadInput(
            f"session {os.path.basename(directory)!r} is running with {len(running)} nodes on "
            f"{os.uname().nodename}; end it with `holdfast down`, or start another one with "
            "`--session NAME`"
        )
    sessions.clear(directory)
    return True


def depart(orders: Orders, where: Place, orphaned: bool) -> None:
    """Leave the session's directory; the last agent takes it along, unless `down` is to do that."""
    if not sessions.may_be_there(where.directory, bytes.fromhex(orders.job_key)):
        return  # it was removed; another session of that name may have taken its place
    where.leave()
    try:
        home = sessions.read(where.directory).home
        if home is not None and (home.seeds or not orphaned):
            return
        with sessions.locked(where.directory if orders.directory else where.parent):
            if not _running(where.directory):
                sessions.clear(where.directory)
                if not orders.directory:
                    sessions.remove_parent(orders.config, where.parent)
    except (FileNotFoundError, NoSession):
        return  # somebody else was first


def sweep(parent: str, keep: str) -> None:
    """Remove what sessions left here that ended without `down`: jobs that were cancelled."""
    for name in os.listdir(parent):
        directory = os.path.join(parent, name)
        try:
            home = sessions.read(directory).home
            age = time.time() - os.stat(directory).st_mtime
        except (NoSession, Damaged, OSError):
            continue
        if home is None:
            ended = age > _OLD  # no agent is just about to listen
        else:  # srun lives as long as its agents; without one, they may be anywhere
            ended = bool(home.processes) and not any(one.running for one in home.processes)
        if ended and directory != keep and not _running(directory):
            sessions.clear(directory)


def ports(orders: Orders) -> tuple[int, ...]:
    """Return the ports to try in order; 0 is any."""
    config, name = orders.config, orders.session.name
    first = config.port or _FIRST_PORT + xxh3_64(f"{os.getuid()}/{name}".encode()) % _PORTS
    step = max(orders.agents, 1)
    more = (first + orders.index + step * attempt for attempt in range(_ATTEMPTS))
    given = (orders.port,) if orders.port else ()
    return (*given, *(port for port in more if port < 1 << 16), 0)


def address(orders: Orders) -> str:
    """Return the numeric address on which to listen."""
    config = orders.config
    if config.listen != "auto":
        return config.listen
    if orders.here and not config.interface:
        return "127.0.0.1"
    from . import addresses  # noqa: PLC0415 - takes long to import

    return addresses.of_interface(config.interface) if config.interface else addresses.of_host()


def rack(config: Config) -> str:
    """Return the label of the host's neighbourhood: as set, else Slurm's switch."""
    if config.rack:
        return config.rack
    if "switch" not in os.environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", ""):
        return ""
    return os.environ.get("SLURM_TOPOLOGY_ADDR", "").rpartition(".")[0]


def _running(directory: str) -> list[AgentFile]:
    """Return the agents that run, or may do so on another host with the same directory."""
    agents = sessions.agents(directory)
    return [agent for agent in agents if agent.process.running or not agent.process.here]


def _key(directory: str) -> bytes:
    try:
        return sessions.read_key(directory)
    except (NoSession, Damaged):
        return b""
