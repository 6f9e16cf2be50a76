"""A session on one host: a private directory with the job key, the sockets and who runs here.

::

    <run_dir>/<session>/        mode 0700
        key                     the job key, mode 0600
        metrics-token           what a collector of metrics must bring, mode 0600
        session.json            name, ring, and where it was started
        node-0.json             an agent of this host: written by itself when it listens,
                                removed when it ends
        node-0.attributes       what programs are told of the files that they have open
        node-0.sock, node-0.log, ...
        node-0.mount-0.state    a mount, and the process that looks after it

The host where `holdfast up` ran is the session's home. A home stays until `holdfast down`; on other
hosts the last agent to end takes the directory with it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from errno import ENOENT
from typing import TYPE_CHECKING

import msgspec

from ..config import Config
from ..errors import BadInput, Damaged, HoldfastError, NoSession, Refused
from ..membership.view import Member
from .processes import Process, end
from .tiers import Tiers

if TYPE_CHECKING:
    from pathlib import Path

    Place = str | Path  # agents do without pathlib, which takes long to import


SESSION = "session.json"
METRICS_TOKEN = "metrics-token"  # noqa: S105 - the name of a file
#: How the names of the state files of mounts end.
MOUNT_STATE = ".state"
_END_WITHIN = 10.0


class Home(msgspec.Struct, frozen=True):
    """What only the host knows where the session was started."""

    config: Config  # with which agents start that are missing
    nodes: tuple[str, ...]  # that have an agent, or should have
    seeds: tuple[str, ...] = ()  # addresses of a few agents: perhaps none runs on this host
    processes: tuple[Process, ...] = ()  # that live as long as their agents: srun


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What `session.json` holds."""

    name: str
    created: float
    virtual_nodes: int  # of the ring: all clients must agree
    tree_largest: int  # and all mounts on what comes in parts
    tree_ttl: float
    launcher: str
    roles: dict[str, str] = {}  # of nodes that are no compute nodes
    home: Home | None = None


class AgentFile(msgspec.Struct, frozen=True):
    """What `<node>.json` holds: an agent of this host."""

    member: Member
    process: Process
    tiers: Tiers


class Supervised(msgspec.Struct, frozen=True):
    """What the state file of every mount holds."""

    supervisor: Process


def run_dir(config: Config) -> str:
    """Return the directory of sessions, private to this user."""
    if config.run_dir:
        return config.run_dir
    base = os.environ.get("XDG_RUNTIME_DIR")
    # A batch job inherits the variable from a host whose login session made that directory.
    if base and "SLURM_JOB_ID" not in os.environ and os.path.isdir(base):
        return os.path.join(base, "holdfast")
    return os.path.join(temporary(), f"holdfast-{os.getuid()}")


def directory(config: Config) -> Path:
    """Return the directory of the session that is set."""
    from pathlib import Path  # noqa: PLC0415

    return Path(run_dir(config), config.session)


def temporary() -> str:
    """Return the directory for temporary files; `tempfile` takes long to import."""
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108


def no_place(path: Place, error: OSError) -> BadInput:
    """Return what to say when a directory for sessions cannot be used."""
    return BadInput(f"cannot keep sessions in {path}: {error.strerror}; set another run_dir")


def make_private(path: Place) -> None:
    """Make directory `path`, or check that it is ours alone."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        info = os.lstat(path)
    except OSError as error:
        raise no_place(path, error) from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise Refused(
            f"{path} must be a directory that you own, with mode 0700; set another run_dir"
        )


@contextlib.contextmanager
def locked(directory: Place, wait: bool = True) -> Iterator[None]:
    """Hold a directory; without `wait`, BlockingIOError says that somebody else does.

    FileNotFoundError says that it is gone, perhaps since its holder has removed it.
    """
    import fcntl  # noqa: PLC0415 - clients lock nothing

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.stat(directory).st_ino != os.fstat(descriptor).st_ino:
            raise FileNotFoundError(ENOENT, "it has just been removed", str(directory))
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_parent(parent: Place) -> Iterator[None]:
    """Hold the directory of all sessions, made if it is not there."""
    with contextlib.ExitStack() as stack:
        while True:
            make_private(parent)
            try:
                stack.enter_context(locked(parent))
                break
            except FileNotFoundError:  # the last session has just ended
                continue
        yield


def remove_parent(config: Config, parent: Place) -> None:
    """Remove the directory of all sessions if we made it and it is empty; it is held."""
    if not config.run_dir:
        with contextlib.suppress(OSError):
            os.rmdir(parent)


def make(directory: Place, session: Session, key: bytes) -> None:
    """Make the directory of a session."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise no_place(os.path.dirname(directory), error) from None
    _replace(os.path.join(directory, "key"), key.hex().encode())
    write(directory, session)


def write(directory: Place, session: Session) -> None:
    """Replace the session's file as a whole."""
    _replace(os.path.join(directory, SESSION), _readable(session))


def read(directory: Place) -> Session:
    """Read the session in `directory`."""
    path = os.path.join(directory, SESSION)
    try:
        return msgspec.json.decode(_read(path), type=Session)
    except (FileNotFoundError, NotADirectoryError):
        parent, name = os.path.split(directory)
        raise NoSession(f"no session {name!r} in {parent}; `holdfast up` starts one") from None
    except msgspec.DecodeError as error:
        raise Damaged(
            f"{path} is not a session file ({error}); end its agents and remove the directory"
        ) from None


def read_key(directory: Place) -> bytes:
    """Read the job key, which must be nobody else's to read."""
    path = os.path.join(directory, "key")
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise NoSession(f"{path} is missing; start the session again") from None
    if info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise Refused(
            f"{path} must be owned by you, with mode 0600; others may have read the job key"
        )
    try:
        return bytes.fromhex(_read(path).decode())
    except ValueError:
        raise Damaged(f"{path} does not contain a job key; start the session again") from None


def write_metrics_token(directory: Place, token: str) -> None:
    """Lay down what a collector must bring; all agents of a host write the same."""
    _replace(os.path.join(directory, METRICS_TOKEN), token.encode())


def may_be_there(directory: Place, key: bytes) -> bool:
    """Whether the session with this key is in `directory`, or a failing file system hides it."""
    try:
        os.stat(os.path.join(directory, SESSION))
        return read_key(directory) == key
    except (FileNotFoundError, NoSession):
        return False
    except (OSError, HoldfastError):
        return True


def write_agent(directory: Place, agent: AgentFile) -> None:
    """Say that an agent listens on this host."""
    _replace(os.path.join(directory, f"{agent.member.node}.json"), _readable(agent))


def agents(directory: Place) -> list[AgentFile]:
    """Return the agents of this host by node: those that run, and those that were killed."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(directory)):
            if name.endswith(".json") and name != SESSION:
                with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                    text = _read(os.path.join(directory, name))
                    found.append(msgspec.json.decode(text, type=AgentFile))
    return found


def clear(directory: Place) -> None:
    """Remove all that a session left on this host; its agents have ended."""
    for agent in agents(directory):
        agent.tiers.remove()
    end(_supervisors(directory), _END_WITHIN)
    from . import mounts  # noqa: PLC0415 - takes long to import, and agents need it at most once

    if mounts.unmount_below(str(directory)):  # what is mounted is not the session's to remove
        remove_tree(str(directory))


def _supervisors(directory: Place) -> list[Process]:
    """Return who looks after mounts of the session; they unmount when told to end."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(directory):
            if ".mount-" in name and name.endswith(MOUNT_STATE):
                with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                    text = _read(os.path.join(directory, name))
                    found.append(msgspec.json.decode(text, type=Supervised).supervisor)
    return found


def check_ours(directory: Place) -> None:
    """Refuse a directory that no session has made, before anything in it is removed."""
    if os.path.isdir(directory) and not os.path.islink(directory):
        with contextlib.suppress(NoSession, Damaged):
            read(directory)
            return
        names = os.listdir(directory)
        with contextlib.suppress(NoSession, Damaged, Refused):
            # A start that was cut off left nothing else yet.
            if not names or (read_key(directory) and all(map(_is_early, names))):
                return
    parent, name = os.path.split(directory)
    raise BadInput(
        f"{directory} exists but does not belong to a session, so it is left alone; start "
        f"the session under a name other than {name!r} with `--session NAME`, or set a "
        f"run_dir other than {parent}"
    )


def _is_early(name: str) -> bool:
    """Whether a file is there before a session can be read, or is about to be one of these."""
    whole, _, number = name.rpartition(".")
    return (whole if number.isdigit() else name) in ("key", SESSION, "networks.json")


def remove_tree(directory: str) -> None:
    """Remove a directory and all below it, if it is there."""
    if os.path.lexists(directory):
        import shutil  # noqa: PLC0415 - takes long to import, and is rarely needed

        shutil.rmtree(directory, ignore_errors=True)


def _readable(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        try:
            return file.read()
        except OSError as error:  # Python names the file only where it could not be opened
            raise OSError(error.errno, error.strerror, path) from None


def _replace(path: str, content: bytes) -> None:
    """Write a file as a whole, readable by us only from its first byte on."""
    # Does not end in .json: a listing of the directory must not take it for an agent's.
    temporary_path = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary_path, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary_path)
        raise HoldfastError(
            f"cannot write {path}: {error.strerror}; make room there, or set another run_dir"
        ) from None
