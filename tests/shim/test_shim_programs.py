"""Programs under the shim do what they do without it, and leave the storage alone when warm."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from preloaded import Shell

PYTHON = """$PYTHON - $ROOT <<'END'
import os, sys
root = sys.argv[1]
names = sorted(os.path.join(root, "a", n) for n in os.listdir(root + "/a") if n != "deep")
{}
END
"""

#: Each is a command of bash; none of them opens a file of the storage when all are cached.
READERS = {
    "cat": "cat $ROOT/a/[0-9] | sha256sum; cat < $ROOT/a/1",
    "standard input": "cat /dev/stdin < $ROOT/a/2; cat - < $ROOT/a/3; stat -L -c %i - < $ROOT/a/2",
    "relative": "cd $ROOT/a && cat 1 ./2 deep//3 | sha256sum",
    "missing": "cat $ROOT/missing $ROOT/a $ROOT/a/1/ $ROOT/a/../a/missing",
    "cp": "cp $ROOT/a/[0-9] . ; cp -r $ROOT/a b",
    "cp -a": """cp -a $ROOT/a b && ls -lR --time-style=full-iso b
        $PYTHON -c 'import os; print(os.getxattr("b/1", "user.colour"))'""",
    "cp --sparse=always": "cp --sparse=always $ROOT/zeros . && du zeros",
    "tar": "tar -C $ROOT -cf - a zeros | tee out.tar | tar -tvf -",
    "tar -S": "tar -C $ROOT -Scf out.tar a",
    "sha256sum": "sha256sum $ROOT/a/[0-9] $ROOT/a/deep/*",
    "grep -r": "grep -r 'line 12' $ROOT/text $ROOT/a; grep -rc e $ROOT/a",
    "find -ls": "find $ROOT -ls",
    "diff -r": "diff -r $ROOT/a $ROOT/b; diff $ROOT/a/2 $ROOT/b/2",
    "head and tail": "head -c 100 $ROOT/a/3 | od; tail -n 3 $ROOT/text; tail -c 99 $ROOT/a/4 | od",
    "dd": "dd if=$ROOT/a/4 bs=1000 skip=100 count=50 status=none | sha256sum",
    "rsync": "rsync -a --checksum $ROOT/a/ b && rsync -ain --checksum $ROOT/b/ b",
    "stat": "stat -c '%n %s %i %d %h %a %Y %Z %b' $ROOT/a/*",
    "git log": "cd $ROOT/repository && git log -p && git fsck && git show HEAD~1:file",
    "bash": """
        while read -r line; do echo "${line#line }"; done < $ROOT/text | tail -n 2
        mapfile -t lines < $ROOT/text; echo ${#lines[@]}
        exec 7< $ROOT/a/3; head -c 10 <&7 | od; cat <&7 | sha256sum; wc -c < $ROOT/a/4
        source $ROOT/script""",
    "python open": PYTHON.format("""
for name in names:
    with open(name, "rb") as file:
        seen, named = os.fstat(file.fileno()), os.stat(name)
        assert seen[:7] == named[:7] and seen[8:] == named[8:], (seen, named)
        assert seen.st_mtime_ns == named.st_mtime_ns and seen.st_blocks == named.st_blocks
        assert seen.st_blksize == named.st_blksize
        file.seek(-1, 2)
        print(file.read(), file.tell())
print(len(open(root + "/text").readlines()))"""),
    "python mmap": PYTHON.format("""
import mmap, hashlib
for name in names:
    with open(name, "rb") as file:
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as seen:
            print(len(seen), hashlib.sha256(seen).hexdigest(), seen[-1])"""),
    "python preadv": PYTHON.format("""
descriptor = os.open(names[4], os.O_RDONLY)
room = [bytearray(100), bytearray(5000)]
print(os.preadv(descriptor, room, 1234), bytes(room[1][-9:]), os.lseek(descriptor, 0, 1))
copy = os.dup(descriptor); os.read(copy, 7); print(os.lseek(descriptor, 0, 1))"""),
    "python sendfile": PYTHON.format("""
import socket, threading, hashlib
ours, theirs = socket.socketpair()
def send():
    with ours, open(names[4], "rb") as file:
        print(ours.sendfile(file))
thread = threading.Thread(target=send); thread.start()
digest = hashlib.sha256()
while piece := theirs.recv(1 << 16): digest.update(piece)
thread.join(); print(digest.hexdigest())"""),
    "python shutil": PYTHON.format("""
import shutil
for name in names:
    shutil.copyfile(name, os.path.basename(name)); shutil.copy2(name, "second")
print(os.stat("second").st_mtime_ns)"""),
    "python np.load": PYTHON.format("""
import numpy as np
seen = np.load(root + "/array.npy", mmap_mode="r"); print(seen.shape, seen.sum(), seen[-3:])
print(np.load(root + "/array.npy").sum(), np.fromfile(names[1], dtype="u1").sum())"""),
    "python zipfile": PYTHON.format("""
import zipfile
with zipfile.ZipFile(root + "/archive.zip") as archive:
    print(archive.namelist(), archive.testzip(), archive.read("second")[-9:])"""),
    "python subprocess": PYTHON.format("""
import subprocess
with open(names[3], "rb") as file:
    file.seek(1000)
    print(subprocess.run(["sha256sum"], stdin=file, capture_output=True).stdout)
with open(names[3], "rb") as file:
    print(subprocess.run(["stat", "-L", "-c", "%i %Y %s", "-"], stdin=file, capture_output=True))
print(subprocess.check_output(["cat", names[2]], close_fds=True)[-9:])"""),
    "python multiprocessing": """cat > prog.py <<'END'
import multiprocessing, os, sys, hashlib
def work(name):
    with open(name, "rb") as file:
        return os.path.basename(name), os.fstat(file.fileno()).st_ino, len(file.read())
if __name__ == "__main__":
    root = sys.argv[1] + "/a/"
    names = [root + name for name in sorted(os.listdir(root)) if name != "deep"] * 5
    print(work(names[0]))
    for kind in ("fork", "spawn"):
        with multiprocessing.get_context(kind).Pool(2) as pool:
            print(pool.map(work, names))
END
$PYTHON prog.py $ROOT""",
}

#: How those end that find something to complain of; the others end well and say nothing.
COMPLAIN = {"missing": 1, "diff -r": 1}

#: These change or lock files; what they do to the storage is compared as well.
WRITERS = {
    "sqlite3": """sqlite3 $ROOT/base.db 'select sum(a), count(*) from t; insert into t values (7);
        select sum(a) from t'; sqlite3 -readonly $ROOT/base.db 'select sum(a) from t'""",
    "python sqlite3 read-only": PYTHON.format("""
import sqlite3
base = sqlite3.connect("file:" + root + "/base.db?mode=ro", uri=True)
print(base.execute("select sum(a), count(*) from t").fetchall())"""),
    "git status": "cd $ROOT/repository && git status && git status --short --branch",
    "git commit": """cd $ROOT/repository && git status --short && echo more >> file &&
        git status --short && git -c user.name=a -c user.email=b@c commit -qam third &&
        git log --format='%H %s' && git fsck && cat file""",
    "append": "echo more >> $ROOT/text; tail -n 2 $ROOT/text; wc -c $ROOT/text",
    "replace": "echo other > $ROOT/a/1; cat $ROOT/a/1; mv $ROOT/a/1 $ROOT/a/2; cat $ROOT/a/2",
    "truncate": "truncate -s 7 $ROOT/a/3; wc -c < $ROOT/a/3; cat $ROOT/a/3",
    "sed -i": "sed -i s/line/row/ $ROOT/text; head -n 2 $ROOT/text",
    "move a directory": "mv $ROOT/b $ROOT/c; cat $ROOT/c/2 | sha256sum; mkdir $ROOT/b; ls $ROOT",
    "remove": "rm $ROOT/a/4; cat $ROOT/a/4; rm -r $ROOT/a/deep; find $ROOT -type f | sort",
    "chmod": """chmod 600 $ROOT/a/0; cp -p $ROOT/a/0 .; ls -l 0
        touch -d @99 $ROOT/a/0; stat -c %Y $ROOT/a/0""",
    "lock": "flock -s $ROOT/a/0 cat $ROOT/a/0 | od",
    "python writes": PYTHON.format("""
name = names[1]
print(len(open(name, "rb").read()))
with open(name, "r+b") as file: file.write(b"changed")
print(open(name, "rb").read()[:9], os.stat(name).st_size)
os.truncate(name, 3); print(open(name, "rb").read())
os.rename(name, name + "new"); print(open(name + "new", "rb").read(), os.path.exists(name))
os.link(name + "new", name); os.symlink(name, name + "link"); print(open(name + "link").read())
os.unlink(name); print(os.path.exists(name + "link"))
import tempfile
with tempfile.NamedTemporaryFile(dir=root, delete=False) as file: file.write(b"1")
os.rename(file.name, root + "/named"); print(open(root + "/named").read())
with open(names[2], "rb") as file:
    os.fchmod(file.fileno(), 0o600); os.utime(file.fileno(), (5, 6))
    print(os.stat(names[2]).st_mode, os.stat(names[2]).st_mtime)"""),
}


#: What they open although its bytes stay the same: for a lock, or since its attributes change.
OF_THE_STORAGE = {
    "python sqlite3 read-only": {"base.db"},
    "lock": {"a/0"},
    "chmod": {"a/0"},
    "python writes": {"a/2"},
}


@pytest.fixture
def backing(backing: Path) -> Path:
    rng = random.Random(5)
    for place in ("a", "a/deep", "b"):
        (backing / place).mkdir(parents=True)
        for number, size in enumerate((1, 5000, 4096, 70_000, 300_000)):
            (backing / place / str(number)).write_bytes(rng.randbytes(size))
    (backing / "text").write_text("".join(f"line {n} of the text\n" for n in range(5000)))
    (backing / "script").write_text("echo from a script\n")
    (backing / "zeros").write_bytes(b"begin" + bytes(200_000) + b"end")
    os.chmod(backing / "a" / "1", 0o640)
    os.setxattr(backing / "a" / "1", "user.colour", b"green")
    os.utime(backing / "a" / "2", ns=(10**18 + 7, 10**18 + 11))
    np.save(backing / "array.npy", np.arange(10_000, dtype=np.float64))
    with zipfile.ZipFile(backing / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("first", "one" * 1000)
        archive.writestr("second", rng.randbytes(50_000))
    base = sqlite3.connect(backing / "base.db")
    base.execute("create table t (a integer)")
    base.executemany("insert into t values (?)", [(n,) for n in range(1000)])
    base.commit()
    base.close()
    _make_repository(backing / "repository")
    return backing


def _make_repository(path: Path) -> None:
    git = ["git", "-C", str(path), "-c", "user.name=a", "-c", "user.email=b@c"]
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    for number in (1, 2):
        (path / "file").write_text(f"version {number}\n" * 100)
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-qm", f"number {number}"], check=True, env=DATES)
    subprocess.run([*git, "gc", "-q"], check=True)


DATES = {
    **os.environ,
    "GIT_AUTHOR_DATE": "@1000000000 +0000",
    "GIT_COMMITTER_DATE": "@1000000000 +0000",
}


def test_readers_give_the_same_and_leave_the_storage_alone(shell: Shell) -> None:
    plain = {name: shell.plain(command) for name, command in READERS.items()}
    for name, ran in plain.items():
        assert ran.code == COMPLAIN.get(name, 0), (name, ran)
        assert ran.errors == b"" or name in COMPLAIN, (name, ran)
    shell.warm()
    wrong = {}
    for name, command in READERS.items():
        ran = shell.shimmed(command)
        opens = shell.storage.opens()
        shell.storage.reset()
        if ran != plain[name] or opens:
            wrong[name] = (plain[name][:3], ran[:3], opens)
    assert not wrong


@pytest.mark.parametrize("name", WRITERS)
def test_writers_do_the_same_to_the_storage(shell: Shell, backing: Path, name: str) -> None:
    shell.home |= DATES
    saved = backing.with_name("saved")
    subprocess.run(["cp", "-a", backing, saved], check=True)
    plain = shell.plain(WRITERS[name])
    expected = _contents(backing)
    subprocess.run(
        ["rsync", "-a", "--checksum", "--delete", f"{saved}/", f"{backing}/"], check=True
    )
    shell.warm()
    ran = shell.shimmed(WRITERS[name])
    assert ran == plain
    assert _contents(backing) == expected
    # What it neither changed nor locked came from the cache.
    same = expected.items() & _contents(saved).items()
    opened = shell.storage.opens().keys() - OF_THE_STORAGE.get(name, set())
    assert not opened & dict(same).keys()


def _contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "index")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_without_an_agent_the_storage_is_read(shell: Shell) -> None:
    shell.warm()
    ran = shell.shimmed(READERS["sha256sum"], HOLDFAST_SHIM_SOCKET=str(shell.root / "none"))
    assert sum(shell.storage.opens(0).values()) == 10
    assert ran == shell.plain(READERS["sha256sum"])
    assert ran.code == 0
