"""stat, lstat and access by path: answered from the table, and never of what was changed."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from preloaded import Shell
from support.waits import WITHIN

from holdfast import _core

FILES = 30
#: Reads all files, so that the agent tells their names; then asks about them by path.
ASK = """$PYTHON - $ROOT <<'END'
import os, sys
root = sys.argv[1]
os.chdir(root)
names = [f"{root}/data/{n}" for n in range(30)] + ["data/3", root + "/link", root + "/data"]
def told(one):
    return [getattr(one, name) for name in dir(one)
            if name.startswith("st_") and "atime" not in name]
for name in names[:31] + [root + "/link"]:
    with open(name, "rb") as file: file.read()
print("asks", flush=True)
for name in names:
    print(name, told(os.stat(name)), told(os.lstat(name)), os.access(name, os.R_OK),
          os.access(name, os.F_OK))
for mode in (os.W_OK, os.X_OK, os.R_OK | os.W_OK): print(os.access(root + "/link", mode))
fd = os.open("data", os.O_RDONLY)
for n in range(30):
    print(told(os.stat(str(n), dir_fd=fd)), told(os.lstat(str(n), dir_fd=fd)),
          os.access(str(n), os.R_OK, dir_fd=fd))
for name in ("missing", "data/3/below"):
    for ask in (os.stat, os.lstat):
        try: ask(name)
        except OSError as error: print(name, error.errno)
    print(os.access(name, os.F_OK))
END
"""


@pytest.fixture
def backing(backing: Path) -> Path:
    (backing / "data").mkdir()
    for number in range(FILES):
        path = backing / f"data/{number}"
        path.write_bytes(b"%d." % number * 1000)
        path.chmod(0o640 if number % 2 else 0o444)
        os.utime(path, ns=(number, -number))
    (backing / "link").symlink_to("data/5")
    return backing


def asked(shell: Shell) -> dict[str, int]:
    """How often the storage was asked about each file, without opening it."""
    return {
        name: one.lookups + one.getattrs
        for name, one in shell.storage.counts(0).items()
        if name.startswith("data/") and one.lookups + one.getattrs
    }


def test_what_is_told_by_path_is_the_original_s_and_the_storage_is_spared_for_copies_here(
    shell: Shell,
) -> None:
    shell.warm()
    without = shell.plain(ASK)
    shell.shimmed(ASK)  # the names are told when files are opened
    shell.storage.reset()
    plain = shell.plain(ASK)
    by_storage = asked(shell)
    shell.storage.reset()
    ran = shell.shimmed(ASK)
    assert ran == without == plain
    assert ran.errors == b""
    # Of those that lie on this node nothing is asked, but where another name goes through one.
    assert len(by_storage) == FILES
    ring = _core.Ring([node.name for node in shell.cluster.nodes])
    own = {
        name
        for name in by_storage
        if ring.owners(_core.FILE_PREFIX + os.fsencode(shell.root / name)) == ["node-0"]
    }
    assert 0 < len(own) < FILES
    assert not asked(shell).keys() & (own - {"data/3", "data/5"})


def test_what_was_changed_is_told_as_it_is_at_once(shell: Shell, tmp_path: Path) -> None:
    shell.warm()
    program = """$PYTHON - $ROOT <<'END'
import os, sys
root = sys.argv[1]
for turn in range(2):
    for n in range(30): open(f"{root}/data/{n}", "rb").read()
def sizes(): return [os.stat(f"{root}/data/{n}").st_size for n in range(30)]
before = sizes()
for n in range(10):
    with open(f"{root}/data/{n}", "ab") as file: file.write(b"more")
    assert os.stat(f"{root}/data/{n}").st_size == os.lstat(f"{root}/data/{n}").st_size \\
        == before[n] + 4
for n in range(10, 20):
    os.truncate(f"{root}/data/{n}", 7)
    assert os.stat(f"{root}/data/{n}").st_size == 7
for n in range(20, 25):
    os.unlink(f"{root}/data/{n}")
    assert not os.access(f"{root}/data/{n}", os.F_OK)
    assert not os.path.exists(f"{root}/data/{n}") and not os.path.lexists(f"{root}/data/{n}")
os.rename(f"{root}/data/25", f"{root}/data/26")
assert not os.path.exists(f"{root}/data/25")
END
"""
    other = Shell(shell.cluster, shell.storage, tmp_path / "other", node=1)
    read = "for n in $(seq 0 29); do cat $ROOT/data/$n; done > /dev/null"
    sizes = "stat -c '%n %s %i' $ROOT/data/* 2>&1; true"
    for _ in range(2):
        assert other.shimmed(read).code == 0
    assert shell.shimmed(program)[:3] == (0, b"", b"")
    assert other.shimmed(sizes) == other.plain(sizes)
    assert shell.shimmed(sizes) == shell.plain(sizes)


@contextlib.contextmanager
def waiting(shell: Shell, program: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program of Python and wait until it is ready; a line lets it go on."""
    command = f"exec $PYTHON -c {shlex.quote('import os, sys; root = sys.argv[1]' + program)} $ROOT"
    running = shell.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
    finally:
        running.kill()
        running.communicate()


def test_a_program_reads_what_it_wrote_although_its_agent_has_just_died(shell: Shell) -> None:
    shell.warm()
    program = """
for turn in range(2):
    for n in range(30): open(f"{root}/data/{n}", "rb").read()
print("ready", flush=True)
sys.stdin.readline()
for n in range(30):
    with open(f"{root}/data/{n}", "wb") as file: file.write(b"new %d" % n)
    assert os.stat(f"{root}/data/{n}").st_size == len(b"new %d" % n), n
    assert open(f"{root}/data/{n}", "rb").read() == b"new %d" % n, n
print("done")
"""
    with waiting(shell, program) as running:
        shell.cluster.kill(0)
        assert running.communicate("\n", timeout=WITHIN)[0] == "done\n"


def test_a_program_reads_what_was_written_elsewhere_although_its_agent_has_just_died(
    shell: Shell, tmp_path: Path
) -> None:
    """Nobody can tell it by then that its names are old: who writes waits until they are."""
    shell.warm()
    reads = """
for turn in range(2):
    for n in range(30): open(f"{root}/data/{n}", "rb").read()
print("ready", flush=True)
sys.stdin.readline()
print(*(open(f"{root}/data/{n}", "rb").read() for n in range(6)))
"""
    writes = """
print("ready", flush=True)
sys.stdin.readline()
for n in range(6):  # some of them are on the other node
    with open(f"{root}/data/{n}", "wb") as file: file.write(b"new")
print("written", flush=True)
"""
    other = Shell(shell.cluster, shell.storage, tmp_path / "other", node=1)
    with waiting(shell, reads) as reader, waiting(other, writes) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        shell.cluster.kill(0)
        print(file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "written\n"
        assert reader.communicate("\n", timeout=WITHIN)[0].split() == ["b'new'"] * 6


def test_strange_files_give_what_they_give_without_the_shim(shell: Shell, backing: Path) -> None:
    (backing / "loop").symlink_to("loop")
    (backing / "empty").touch()
    os.mkfifo(backing / "fifo")
    for name in (b"new\nline", b"not-utf-8-\xff\xfe"):
        with open(os.path.join(os.fsencode(backing), name), "wb") as file:
            file.write(name)
    with open(backing / "sparse", "wb") as file:
        file.truncate(5 << 30)
        file.seek(5 << 30)
        file.write(b"end")
    program = """$PYTHON - $ROOT <<'END'
import os, sys
root = os.fsencode(sys.argv[1])
strange = (b"new\\nline", b"not-utf-8-\\xff\\xfe")
for name in (b"loop", b"empty", b"data", b"fifo", b"sparse", *strange):
    try:
        fd = os.open(os.path.join(root, name), os.O_RDONLY | os.O_NONBLOCK)
        size = os.lseek(fd, -3, os.SEEK_END) if name == b"sparse" else 0
        print(name, os.fstat(fd).st_mode, os.fstat(fd).st_size, size, os.read(fd, 99))
    except OSError as error:
        print(name, error.errno)
END
"""
    ran = shell.shimmed(program)
    assert ran == shell.plain(program)
    assert (ran.code, ran.errors) == (0, b"")
    shell.storage.reset()
    shell.shimmed(program)
    names = ("empty", "new\nline", os.fsdecode(b"not-utf-8-\xff\xfe"))
    assert not set(names) & set(shell.storage.opens())
