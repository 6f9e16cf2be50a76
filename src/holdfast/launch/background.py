"""Sessions that outlive the command that started them: `holdfast up` and `holdfast down`."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ..client.contacts import Contacts
from ..config import Config
from ..errors import BadInput, Busy, Damaged, NoSession, Unavailable
from ..membership.view import Member
from ..session import node, processes
from ..session import session as sessions
from . import agents, launchers, logs, networks
from .agents import AgentRecipe
from .launchers.local import Local
from .launchers.openmpi import OpenMPI
from .networks import Networks

_END_WITHIN = 5.0
#: srun ends by itself once its agents have.
_LAUNCHER_ENDS_WITHIN = 15.0


class Up(msgspec.Struct, frozen=True, kw_only=True):
    """What `holdfast up` did."""

    session: str
    launcher: str
    found: str
    why: str
    members: list[Member]
    cleared: bool = False  # what a session left that had crashed


class Down(msgspec.Struct, frozen=True):
    """What `holdfast down` did."""

    session: str
    silent: list[str]  # nodes whose agents did not answer, and may still run
    hanging: list[int] = []  # processes of this host that were killed and do not end


def up(config: Config, count: int | None = None, own_networks: bool = False) -> Up | None:
    """Start a session; None in a process that only helped another one to do so.

    With `own_networks` each agent on this machine has a network of its own, which can be cut.
    """
    launcher, found = launchers.choose(config, os.environ, count)
    if own_networks and not isinstance(launcher, Local):
        raise BadInput(
            f"--networks is for agents on one machine, and this is {found.what} ({found.why}); "
            "leave it out, or add `--launcher local`"
        )
    if not launcher.leads:
        launcher.help()
        return None
    directory = sessions.directory(config)
    parent = directory.parent
    with contextlib.ExitStack() as stack:
        stack.callback(launcher.cancel)
        with sessions.locked_parent(parent):
            node.sweep(str(parent), str(directory))
            cleared = _clear_stale(directory, config)
            try:
                if directory.exists():  # what is left could not be removed
                    directory.rmdir()  # says why
                directory.mkdir(mode=0o700)
            except OSError as error:
                raise sessions.no_place(parent, error) from None
            stack.enter_context(_held(directory))
        try:
            if own_networks and isinstance(launcher, Local):
                launcher.networks = Networks.make(len(launcher.nodes(())))
                launcher.networks.save(directory)
            recipe = agents.new_recipe(directory, config, secrets.token_bytes(32), launcher.name)
            members, _ = agents.start(recipe, launcher)
        except BaseException:
            _clear(directory)
            with sessions.locked_parent(parent):
                sessions.remove_parent(config, parent)
            raise
    return Up(
        session=config.session,
        launcher=launcher.name,
        found=found.what,
        why=found.why,
        members=members,
        cleared=cleared,
    )


def missing(config: Config, count: int | None = None, only: str = "") -> Up:
    """Start agents on the nodes of a session that lack one that answers, or on `only` one."""
    directory = sessions.directory(config)
    session = sessions.read(directory)
    if session.home is None:
        raise BadInput(
            f"session {session.name!r} was started on another host; "
            "run `holdfast up --missing` there"
        )
    asked = config.launcher != "auto" or bool(config.hostfile)
    config = _as_started(session.home.config, session.launcher, config if asked else None)
    if config.launcher == OpenMPI.name:
        raise BadInput(
            "mpiexec cannot add agents to a session; use `holdfast up --missing --hostfile FILE`"
        )
    launcher, found = launchers.choose(config, os.environ, count)
    with _held(directory):
        if isinstance(launcher, Local):
            launcher.networks = networks.of_session(directory)
        wanted = launcher.nodes(session.home.nodes)
        contacts = Contacts(directory, config.deadline)
        view = contacts.view()
        there = {member.node for member in contacts.answering(view.live())}
        lacking = [name for name in wanted if name not in there and only in ("", name)]
        recipe = AgentRecipe(session, sessions.read_key(directory), config, directory)
        outcome = agents.add(recipe, launcher, lacking, view)
    if outcome.failed:
        error = agents.failure(outcome.failed)
        started = f"; started: {', '.join(sorted(outcome.ready))}" if outcome.ready else ""
        raise Unavailable(f"{error}{started}")
    why = found.why if asked else f"session {session.name!r} was started with {launcher.name!r}"
    return Up(
        session=session.name,
        launcher=launcher.name,
        found=found.what,
        why=why,
        members=list(outcome.ready.values()),
    )


def down(config: Config, keep_logs: str | None = None) -> Down:
    """End a session and remove all it left, but for logs and story that `keep_logs` shall hold."""
    directory = sessions.directory(config)
    parent = directory.parent
    if not directory.is_dir():
        if (
            not config.run_dir and parent.is_dir()
        ):  # agents whose start was cut off have cleared the rest away
            with sessions.locked_parent(parent):
                sessions.remove_parent(config, parent)
        raise NoSession(f"no session {config.session!r} in {parent}; nothing to end")
    with _held(directory):
        contacts = Contacts(directory, config.deadline)
        if keep_logs is not None:
            logs.keep_remote(contacts, Path(keep_logs))
        silent = contacts.stop(contacts.view().live(), _END_WITHIN)
        here = {agent.member.number for agent in contacts.agents}
        left = processes.end([agent.process for agent in contacts.agents], _END_WITHIN)
        home = contacts.session.home
        if home is not None and not processes.wait(list(home.processes), _LAUNCHER_ENDS_WITHIN):
            processes.end(list(home.processes), _LAUNCHER_ENDS_WITHIN)
            silent = []
        if keep_logs is not None:
            logs.keep_local(directory, Path(keep_logs))
        _clear(directory)
    with sessions.locked_parent(parent):
        sessions.remove_parent(config, parent)
    return Down(
        config.session,
        [one.node for one in silent if one.number not in here],
        [one.pid for one in left],
    )


def _as_started(then: Config, launcher: str, now: Config | None) -> Config:
    """Return the settings with which a session was started, but for how to reach its nodes."""
    if now is None:
        return replace(then, launcher=launcher)
    return replace(then, launcher=now.launcher, hostfile=now.hostfile, ssh=now.ssh)


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Hold a session while it is started, completed or ended."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(sessions.locked(directory, wait=False))
        except (BlockingIOError, FileNotFoundError):
            raise Busy(
                f"another command is starting or ending session {directory.name!r}; try again"
            ) from None
        yield


def _clear_stale(directory: Path, config: Config) -> bool:
    """Remove what a session left that ended without `down`; refuse if it still runs."""
    if not os.path.lexists(directory):
        return False
    sessions.check_ours(directory)
    with _held(directory):
        try:
            contacts = Contacts(directory, config.deadline)
        except (NoSession, Damaged):  # its start was cut off: its agents end by themselves
            return node.clear_stale(str(directory))
        elsewhere = contacts.answering(contacts.view().live())
        if elsewhere:
            raise BadInput(
                f"session {directory.name!r} is running with {len(elsewhere)} nodes; end it with "
                f"`holdfast down`, or start another one with `--session NAME`"
            )
        stale = networks.of_session(directory)
        node.clear_stale(str(directory))
        if stale:
            stale.remove()
        return True


def _clear(directory: Path) -> None:
    """Remove all that is left of a session on this host; its agents have ended."""
    if own := networks.of_session(directory):
        own.remove()
    sessions.clear(directory)
