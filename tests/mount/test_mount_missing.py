"""`holdfast up --missing --mount`: every host has the mount then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mounted import WITHIN, ours

COMMAND = Path(sys.executable).with_name("holdfast")


def test_it_is_mounted_where_no_agent_was_missing(root: Path, tmp_path: Path) -> None:
    own = {**os.environ, "HOLDFAST_SESSION": "later", "HOLDFAST_RUN_DIR": str(tmp_path / "run")}
    (tmp_path / "run").mkdir(mode=0o700)
    point = tmp_path / "mnt"
    point.mkdir()

    def run(*words: object) -> str:
        done = subprocess.run(
            [COMMAND, *map(str, words)], env=own, capture_output=True, text=True, timeout=WITHIN
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    run("up", "--nodes", 1, "--memory", "64MiB", "--disk", "64MiB")
    try:
        for _ in range(2):  # the second time it is there
            said = run("up", "--missing", "--mount", point, "--root", root)
            assert "none was started" in said
            assert f"Mounted at {point} on every host." in said
            assert [one for one in ours() if one == point] == [point]
            assert Path(f"{point}{root}/deep/er/still/file").read_text() == "down here"
    finally:
        run("down")
    assert point not in ours()
