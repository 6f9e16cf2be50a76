"""A session on this host: a private directory with the job key, the sockets and who runs.

::

    <run_dir>/<session>/        mode 0700
        key                     the job key, mode 0600
        session.json            members and their processes
        node-0.sock, node-0.log, ...
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import msgspec

from ..config import Config
from ..errors import BadInput, Damaged, NoSession, Refused
from ..membership.view import View


class Tiers(msgspec.Struct, frozen=True):
    """Directories of one agent, to be removed if it cannot do so itself."""

    memory_dir: str
    disk_dir: str


class Process(msgspec.Struct, frozen=True):
    """The process behind a member."""

    pid: int
    started: int  # clock ticks since boot: a pid alone may be somebody else's by now
    tiers: Tiers


class Session(msgspec.Struct, frozen=True):
    """What `session.json` holds."""

    name: str
    created: float
    view: View
    processes: dict[str, Process]  # by node
    virtual_nodes: int  # of the ring: all clients must agree


def run_dir(config: Config) -> Path:
    """Return the directory of sessions, private to this user."""
    if config.run_dir:
        return Path(config.run_dir)
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and Path(base).is_dir():
        return Path(base) / "holdfast"
    return Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}"


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


def write(directory: Path, session: Session) -> None:
    """Replace the session's file as a whole."""
    temporary = directory / f"session.json.{os.getpid()}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(session), indent=2))
    temporary.replace(directory / "session.json")


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


def write_key(directory: Path, key: bytes) -> None:
    """Store the job key, readable by us only from its first byte on."""
    descriptor = os.open(directory / "key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key.hex())


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which process `pid` started; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may itself contain any character.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def is_running(process: Process) -> bool:
    """Whether that very process still runs."""
    return start_time(process.pid) == process.started
