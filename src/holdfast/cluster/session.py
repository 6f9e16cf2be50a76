"""A session on one host: a private directory with the job key, the sockets and who runs here.

::

    <run_dir>/<session>/        mode 0700
        key                     the job key, mode 0600
        session.json            name, ring, and where it was started
        node-0.json             an agent of this host: written by itself when it listens,
                                removed when it ends
        node-0.sock, node-0.log, ...

The host where `holdfast up` ran is the session's home. A home stays until `holdfast down`; on other
hosts the last agent to end takes the directory with it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..config import Config
from ..errors import BadInput, Damaged, NoSession, Refused
from ..membership.view import Member
from .processes import Process


class Home(msgspec.Struct, frozen=True):
    """What only the host knows where the session was started."""

    config: Config  # with which agents start that are missing
    nodes: tuple[str, ...]  # that have an agent, or should have
    seeds: tuple[str, ...] = ()  # addresses of a few agents: perhaps none runs on this host
    processes: tuple[Process, ...] = ()  # that live as long as their agents: srun


class Session(msgspec.Struct, frozen=True):
    """What `session.json` holds."""

    name: str
    created: float
    virtual_nodes: int  # of the ring: all clients must agree
    launcher: str
    home: Home | None = None


class Tiers(msgspec.Struct, frozen=True):
    """Directories of one agent, to be removed if it cannot do so itself."""

    memory_dir: str
    disk_dir: str

    def remove(self) -> None:
        """Remove what an agent that was killed left there."""
        for directory in (self.memory_dir, self.disk_dir):
            remove_tree(directory)


class AgentFile(msgspec.Struct, frozen=True):
    """What `<node>.json` holds: an agent of this host."""

    member: Member
    process: Process
    tiers: Tiers


def run_dir(config: Config) -> Path:
    """Return the directory of sessions, private to this user."""
    if config.run_dir:
        return Path(config.run_dir)
    base = os.environ.get("XDG_RUNTIME_DIR")
    # A batch job inherits the variable from a host whose login session made that directory.
    if base and "SLURM_JOB_ID" not in os.environ and Path(base).is_dir():
        return Path(base) / "holdfast"
    return Path(temporary()) / f"holdfast-{os.getuid()}"


def temporary() -> str:
    """Return the directory for temporary files; `tempfile` takes long to import."""
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108


def make_private(path: Path) -> None:
    """Make directory `path`, or check that it is ours alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise BadInput(
            f"no session can lie in {path}: {error.strerror}; set another run_dir"
        ) from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise Refused(f"{path} must be a directory of yours with mode 0700; set another run_dir")


@contextlib.contextmanager
def locked(directory: Path, wait: bool = True) -> Iterator[None]:
    """Hold a directory; without `wait`, BlockingIOError says that somebody else does."""
    import fcntl  # noqa: PLC0415 - clients lock nothing

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def make(directory: Path, session: Session, key: bytes) -> None:
    """Make the directory of a session."""
    directory.mkdir(mode=0o700, exist_ok=True)
    _replace(directory / "key", key.hex().encode())
    write(directory, session)


def write(directory: Path, session: Session) -> None:
    """Replace the session's file as a whole."""
    _replace(directory / "session.json", _readable(session))


def read(directory: Path) -> Session:
    """Read the session in `directory`."""
    try:
        text = (directory / "session.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NoSession(
            f"no session {directory.name!r} in {directory.parent}; `holdfast up` starts one"
        ) from None
    try:
        return msgspec.json.decode(text, type=Session)
    except msgspec.DecodeError as error:
        raise Damaged(
            f"{directory / 'session.json'} is not a session file ({error}); "
            "end its agents and remove the directory"
        ) from None


def read_key(directory: Path) -> bytes:
    """Read the job key, which must be nobody else's to read."""
    path = directory / "key"
    try:
        info = path.lstat()
    except FileNotFoundError:
        raise NoSession(f"{path} is missing; start the session again") from None
    if info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise Refused(f"{path} must be yours with mode 0600; others may have read the job key")
    try:
        return bytes.fromhex(path.read_text())
    except ValueError:
        raise Damaged(f"{path} does not hold a job key; start the session again") from None


def write_agent(directory: Path, agent: AgentFile) -> None:
    """Say that an agent listens on this host."""
    _replace(directory / f"{agent.member.node}.json", _readable(agent))


def agents(directory: Path) -> list[AgentFile]:
    """Return the agents of this host by node: those that run, and those that were killed."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(directory.iterdir()):
            if path.suffix == ".json" and path.name != "session.json":
                with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                    found.append(msgspec.json.decode(path.read_bytes(), type=AgentFile))
    return found


def clear(directory: Path) -> None:
    """Remove all that a session left on this host; its agents have ended."""
    for agent in agents(directory):
        agent.tiers.remove()
    remove_tree(str(directory))


def remove_tree(directory: str) -> None:
    """Remove a directory and all below it, if it is there."""
    if os.path.lexists(directory):
        import shutil  # noqa: PLC0415 - takes long to import, and is rarely needed

        shutil.rmtree(directory, ignore_errors=True)


def _readable(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _replace(path: Path, content: bytes) -> None:
    """Write a file as a whole, readable by us only from its first byte on."""
    # Not .json: whoever lists the directory must not take it for an agent.
    temporary_path = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary_path, path)
