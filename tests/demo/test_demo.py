"""`holdfast demo` shows what it promises, or says why it cannot."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import HOLDFAST
from support.requirements import needs_storage

from holdfast.cli.demo.epochs import EPOCHS, FILES

WITHIN = 100
#: The command where nothing is installed that only some need.
BARE = (
    "import sys; sys.argv[0] = 'holdfast'; "
    "sys.modules |= dict.fromkeys(['fsspec', 'matplotlib', 'numpy', 'scipy', 'torch']); "
    "from holdfast.cli.main import main; main()"
)


def run(*command: object, code: int = 0) -> str:
    ran = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@needs_storage
def test_files_are_read_again_in_each_epoch_once_or_never(tmp_path: Path) -> None:
    out = run(HOLDFAST, "demo", "--plot", tmp_path / "epochs.png")
    opens = {
        name: [int(number) for number in re.findall(r"\d+", cells)]
        for name, cells in re.findall(r"│ (redirect|recache|copies=2) +│(.*)│", out)
    }
    lost = opens["recache"][1]
    assert 0 < lost < FILES
    assert opens["redirect"][2:EPOCHS] == [lost] * (EPOCHS - 2)
    assert opens["recache"] == [FILES, lost, 0, 0, 0, lost]
    assert opens["copies=2"] == [FILES, 0, 0, 0, 0, 0]
    assert len(re.findall(r"[━╸] +[\d.]+ $", out, re.MULTILINE)) == 3 * EPOCHS
    assert "all are right" in " ".join(out.split())
    assert (tmp_path / "epochs.png").read_bytes().startswith(b"\x89PNG")


@needs_storage
def test_where_nothing_can_be_mounted_objects_are_shown_instead() -> None:
    hidden = 'mount --bind /dev/null /dev/fuse && exec "$@"'
    bare = ["unshare", "--mount", "sh", "-c", hidden, "sh", sys.executable, "-c", BARE, "demo"]
    out = run(*bare)
    assert "none can be mounted: file systems cannot be mounted here" in out
    assert "4 agents, 2 copies, one agent killed" in out
    assert "none can be mounted" in run(*bare, "files", code=7)
    assert "all are right" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["files", "--plot", "x.png"], 1, "needs matplotlib"),
        (["files", "--plot", "x.gif"], 2, "neither .png nor .svg"),
        (["objects", "--plot", "x.png"], 2, "has no plot"),
    ],
)
def test_what_cannot_be_drawn_is_said_at_once(
    arguments: list[str], code: int, message: str
) -> None:
    assert message in run(sys.executable, "-c", BARE, "demo", *arguments, code=code)
