"""Whatever the system refuses is one sentence to the user, not a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from programs import BIN, holdfast

from holdfast.config import load
from holdfast.session import session as sessions


def test_a_path_that_cannot_be(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 300)
    said = holdfast("status", "--set", f"run_dir={long}", code=1)
    assert said.startswith("holdfast: ")
    assert said.endswith(": File name too long\n")
    assert said.count("\n") == 1
    done = subprocess.run(
        [BIN / "mount.fuse.holdfast", "/usr", tmp_path, "-o", f"run_dir={long}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 32
    assert done.stderr.startswith("mount.fuse.holdfast: ")
    assert done.stderr.endswith(": File name too long\n")


def test_a_directory_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "local/session.json").mkdir(parents=True)
    os.chmod(tmp_path, 0o700)
    config = load(arguments={"run_dir": str(tmp_path)}).config
    assert sessions.directory(config) == tmp_path / "local"
    said = holdfast("status", "--set", f"run_dir={tmp_path}", code=1)
    assert said == f"holdfast: {tmp_path}/local/session.json: Is a directory\n"
