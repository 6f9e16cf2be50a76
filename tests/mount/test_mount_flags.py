"""What commands say of flags without a meaning, and the directories that `run --mount` makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.commands import HOLDFAST
from support.settings import config_of
from support.waits import WITHIN

import holdfast
from holdfast.errors import BadInput
from holdfast.files.mount import control, environment


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run --mount --on-failure bogus -- true", "--on-failure cannot be combined with --mount"),
        ("run --mount --copies 7 -- true", "--copies cannot be combined with --mount"),
        ("warm --broadcast --copies 99 /tmp", "--copies cannot be combined with --broadcast"),
        ("warm --broadcast --parallel 2 /tmp", "--parallel cannot be combined with --broadcast"),
        ("status --set deadline=abc", "deadline (from --set deadline): "),
        ("status --session a/b", "session (from --session): "),
    ],
)
def test_flags_are_refused_by_their_names(words: str, said: str) -> None:
    command = [HOLDFAST, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"holdfast: {said}")
    assert done.stderr.count("\n") == 1


def test_directories_of_views_are_used_again_and_none_is_left(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path
) -> None:
    config, directory = config_of(alone), alone.directory
    with pytest.raises(BadInput, match="is not a directory here"):
        environment.mounted(config, [str(tmp_path / "missing")], "true")
    assert list(directory.glob("*.view-*")) == []
    first = environment.mounted(config, [str(root)], "true")
    control.stop(config, first.point)
    again = environment.mounted(config, [str(root)], "true")
    assert again.point == first.point == str(directory / "node-0.view-0")
    assert environment.mounted(config, [str(root)], "true") == again
    other = environment.mounted(config, [str(root / "deep")], "true")
    assert other.point == str(directory / "node-0.view-1")
    assert sorted(os.listdir(f"{other.point}{root}/deep")) == sorted(os.listdir(root / "deep"))
