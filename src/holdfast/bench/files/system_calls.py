"""System calls of a read, for each policy, while nothing fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ...errors import HoldfastError
from ...files.policy import OnFailure
from ..figures import Figure, exactly
from .readers import MEMORY, ReaderCluster

_FILES, _SIZE = 64, 100_000
_WITHIN = 60


def run() -> list[Figure]:
    """Count those of a program that reads files of another node."""
    name = "system calls of a remote read, recache less abort"
    if shutil.which("strace") is None:
        return [Figure(name=name, value=None, unit="calls", target="0", met=None, compared_with="")]
    with ReaderCluster(nodes=2) as setup:
        paths = [setup.file(MEMORY, 1, _SIZE) for _ in range(_FILES)]
        setup.warm(MEMORY)
        recache, abort = (_per_read(setup, paths, policy) for policy in ("recache", "abort"))
    return [exactly(name, recache - abort, 0, f"calls (abort: {abort:g})")]


def _per_read(setup: ReaderCluster, paths: list[Path], policy: OnFailure) -> float:
    """Return the calls that each further file costs."""
    half = len(paths) // 2
    return (_calls(setup, paths, policy) - _calls(setup, paths[:half], policy)) / half


def _calls(setup: ReaderCluster, paths: list[Path], policy: OnFailure) -> int:
    with tempfile.NamedTemporaryFile() as trace:
        done = subprocess.run(
            ["strace", "-qq", "-f", "-o", trace.name, "cat", *paths],
            env={**os.environ, **setup.variables(MEMORY, 0, policy)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_WITHIN,
            check=False,
        )
        if done.returncode != 0:
            raise HoldfastError(f"cat under strace failed: {done.stderr.decode().strip()}")
        return Path(trace.name).read_bytes().count(b"\n")
