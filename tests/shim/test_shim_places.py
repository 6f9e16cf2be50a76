"""Mount namespaces in which something else lies at a root's path: its own bytes are read there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from preloaded import Shell

pytestmark = pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is missing")

#: As containers do it: what follows runs where another directory lies over the root.
INSIDE = 'unshare -m sh -c "mount --bind $OTHER $ROOT && '


@pytest.fixture
def backing(backing: Path) -> Path:
    for number in range(4):
        (backing / str(number)).write_text(f"cached {number}\n")
    return backing


@pytest.fixture
def other(shell: Shell, tmp_path: Path) -> Path:
    """What lies over the root elsewhere."""
    place = tmp_path / "other"
    place.mkdir()
    for number in range(4):
        (place / str(number)).write_text(f"another, {number}\n")
    shell.home["OTHER"] = str(place)
    return place


def test_what_is_mounted_over_a_root_is_read_and_asked_about_as_it_is(
    shell: Shell, other: Path
) -> None:
    ask = "cat $ROOT/[0-3]; stat -c '%i %s' $ROOT/[0-3]"
    inside = INSIDE + ask.replace("'", r"\"") + '"'
    shell.warm()
    for _ in range(2):  # the second finds the names
        cached = shell.shimmed(ask)
    assert cached.output.startswith(b"cached 0\n")
    assert shell.storage.opens() == {}
    ran = shell.shimmed(inside)
    assert ran == shell.plain(inside)
    assert ran.output.startswith(b"another, 0\n")
    # What lies there is not what was cached, and neither is what was cached spoilt by it.
    assert shell.shimmed(ask) == cached
    assert shell.storage.opens() == {}


def test_what_a_process_mounts_over_a_root_itself_is_read_from_then_on(
    shell: Shell, other: Path
) -> None:
    program = r"""$PYTHON - $ROOT $OTHER <<'END'
import ctypes, os, sys
root, other = map(os.fsencode, sys.argv[1:])
c = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    assert getattr(c, name)(*arguments) == 0, (name, os.strerror(ctypes.get_errno()))
def seen():
    with open(root + b"/1") as file:
        print(file.read(), os.stat(root + b"/1").st_size, os.fstat(file.fileno()).st_size)
seen()
call("unshare", 0x20000)  # CLONE_NEWNS
call("mount", b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
seen()
call("mount", other, root, None, 0x1000, None)  # MS_BIND
seen()
call("umount2", root, 2)
seen()
END
"""
    plain = shell.plain(program)
    assert (plain.code, plain.errors) == (0, b"")
    assert b"another, 1" in plain.output
    shell.warm()
    for _ in range(2):
        assert shell.shimmed(program) == plain
    assert shell.storage.opens() == {}


def test_a_root_that_was_replaced_through_the_shim_is_cached_again_once_refreshed(
    shell: Shell, backing: Path
) -> None:
    read = "cat $ROOT/data/1; stat -c %i $ROOT/data/1"
    for name in ("data", "new"):
        (backing / name).mkdir()
        (backing / name / "1").write_text(f"{name} 1\n")
    shell.root = shell.root / "data"
    shell.home["ROOT"] = str(shell.storage.at)
    shell.warm()
    assert shell.shimmed(read).output.startswith(b"data 1\n")
    assert shell.storage.opens() == {}
    assert shell.shimmed("mv $ROOT/data $ROOT/old && mv $ROOT/new $ROOT/data").code == 0
    with shell.cluster.connect() as job:
        job.files(shell.root).refresh()
    shell.warm()
    for _ in range(2):
        ran = shell.shimmed(read)
        assert ran.output.startswith(b"new 1\n"), ran
    assert shell.storage.opens() == {}
