"""What was asked once is answered by the kernel; the storage is asked once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mounted import View, bare, fill
from support.waits import WITHIN

from holdfast.testing.countfs import CountingFS

#: A process of its own, so that one that hangs can be ended.
_WARM = """
import os, sys
top = sys.argv[1]
def look():
    found = []
    for where, directories, files in os.walk(top):
        for name in sorted(directories + files):
            path = os.path.join(where, name)
            found.append(os.lstat(path).st_size)
            if os.path.islink(path):
                found.append(os.readlink(path))
            elif os.path.isfile(path):
                descriptor = os.open(path, os.O_RDONLY)
                while piece := os.read(descriptor, 1 << 20):
                    found.append(hash(piece))
                os.close(descriptor)
        try:
            os.stat(os.path.join(where, "missing"))
        except FileNotFoundError:
            found.append("missing")
    return found
print(len(look()), flush=True)
if len(sys.argv) > 2:
    before = look()
    print("ready", flush=True)
    sys.stdin.readline()
    print(look() == before, flush=True)
"""


#: The kernel may drop what it caches whenever it wants memory, but hardly in every round.
_ROUNDS = 3


def test_a_warm_access_does_not_reach_user_space(view: View) -> None:
    assert any(_needs_no_mount(view) for _ in range(_ROUNDS)), "the kernel asked again each time"


def _needs_no_mount(view: View) -> bool:
    """Whether a program that has seen everything sees it again while the mount is stopped."""
    with subprocess.Popen(
        [sys.executable, "-c", _WARM, str(view.top), "twice"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        lines = [program.stdout.readline(), program.stdout.readline()]
        assert lines[1] == "ready\n"
        before = view.counters()["requests"]
        try:
            with view.stopped():
                said, _ = program.communicate("go\n", timeout=WITHIN / _ROUNDS)
        except subprocess.TimeoutExpired:
            said, _ = program.communicate(timeout=WITHIN)
        assert said == "True\n"
    return bool(view.counters()["requests"] == before)


def test_a_name_that_is_not_in_a_listing_is_missing_without_asking(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    fill(backing)
    with bare(storage.at, tmp_path) as view:
        os.stat(view / "deep/hard")
        storage.reset()
        for number in range(50):
            assert not (view / f"deep/missing-{number}").exists()
        assert (view / "deep/er").is_dir()
        assert storage.total().lookups == storage.total().listings == 0


def test_the_storage_is_asked_once(backing: Path, storage: CountingFS, tmp_path: Path) -> None:
    fill(backing)
    with bare(storage.at, tmp_path) as view:
        readers = [
            subprocess.Popen([sys.executable, "-c", _WARM, str(view.top)], stdout=subprocess.PIPE)
            for _ in range(8)
        ]
        said = {reader.communicate(timeout=WITHIN)[0] for reader in readers}
        assert len(said) == 1
        counts = storage.counts()
    assert counts
    assert {path: one.opens for path, one in counts.items() if one.opens > 1} == {}
    assert {path: one.listings for path, one in counts.items() if one.listings > 1} == {}
    files = [path for path, one in counts.items() if one.opens]
    regular = [path for path in backing.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) == len([path for path in regular if path.stat().st_size])
