"""A program's environment with a mount's view in place of the roots."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...config import Config
from ...errors import BadInput
from ...session import session as sessions
from ..shim import own_agent
from . import control
from .control import MountRecord

#: Variables that name directories, several with colons between them.
VARIABLES = (
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
#: The longest first line of a script that the kernel reads.
_FIRST_LINE = 256

#: From directories, as they are written, to where a mount shows them.
Views = dict[str, str]


def views(mount: MountRecord) -> Views:
    """Return what a mount shows, by the names under which it is known elsewhere."""
    found = {}
    for root in mount.roots:
        shown = f"{mount.point}{root.path}"
        found[os.path.realpath(root.path)] = shown
        found[root.path] = shown
    return found


def seen(path: str, through: Views) -> str:
    """Return a path as the mount shows it; one that lies below no root is as it was."""
    for root in sorted(through, key=len, reverse=True):
        if path == root or path.startswith(root + "/"):
            return through[root] + path[len(root) :]
    return path


def variables(present: Mapping[str, str], through: Views) -> dict[str, str]:
    """Return the variables that change."""
    changed = {}
    for name in VARIABLES:
        old = present.get(name, "")
        new = ":".join(seen(part, through) for part in old.split(":"))
        if new != old:
            changed[name] = new
    return changed


def command(program: str, arguments: Sequence[str], through: Views) -> list[str]:
    """Return what to run: the program, and a script that is its first argument, by the mount."""
    rest = list(arguments)
    if rest and not rest[0].startswith("-") and os.path.isfile(rest[0]):
        rest[0] = seen(os.path.abspath(rest[0]), through)
    program = seen(os.path.abspath(program), through)
    return [*_interpreter(program, through), program, *rest]


def _interpreter(program: str, through: Views) -> list[str]:
    """Return the interpreter that a script names, if the mount shows it; else nothing."""
    try:
        with open(program, "rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return []  # whoever runs it will say why
    if not line.startswith(b"#!"):
        return []
    name, _, argument = os.fsdecode(line[2:]).strip().partition(" ")
    if seen(name, through) == name:
        return []
    return [seen(name, through), *([argument.strip()] if argument.strip() else [])]


def mounted(config: Config, roots: Sequence[str], program: str) -> MountRecord:
    """Return a mount of this node that shows the roots, made if there is none.

    Without roots given or set, the root is the virtual environment that the program belongs to.
    """
    node = own_agent(config).member.node
    directory = sessions.directory(config)
    wanted = [os.path.abspath(root) for root in roots or config.roots]
    if not wanted:
        wanted = _environment_of(program)
    with sessions.locked(directory):  # the programs of a node start at once: one mounts for all
        present = control.of_session(directory, node).values()
        for mount in present:
            if {root.path for root in mount.roots} >= set(wanted) and mount.supervisor.running:
                return mount
        taken = {mount.point for mount in present}
        points = (directory / f"{node}.view-{number}" for number in range(1 << 16))
        point = next(path for path in points if str(control.resolve(str(path))) not in taken)
        point.mkdir(mode=0o700, exist_ok=True)  # one that was unmounted is used again
        try:
            return control.start_held(config, str(point), wanted)
        except BaseException:
            with contextlib.suppress(OSError):
                point.rmdir()
            raise


def _environment_of(program: str) -> list[str]:
    found = shutil.which(program)
    if found is not None:
        prefix = Path(os.path.abspath(found)).parent.parent
        if (prefix / "pyvenv.cfg").exists() or (prefix / "conda-meta").exists():
            return [str(prefix)]
    raise BadInput(
        f"{program} is not in a virtual environment, and no directory to mount was given; "
        "use --root or set `roots`"
    )
