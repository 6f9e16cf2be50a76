"""Mounts of this host: starting them, finding them, asking them, ending them.

Each mount belongs to a node of a session and lies in the session's directory as::

    node-0.mount-0           the socket on which its process is asked
    node-0.mount-0.state     where it is mounted, what it shows, who looks after it
    node-0.mount-0.log       what went wrong

A supervisor (supervisor.py) looks after the process; it outlives the command that started it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from ...config import Config
from ...errors import BadInput, Busy, HoldfastError
from ...session import mounts, processes
from ...session import session as sessions
from ...session.mounts import TYPE
from ...session.processes import Process
from ...session.session import MOUNT_STATE
from .. import paths
from ..policy import FilePolicy
from ..shim import own_agent
from .table import PROGRAM, ask, at, control_of, ours, remove_stale, server

#: Beside its socket.
_FILES = (MOUNT_STATE, ".log")
#: How long a supervisor may take to end, and to mount.
_WITHIN, _MOUNT_WITHIN = 10.0, 30.0
#: As the kernel follows.
_MOST_LINKS = 40
#: Below these nothing is mounted.
_NEVER = ("/proc", "/sys", "/dev")
_SUPERVISOR = "from holdfast.files.mount.supervisor import main; main()"


class Root(msgspec.Struct, frozen=True):
    """A directory of the shared file system that a mount shows."""

    path: str
    spread: bool = False  # its files come from their owners on the ring, not down a tree


class MountRecord(msgspec.Struct, frozen=True):
    """What a mount's state file holds."""

    point: str
    node: str
    roots: tuple[Root, ...]
    supervisor: Process


class MountOrders(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor is to look after."""

    directory: str  # of the session
    name: str  # of the mount's socket in it
    point: str
    node: str
    roots: tuple[Root, ...]
    words: tuple[str, ...]  # for the program
    stuck_after: float


class MountStatus(msgspec.Struct, frozen=True):
    """A mount as `holdfast status` shows it."""

    node: str
    point: str
    roots: tuple[Root, ...]
    state: str  # "up", "silent", "restarting" or "ended"
    counters: dict[str, int]


def start(config: Config, point: str, roots: Sequence[str]) -> MountRecord:
    """Mount the roots at a directory, through the agent of this node."""
    own_agent(config)  # or there is no session to hold
    with sessions.locked(sessions.directory(config)):
        return start_held(config, point, roots)


def ensure(config: Config, point: str, roots: Sequence[str]) -> MountRecord:
    """Return the session's mount of just these roots at a directory, made if there is none."""
    wanted, place = {os.path.abspath(root) for root in roots or config.roots}, str(resolve(point))
    for one in of_session(sessions.directory(config)).values():
        same = one.point == place and {root.path for root in one.roots} == wanted
        if same and one.supervisor.running:
            return one
    return start(config, point, roots)


def start_held(config: Config, point: str, roots: Sequence[str]) -> MountRecord:
    """Do so while the session is held, so that no other start takes the same name."""
    _check_machine()
    given = tuple(_root(config, root) for root in roots or config.roots)
    if not given:
        raise BadInput("no directory to mount was given; use --root or set `roots`")
    agent = own_agent(config)
    remove_stale()
    place = _check_point(point)
    directory = sessions.directory(config)
    session = sessions.read(directory)
    _end(_ended(directory))
    name = _free_name(directory, agent.member.node)
    orders = MountOrders(
        directory=str(directory),
        name=name,
        point=str(place),
        node=agent.member.node,
        roots=given,
        words=_words(config, session, directory / name, place, given, agent.member.socket),
        stuck_after=config.mount_stuck_after,
    )
    _supervise(orders)
    return read(directory / (name + MOUNT_STATE))


def _words(
    config: Config,
    session: sessions.Session,
    control: Path,
    point: Path,
    roots: Sequence[Root],
    agent: str,
) -> tuple[str, ...]:
    """Return what native/mount/settings.cpp reads."""
    values: dict[str, object] = {
        "point": point,
        "control": control,
        "agent": agent,
        "deadline_ms": max(1, int(config.deadline * 1000)),
        "order": FilePolicy().template(config),
        "parts_above": session.tree_largest,
        "ttl_ms": int(session.tree_ttl * 1000),
    }
    ways = [f"{'spread' if root.spread else 'broadcast'}={root.path}" for root in roots]
    return (*(f"{name}={value}" for name, value in values.items()), *ways)


def _supervise(orders: MountOrders) -> None:
    """Start a supervisor; returns when it has mounted."""
    with subprocess.Popen(
        [sys.executable, "-c", _SUPERVISOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # from its first line on it writes its log
        cwd="/",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(msgspec.json.encode(orders) + b"\n", _MOUNT_WITHIN)
        except subprocess.TimeoutExpired:  # it finds nobody to tell, and unmounts
            process.kill()
            said = b"its supervisor does not answer"
    complaint = said.decode(errors="replace").strip()
    if not said:
        raise HoldfastError(f"could not mount at {orders.point}: the mount's supervisor has ended")
    if complaint != "mounted":
        raise BadInput(f"could not mount at {orders.point}: {complaint}")


# ---- what may be mounted where -------------------------------------------------------------------


def _check_machine() -> None:
    if not PROGRAM.exists():
        raise HoldfastError(
            "Holdfast was built without libfuse3, so it cannot mount; install libfuse3-dev (or "
            "fuse3-devel) and build it again"
        )
    if not os.path.exists("/dev/fuse"):
        raise HoldfastError("/dev/fuse is missing; load the kernel's module: `modprobe fuse`")
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise HoldfastError(
            "the command fusermount3 is missing, and without it only root can mount; install fuse3"
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise HoldfastError(
            "you have no permission to open /dev/fuse; ask your administrator for mode 0666 on it"
        )
    devices = {os.makedev(*one.device) for one in ours()}
    for needed in (sys.executable, __file__, str(PROGRAM)):
        if os.stat(needed).st_dev in devices:
            raise BadInput(
                f"{needed} is on a Holdfast mount, which would wait for itself; run "
                "`holdfast` from its original installation"
            )


def _check_point(point: str) -> Path:
    """Return where to mount; it is an empty directory on which nothing is mounted."""
    place = resolve(point)
    if str(place) == "/" or any(f"{place}/".startswith(top + "/") for top in _NEVER):
        raise BadInput(f"cannot mount at {place}; choose an empty directory of your own")
    for one in reversed(mounts.table()):
        if one.point == place:
            if one.kind == TYPE:
                raise BadInput(
                    f"{place} is already mounted; unmount it first: `holdfast umount {place}`"
                )
            raise BadInput(f"something else is mounted at {place}; choose another directory")
    try:
        empty = not os.listdir(place)
    except FileNotFoundError:
        raise BadInput(f"{place} is missing; make it first: `mkdir -p {place}`") from None
    except OSError as error:
        raise BadInput(f"cannot mount at {place}: {error.strerror}") from None
    if not empty:
        raise BadInput(
            f"{place} is not empty, and a mount would hide what is in it; choose another directory"
        )
    return place


def _root(config: Config, directory: str) -> Root:
    path = os.fsdecode(paths.root_of(directory))
    if "\n" in path:
        raise BadInput(f"{path!r} contains a line break, so it cannot be mounted")
    return Root(path, spread=path in config.spread_roots)


def resolve(point: str) -> Path:
    """Return a mount point without links; what is mounted there is not looked at."""
    place = Path(os.path.abspath(point))
    for _ in range(_MOST_LINKS):
        place = Path(os.path.realpath(place.parent), place.name)
        if at(place) is not None or not os.path.islink(place):
            break
        place = place.parent / os.readlink(place)
    return place


# ---- those that there are ------------------------------------------------------------------------


def read(path: Path) -> MountRecord:
    """Read a mount's state."""
    return msgspec.json.decode(path.read_bytes(), type=MountRecord)


def of_session(directory: str | Path, node: str = "") -> dict[Path, MountRecord]:
    """Return the mounts of a session on this host by the path of their socket."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(Path(directory).glob(f"{node or '*'}.mount-*{MOUNT_STATE}")):
            with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
                one = read(path)
                if one.supervisor.here:  # hosts may share the directory
                    found[path.with_suffix("")] = one
    return found


def original(directory: str | Path, path: str) -> str:
    """Return where the shared file system has what a mount of the session shows at a path."""
    for one in of_session(directory).values():
        if path.startswith(f"{one.point}/"):
            return path.removeprefix(one.point)
    return path


def _ended(directory: Path) -> dict[Path, MountRecord]:
    """Return mounts whose supervisor and process were killed."""
    found = {}
    for control, one in of_session(directory).items():
        mounted = at(Path(one.point))
        pid = None if mounted is None else server(mounted)
        if not one.supervisor.running and (pid is None or control_of(pid) != str(control)):
            found[control] = one
    return found


def _free_name(directory: Path, node: str) -> str:
    taken = {path.name for path in of_session(directory, node)}
    return next(
        name for number in range(1 << 16) if (name := f"{node}.mount-{number}") not in taken
    )


# ---- asking and ending them ----------------------------------------------------------------------


def status(directory: str | Path, within: float, node: str = "") -> list[MountStatus]:
    """Return what the mounts of a session on this host are about."""
    return [_status(control, one, within) for control, one in of_session(directory, node).items()]


def _status(control: Path, one: MountRecord, within: float) -> MountStatus:
    counters: dict[str, int] = {}
    try:
        for field in ask(control, "status", within=within):
            name, _, number = field.decode().partition("=")
            counters[name] = int(number)
        state = "up"
    except (TimeoutError, BlockingIOError):  # not even others who asked were answered
        state = "silent"
    except OSError:
        state = "restarting" if one.supervisor.running else "ended"
    return MountStatus(one.node, one.point, one.roots, state, counters)


def refresh(directory: str | Path, node: str, names: Sequence[bytes], within: float) -> list[str]:
    """Let the mounts of a node, and the kernel with them, look again; returns those that do not."""

    def looks_again(control: Path) -> bool:
        try:
            ask(control, "refresh", *names, within=within)
        except (ConnectionError, FileNotFoundError):
            # Nobody listens: either nobody sees anything old through it, or the socket is gone.
            mounted = at(Path(found[control].point))
            return mounted is None or server(mounted) is None
        except OSError:
            return False
        return True

    found = of_session(directory, node)
    if not found:
        return []
    with ThreadPoolExecutor(len(found)) as pool:
        told = zip(found.values(), pool.map(looks_again, found), strict=True)
    return [one.point for one, well in told if not well]


def stop(config: Config, point: str, lazily: bool = False) -> Path:
    """Unmount; Busy if somebody uses it, unless `lazily`: they get errors from then on."""
    place = resolve(point)
    found = of_session(sessions.directory(config))
    own = {control: one for control, one in found.items() if one.point == str(place)}
    mounted = at(place)
    if mounted is None and not own:
        raise BadInput(f"there is no Holdfast mount at {place}; `holdfast status` lists mounts")
    if mounted is not None:
        _unmount(mounted, lazily or server(mounted) is None)
    # It would serve those who still use it as long as they do, or mount once more.
    if hanging := _end(own):
        pids = ", ".join(str(one.pid) for one in hanging)
        raise HoldfastError(
            f"{place} is unmounted, but its processes cannot be killed, as they are "
            f"blocked in the shared file system: {pids}"
        )
    return place


def _unmount(mounted: mounts.Mounted, lazily: bool) -> None:
    try:
        mounts.unmount(mounted.point, lazily)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Busy(
                f"{mounted.point} is in use; end the programs that use it, or add --lazy "
                "to detach it anyway"
            ) from None
        raise HoldfastError(f"could not unmount {mounted.point}: {error.strerror}") from None


def stop_all(directory: str | Path) -> list[Process]:
    """Unmount all mounts of a session on this host, in use or not; returns what does not end."""
    return _end(of_session(directory))


def _end(found: dict[Path, MountRecord]) -> list[Process]:
    """End the supervisors of mounts, and what those left that were killed."""
    hanging = processes.end([one.supervisor for one in found.values()], _WITHIN)
    for control, one in found.items():
        mounted = at(Path(one.point))
        pid = None if mounted is None else server(mounted)
        if mounted is not None and (pid is None or control_of(pid) == str(control)):
            with contextlib.suppress(OSError):
                mounts.unmount(mounted.point)
            if pid is not None:
                hanging += processes.end([processes.process(pid)], _WITHIN)
        for path in (control, *(control.with_name(control.name + end) for end in _FILES)):
            path.unlink(missing_ok=True)
    return hanging
