"""Running programs as processes of a node, under the shim and without it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from support.settings import config_of
from support.waits import WITHIN

import holdfast
from holdfast.files import FilePolicy, shim
from holdfast.testing.countfs import CountingFS


class Ran(NamedTuple):
    """What a program left."""

    code: int
    output: bytes
    errors: bytes
    made: dict[str, object]  # what it wrote where it ran


class Shell:
    """Runs commands on a node, each in the directory `work`, which is empty before."""

    def __init__(
        self, cluster: holdfast.LocalCluster, storage: CountingFS, work: Path, node: int = 0
    ) -> None:
        self.cluster, self.storage, self.work, self.node = cluster, storage, work, node
        self.root = storage.at
        self.roots = [storage.at]  # of programs
        self.home = {
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(work),
            "LC_ALL": "C",
            "TZ": "UTC",
            "PYTHON": shlex.quote(sys.executable),
            "ROOT": str(storage.at),
        }

    def variables(self, **changed: str) -> dict[str, str]:
        """Return what `holdfast run` sets."""
        config = config_of(self.cluster, self.node)
        roots = list(map(str, self.roots))
        return shim.environment(config, roots, FilePolicy(), changed) | {
            name: value for name, value in changed.items() if name != "LD_PRELOAD"
        }

    def plain(self, command: str) -> Ran:
        """Run a command of the shell without the shim."""
        return self._run(command, {})

    def shimmed(self, command: str, **changed: str) -> Ran:
        """Run it under the shim."""
        return self._run(command, self.variables(**changed))

    def warm(self) -> None:
        """Let the agents read all files, and count from nothing."""
        with self.cluster.connect() as job:
            done = job.files(self.root).warm()
        assert done.left_out == 0, done
        self.storage.reset()

    def start(self, command: str, **options: object) -> subprocess.Popen[bytes]:
        """Start a command of the shell under the shim; the caller ends it."""
        self._clear()
        return subprocess.Popen(
            [*self.storage.under(self.node), "/bin/bash", "-c", command],
            cwd=self.work,
            env={**os.environ, **self.home, **self.variables()},
            **options,  # type: ignore[call-overload]
        )

    def _clear(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()

    def _run(self, command: str, variables: dict[str, str]) -> Ran:
        self._clear()
        # The variables are for the program alone, not for what leads to it.
        exports = "".join(f"export {name}={shlex.quote(one)}; " for name, one in variables.items())
        ran = subprocess.run(
            [
                *self.storage.under(self.node),
                "/bin/sh",
                "-c",
                exports + 'exec bash -c "$0"',
                command,
            ],
            cwd=self.work,
            env={**os.environ, **self.home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WITHIN,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr, _made(self.work))


def _made(directory: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for where, _, names in os.walk(directory):
        for name in names:
            path = Path(where, name)
            info = path.lstat()
            content: object = os.readlink(path) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(directory))] = (info.st_mode, info.st_size, content)
    return found
