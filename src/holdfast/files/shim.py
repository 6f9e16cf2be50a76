"""What a program needs to find to have its files below the roots opened by an agent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..config import SHIM_PREFIX, Config
from ..errors import BadInput, HoldfastError, NoSession
from ..session import session as sessions
from ..session.node import own_name
from ..session.session import AgentFile
from . import paths
from .policy import FilePolicy

SHIM = Path(__file__).with_name("bin") / "holdfast_shim.so"
#: As native/preload/shim.h and native/base/attribute_table.h have them.
_MOST_ROOTS, _ROOM = 32, 904


def environment(
    config: Config,
    roots: Sequence[str],
    policy: FilePolicy,
    present: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables to set; `present` are those that there are."""
    given = [_root(root) for root in roots or config.roots]
    if not given:
        raise BadInput("no directory to cache was given; use --root or set `roots`")
    if len(given) > _MOST_ROOTS:
        raise BadInput(f"{len(given)} roots are too many; use at most {_MOST_ROOTS}")
    # A root and where it really lies; then, as far as there is room, the links on the way there.
    pairs = [(root, os.path.realpath(root)) for root in given]
    pairs += [(root, name) for root in given for name in _on_the_way(root)]
    pairs = list(dict.fromkeys(pairs))[:_MOST_ROOTS]
    agent = own_agent(config)
    values = {
        "SOCKET": agent.member.socket.removeprefix("unix:"),
        "TABLE": str(sessions.directory(config) / f"{agent.member.node}.attributes"),
        "ROOTS": ":".join(root for root, _ in pairs),
        "ALIASES": ":".join(alias for _, alias in pairs),
        "ORDER": policy.template(config),
        "FILTERS": _filters(),
        "DEADLINE_MS": max(1, int(config.deadline * 1000)),
    }
    return {
        "LD_PRELOAD": _preload(present.get("LD_PRELOAD", "")),
        **{SHIM_PREFIX + name: str(value) for name, value in values.items()},
    }


def _filters() -> int:
    """Return how many filters of system calls there are: programs with more may have no sockets."""
    count = 0
    for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in ("Seccomp", "Seccomp_filters"):  # kernels before 5.9 tell only whether
            count = int(value)
    return count


def _preload(present: str) -> str:
    """Return what to load: the shim, and what was to be loaded anyway."""
    if not SHIM.exists():
        raise HoldfastError(f"{SHIM} is missing; install Holdfast again")
    if set(str(SHIM)) & set(": "):
        raise BadInput(f"{SHIM} has a colon or a space in its path; install Holdfast elsewhere")
    others = [one for one in present.replace(":", " ").split() if one != str(SHIM)]
    return ":".join([str(SHIM), *others])


def _root(directory: str) -> str:
    root = os.fsdecode(paths.root_of(directory))
    for name in (root, os.path.realpath(root)):
        if ":" in name:
            raise BadInput(f"{name} contains a colon, so the shim cannot use it as a root")
        if len(os.fsencode(name)) >= _ROOM:
            raise BadInput(f"{name} is too long for the shim to use it as a root")
    return root


def _on_the_way(root: str) -> list[str]:
    """Return what a root is called when some of the links on the way to it are followed."""
    names: list[str] = []
    at, rest = "/", root.split("/")
    while rest and len(names) < _MOST_ROOTS:
        part = rest.pop(0)
        at = os.path.normpath(os.path.join(at, part))  # all of it is followed, so ".." is right
        if os.path.islink(at):
            target = os.readlink(at)
            at, rest = os.path.dirname(at), [*target.split("/"), *rest]
            at = "/" if target.startswith("/") else at
            names.append(os.path.normpath(os.path.join(at, *rest)) if rest else at)
    found = dict.fromkeys(name for name in names if ":" not in name)
    return [name for name in found if name != root and len(os.fsencode(name)) < _ROOM]


def own_agent(config: Config) -> AgentFile:
    """Return the agent of this node; it need not live, programs do without."""
    directory = sessions.directory(config)
    sessions.read(directory)
    agents = {agent.member.node: agent for agent in sessions.agents(directory)}
    if config.node and config.node not in agents:
        known = ", ".join(agents) or "none"
        raise BadInput(f"{config.node!r} has no agent on this host, only {known}")
    for name in (config.node, own_name(), *agents):
        if name in agents:
            return agents[name]
    raise NoSession(
        f"session {directory.name!r} has no agent on this host; `holdfast up --missing` starts one"
    )
