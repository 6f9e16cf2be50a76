"""`holdfast up --missing --mount`: every host has the mount then."""

from __future__ import annotations

from pathlib import Path

from mounted import ours
from support.commands import HOLDFAST, run_in


def test_it_is_mounted_where_no_agent_was_missing(root: Path, tmp_path: Path) -> None:
    session = tmp_path / "run/later"
    session.parent.mkdir(mode=0o700)
    point = tmp_path / "mnt"
    point.mkdir()

    def run(*words: object) -> str:
        done = run_in(session, HOLDFAST, *words)
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
