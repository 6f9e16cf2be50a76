"""What cannot be drawn is said before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import HOLDFAST

#: The command where matplotlib is not installed, and where a benchmark that runs is an error.
BARE = (
    "import sys; sys.argv[0] = 'holdfast'; sys.modules['matplotlib'] = None; "
    "from holdfast.cli.main import main; main()"
)


@pytest.mark.parametrize(
    ("command", "arguments", "code", "message"),
    [
        (
            [HOLDFAST],
            "demo import --plot nowhere/x.png",
            2,
            "nowhere/x.png: there is no such directory",
        ),
        ([sys.executable, "-c", BARE], "bench mount --plots .", 1, "needs matplotlib"),
    ],
)
def test_it_is_said_at_once(
    command: list[str], arguments: str, code: int, message: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*command, *arguments.split()], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
