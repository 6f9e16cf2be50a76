"""Ways to start agents: each says whether it is the one, the first that does is taken.

Launchers come before schedulers: inside `mpiexec` inside a job, the ranks are what is there.
"""

from __future__ import annotations

from ...config import Config
from ...errors import BadInput
from .base import Environment, Found, Launcher
from .hostfile import HostFile
from .local import Local
from .openmpi import OpenMPI
from .slurm import Slurm

LAUNCHERS: dict[str, type[Launcher]] = {
    kind.name: kind for kind in (HostFile, OpenMPI, Slurm, Local)
}

__all__ = ["LAUNCHERS", "Environment", "Found", "Launcher", "choose"]


def choose(
    config: Config, environment: Environment, count: int | None = None
) -> tuple[Launcher, Found]:
    """Return the launcher that is asked for, or the first that finds something.

    `count` is a number of agents to start on this machine.
    """
    if config.launcher == "auto":
        found_by = ((kind, kind.detect(config, environment)) for kind in LAUNCHERS.values())
        kind, found = next((kind, found) for kind, found in found_by if found)
    else:
        kind, found = _asked(config, environment)
    if kind is Local:
        return Local(config, environment, count), found
    if count is not None:
        raise BadInput(
            f"--nodes is for agents on one machine, and this is {found.what} ({found.why}); "
            "leave it out, or add `--launcher local`"
        )
    return kind(config, environment), found


def _asked(config: Config, environment: Environment) -> tuple[type[Launcher], Found]:
    kind = LAUNCHERS.get(config.launcher)
    if kind is None:
        names = ", ".join(("auto", *LAUNCHERS))
        raise BadInput(f"there is no launcher {config.launcher!r}; use one of: {names}")
    found = kind.detect(config, environment)
    if found is None:
        raise BadInput(f"the launcher {config.launcher!r} needs {kind.needs}")
    return kind, Found(found.what, f"the launcher {kind.name!r} was requested")
