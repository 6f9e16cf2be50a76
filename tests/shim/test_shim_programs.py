"""Programs under the shim do what they do without it, and leave the storage alone when warm."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from preloaded import Shell

#: Each is a command of bash; none of them opens a file of the storage when all are cached.
READERS = {
    "cat": "cat $ROOT/a/* | sha256sum; cat < $ROOT/a/1",
    "standard input": "cat /dev/stdin < $ROOT/a/2; cat - < $ROOT/a/3; stat -L -c %i - < $ROOT/a/2",
    "relative": "cd $ROOT/a && cat 1 ./2 deep//3 | sha256sum",
    "missing": "cat $ROOT/missing $ROOT/a $ROOT/a/1/ $ROOT/a/../a/missing",
    "cp": "cp $ROOT/a/* . ; cp -r $ROOT/a b",
    "cp -a": "cp -a $ROOT/a b && ls -lR --time-style=full-iso b",
    "tar": "tar -C $ROOT -cf - a | tee out.tar | tar -tvf -",
    "sha256sum": "sha256sum $ROOT/a/[0-9] $ROOT/a/deep/*",
    "head": "head -c 100 $ROOT/a/3 | od; head -n 2 $ROOT/text",
    "find -ls": "find $ROOT -ls",
    "stat": "stat -c '%n %s %i %d %h %a %Y %Z %b' $ROOT/a/*",
    "python open": """$PYTHON -c '
import os, sys
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        seen, named = os.fstat(file.fileno()), os.stat(name)
        assert seen[:7] == named[:7] and seen[8:] == named[8:], (seen, named)
        assert seen.st_mtime_ns == named.st_mtime_ns and seen.st_blocks == named.st_blocks
        assert seen.st_blksize == named.st_blksize
        file.seek(-1, 2)
        print(file.read(), file.tell())
' $ROOT/a/[0-9] $ROOT/a/deep/*""",
}


@pytest.fixture
def backing(backing: Path) -> Path:
    rng = random.Random(5)
    (backing / "a" / "deep").mkdir(parents=True)
    for number, size in enumerate((1, 5000, 4096, 70_000, 300_000)):
        (backing / "a" / str(number)).write_bytes(rng.randbytes(size))
        (backing / "a" / "deep" / str(number)).write_bytes(rng.randbytes(2 * size))
    (backing / "text").write_text("".join(f"line {n} of the text\n" for n in range(5000)))
    os.chmod(backing / "a" / "1", 0o640)
    os.utime(backing / "a" / "2", ns=(10**18 + 7, 10**18 + 11))
    return backing


def test_readers_give_the_same_and_leave_the_storage_alone(shell: Shell) -> None:
    plain = {name: shell.plain(command) for name, command in READERS.items()}
    shell.warm()
    wrong = {}
    for name, command in READERS.items():
        ran = shell.shimmed(command)
        opens = shell.storage.opens()
        shell.storage.reset()
        if ran != plain[name] or opens:
            wrong[name] = (plain[name][:3], ran[:3], opens)
    assert not wrong


def test_without_an_agent_the_storage_is_read(shell: Shell) -> None:
    shell.warm()
    ran = shell.shimmed(READERS["sha256sum"], HOLDFAST_SHIM_SOCKET=str(shell.root / "none"))
    assert sum(shell.storage.opens(0).values()) == 10
    assert ran == shell.plain(READERS["sha256sum"])
    assert ran.code == 0
