"""Commands, as users type them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.settings import SETTINGS
from support.waits import WITHIN

import holdfast

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))


def execute(
    *command: object,
    code: int = 0,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    within: float = WITHIN,
) -> str:
    """Run a command, which ends with `code`; returns what it printed, or complained about."""
    done = subprocess.run(
        list(map(str, command)),
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=within,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout if code == 0 else done.stderr


def run(*arguments: object, code: int = 0, within: float = WITHIN) -> str:
    """Run `holdfast` like that."""
    return execute(HOLDFAST, *arguments, code=code, within=within)


def run_at(run_dir: Path, command: str, *arguments: object, code: int = 0) -> str:
    """Run a command of `holdfast` like that, with a directory of sessions."""
    return run(command, "--set", f"run_dir={run_dir}", *arguments, code=code)


def run_in(
    session: Path,
    *command: object,
    cwd: Path | None = None,
    within: float = WITHIN,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command of somebody who uses the session in a directory."""
    return subprocess.run(
        list(map(str, command)),
        env={**os.environ, **leading_to(session), **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=within,
    )


def command(cluster: holdfast.LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `holdfast` on a local cluster, and keep files as its agents do."""
    kept = {f"HOLDFAST_{name.upper()}": SETTINGS[name] for name in ("file_settled", "file_tier")}
    return run_in(cluster.directory, HOLDFAST, *arguments, **kept)


def leading_to(session: Path) -> dict[str, str]:
    """Return the variables by which a command finds the session in a directory."""
    return {"HOLDFAST_RUN_DIR": str(session.parent), "HOLDFAST_SESSION": session.name}
