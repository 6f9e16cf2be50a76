"""Sessions that outlive the command that started them: `holdfast up` and `holdfast down`."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from pathlib import Path

from msgspec.structs import replace

from ..config import Config
from ..errors import BadInput, Damaged, NoSession
from . import launch
from . import networks as networking
from . import session as sessions
from .networks import Networks
from .session import Session


def up(config: Config, nodes: int, own_networks: bool = False) -> tuple[Session, bool]:
    """Start a session; also tells whether one that had crashed was cleaned up first.

    With `own_networks` each agent has a network of its own, which can be cut.
    """
    parent = sessions.run_dir(config)
    directory = parent / config.session
    with launch.locked(parent):
        stale = _clear_stale(directory)
        directory.mkdir(mode=0o700)
        networks = None
        try:
            if own_networks:
                networks = Networks.make(nodes)
                networks.save(directory)
            key = secrets.token_bytes(32)
            session, _ = launch.start(launch.Recipe(config, directory, key, nodes, False, networks))
        except BaseException:
            if networks is not None:
                networks.remove()
            shutil.rmtree(directory, ignore_errors=True)
            raise
    return session, stale


def restart(config: Config, node: int) -> None:
    """Start a new agent on a node of a session whose agent has died."""
    directory = sessions.run_dir(config) / config.session
    with launch.locked(directory.parent):
        session = sessions.read(directory)
        key, networks = sessions.read_key(directory), networking.of_session(directory)
        recipe = launch.Recipe(config, directory, key, len(session.processes), False, networks)
        name = f"node-{node}"
        old = session.view.node(name)
        assert old is not None
        launch.remove_leftovers(session.processes[name].tiers, old.socket)
        launched = recipe.launch(node, int(old.address.rpartition(":")[2]))
        view = session.view.replace(launched.wait_ready())
        processes = session.processes | {name: launched.as_process()}
        sessions.write(directory, replace(session, view=view, processes=processes))
        launch.tell_view(view, key)


def down(config: Config) -> Session:
    """End a session and remove all it left."""
    parent = sessions.run_dir(config)
    directory = parent / config.session
    if not directory.is_dir():
        raise NoSession(f"no session {config.session!r} in {parent}; nothing to end")
    with launch.locked(parent):
        session = sessions.read(directory)
        launch.end(directory, session)
    if not config.run_dir:  # a directory of our own making
        with contextlib.suppress(OSError):  # other sessions may be there
            parent.rmdir()
    return session


def _clear_stale(directory: Path) -> bool:
    """Remove what a session left that ended without `down`; refuse if it still runs."""
    if not directory.exists():
        return False
    try:
        session = sessions.read(directory)
    except (NoSession, Damaged):  # its start was cut off: its agents end by themselves
        shutil.rmtree(directory)
        return True
    running = [node for node, process in session.processes.items() if sessions.is_running(process)]
    if running:
        raise BadInput(
            f"session {directory.name!r} is running with {len(running)} nodes; end it with "
            f"`holdfast down`, or start another one with `--session NAME`"
        )
    launch.end(directory, session)
    return True
