"""What programs see through a mount is what they see in the directory behind it."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    multiple,
    rule,
    run_state_machine_as_test,
)
from mounted import View, bare, map_shared
from support.commands import execute
from support.waits import WITHIN

from holdfast.session import mounts

FIELDS = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_mtime_ns")


def everything(top: Path) -> dict[str, tuple[object, ...]]:
    """Return what can be learnt of all below a directory, by path."""
    found: dict[str, tuple[object, ...]] = {}
    for where, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = os.path.join(where, name)
            info = os.lstat(path)
            known: list[object] = [getattr(info, field) for field in FIELDS]
            if stat.S_ISLNK(info.st_mode):
                known[FIELDS.index("st_size")] = None  # an absolute link leads into the mount
            elif stat.S_ISREG(info.st_mode):
                known += [info.st_ctime_ns, info.st_blocks, Path(path).read_bytes()]
            found[os.path.relpath(path, top)] = tuple(known)
    return found


def test_everything_is_as_in_the_original(view: View) -> None:
    assert everything(view.top) == everything(view.root)
    assert sorted(os.listdir(view.top)) == sorted(os.listdir(view.root))


def run(command: str, where: Path) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=where,
        capture_output=True,
        timeout=WITHIN,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC", "HOME": "/", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return done.returncode, done.stdout, done.stderr


PROGRAMS = [
    "tar -cf - --sort=name --exclude absolute . | sha256sum",
    "tar -S -cf - --sort=name --exclude absolute . | sha256sum",
    "find . -printf '%p %y %m %s %n %T@ %i\\n' | grep -v absolute | sort",
    "ls -lAR --full-time --ignore=absolute | grep -v ^total",
    "cat sizes/* | md5sum",
    "grep -r here deep",
    "./exec",
    "cd deep/er && pwd -P | xargs basename && ls .. && cat still/file",
    "cat nothing",
    "cat deep",
    "du -a --apparent-size sizes | sort",
    "head -c 5000 sizes/1048577 | tail -c 10 | od -c",
    "cmp sizes/4097 deep/hard && stat -c %h sizes/4097",
    "readlink relative dangling outside",
]


@pytest.mark.parametrize("command", PROGRAMS)
def test_programs_print_the_same(view: View, command: str) -> None:
    assert run(command, view.top) == run(command, view.root)


def test_copies_are_the_same(view: View, tmp_path: Path) -> None:
    for command in (
        f"diff -r --no-dereference -x absolute {view.root} {view.top}",
        f"rsync -n --checksum -aiH --exclude absolute {view.root}/ {view.top}/",
    ):
        assert run(command, tmp_path) == (0, b"", b"")
    for how in ("auto", "always", "never"):
        copy = tmp_path / f"copy-{how}"
        assert run(f"cp --sparse={how} {view / 'sparse'} {copy}", tmp_path) == (0, b"", b"")
        assert copy.read_bytes() == (view.root / "sparse").read_bytes()
    assert (tmp_path / "copy-auto").stat().st_blocks * 512 < 8 << 20, "holes were not seen"


def test_git_finds_nothing_wrong(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    author = "-c user.name=a -c user.email=a@example.org"
    for command in (
        "git init -q . && mkdir d && echo one > d/one && ln -s d/one link && git add .",
        f"git {author} commit -qm first && echo two > two && git add . && echo 3 > untracked",
        f"git {author} commit -qm second && git gc -q && sleep 1.1 && git status",
    ):
        assert run(command, root)[0] == 0
    with bare(root, tmp_path) as view:
        # With its optional locks git writes to the index, which changes the original.
        for command in ("status --porcelain", "fsck --full", "log --stat", "diff HEAD~1"):
            asked = f"git -c safe.directory='*' --no-optional-locks {command}"
            assert run(asked, view.top) == run(asked, view.root), command


def test_every_change_is_refused(view: View) -> None:
    def refused(change: Callable[[], object]) -> None:
        with pytest.raises(OSError, match="Read-only") as caught:
            change()
        assert caught.value.errno == errno.EROFS

    file, directory = view / "exec", view / "deep"
    before = everything(view.root)
    refused(lambda: os.open(file, os.O_WRONLY))
    refused(lambda: os.open(file, os.O_RDWR))
    refused(lambda: os.open(file, os.O_RDONLY | os.O_TRUNC))
    refused(lambda: os.open(view / "new", os.O_WRONLY | os.O_CREAT))
    refused(lambda: os.truncate(file, 0))
    refused(lambda: os.unlink(file))
    refused(lambda: os.rmdir(view / "empty"))
    refused(lambda: os.mkdir(view / "new"))
    refused(lambda: os.rename(file, view / "new"))
    refused(lambda: os.link(file, view / "new"))
    refused(lambda: os.symlink("x", view / "new"))
    refused(lambda: os.mkfifo(view / "new"))
    refused(lambda: os.chmod(file, 0o777))
    refused(lambda: os.chown(file, 1, 1))
    refused(lambda: os.utime(file))
    refused(lambda: os.setxattr(file, "user.x", b"y"))
    refused(lambda: os.mkdir(view.point / "new"))
    assert not os.access(directory, os.W_OK)
    assert everything(view.root) == before


def test_links_that_lead_below_a_root_stay_in_the_mount(view: View) -> None:
    assert os.readlink(view / "absolute") == str(view / "deep/er/still/file")
    assert (view / "absolute").read_text() == "down here"
    assert os.path.realpath(view / "absolute").startswith(str(view.point))
    assert os.readlink(view / "outside") == "/etc"
    assert os.lstat(view / "absolute").st_size == len(os.readlink(view / "absolute"))


def test_maps_locks_and_extended_attributes(view: View) -> None:
    path, original = view / "sizes/1048577", view.root / "sizes/1048577"
    assert map_shared(path) == original.read_bytes()
    first, second = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(first, fcntl.LOCK_UN)
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(first)
        os.close(second)
    try:
        os.setxattr(original, "user.colour", b"blue")
    except OSError:
        pytest.skip("the file system of the tests has no extended attributes")
    view.refresh(original)
    assert os.getxattr(path, "user.colour") == b"blue"
    assert os.listxattr(path) == ["user.colour"]
    with pytest.raises(OSError, match="No data"):
        os.getxattr(path, "user.shape")
    assert os.listxattr(view.point) == []


def test_the_file_system_tells_its_size(view: View) -> None:
    here, there = os.statvfs(view.top), os.statvfs(view.root)
    assert (here.f_blocks, here.f_bsize, here.f_namemax) == (there.f_blocks, there.f_bsize, 255)
    flags = os.ST_RDONLY | os.ST_NOSUID | os.ST_NODEV
    assert here.f_flag & flags == flags


def test_what_lies_above_the_roots_is_made_up(view: View, tmp_path: Path) -> None:
    parts = view.root.parts[1:]
    above = view.point
    for part in parts[:-1]:
        assert os.listdir(above) == [part]
        assert not (above / "nothing").exists()
        above = above / part
        assert stat.S_IMODE(above.stat().st_mode) == 0o555
    assert (view.point / "..").resolve() == tmp_path
    assert (view.top / "..").samefile(above)


def test_modes_count_and_nobody_else_looks_in(tmp_path: Path) -> None:
    def try_it(*command: object) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN)
        return done.stdout + done.stderr.strip()

    # Who has opened a file once must not open it for others: the kernel no longer asks us.
    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        work = Path(open_to_all)
        work.chmod(0o755)
        (work / "root").mkdir()
        (work / "root/file").write_text("content")
        (work / "root/secret").write_text("for nobody")
        (work / "root/secret").chmod(0)
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        plain = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
        with bare(work / "root", work) as view:
            assert try_it("cat", view / "file", view / "secret") == "contentfor nobody"
            assert try_it(*nobody, "cat", view.root / "file") == "content"
            assert "Permission denied" in try_it(*nobody, "cat", view / "file")
            assert "Permission denied" in try_it(*nobody, "ls", view.point)
            assert try_it(*plain, "cat", view / "file") == "content"
            assert "Permission denied" in try_it(*plain, "cat", view / "secret")


@pytest.mark.skipif(os.getuid() != 0, reason="taking another user's place needs root")
def test_nobody_else_is_obeyed() -> None:
    code = """
import os, sys
from pathlib import Path
from holdfast.files.mount import control
os.setuid(int(sys.argv[2]))
try: print(control.ask(Path(sys.argv[1]), "ping", within=60))
except (BrokenPipeError, ConnectionResetError): print("refused")
"""
    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        work = Path(open_to_all)
        work.chmod(0o755)
        (work / "root").mkdir()
        with bare(work / "root", work) as view:
            view.control.chmod(0o666)  # even where the modes let them in
            for user, said in (os.getuid(), "[b'well']\n"), (65534, "refused\n"):
                assert execute(sys.executable, "-c", code, view.control, user) == said


def test_long_paths(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    names = [f"{number:03}" + "d" * 200 for number in range(30)]  # 6,000 bytes: beyond PATH_MAX
    for name in names:
        os.mkdir(name, dir_fd=here)
        here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, b"far away")
    os.close(file)
    os.close(here)
    with bare(root, tmp_path) as view:
        here = os.open(view.top, os.O_RDONLY)
        for name in names:
            assert os.listdir(here) == [name]
            here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
            os.close(above)
        file = os.open("file", os.O_RDONLY, dir_fd=here)
        assert os.read(file, 100) == b"far away"
        os.close(file)
        os.close(here)
    shutil.rmtree(root)


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A directory on a tmpfs: a disk takes half a minute for so many files."""
    path = tmp_path / "root"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], check=True)
    yield path
    mounts.detach(path)


def test_a_directory_of_100_000_entries(in_memory: Path, tmp_path: Path) -> None:
    descriptor = os.open(in_memory, os.O_RDONLY)
    for number in range(100_000):
        os.close(os.open(f"entry-{number}", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)
    with bare(in_memory, tmp_path) as view:
        with os.scandir(view.top) as entries:
            found = {entry.name: entry.inode() for entry in entries}
        assert len(found) == 100_000
        for number in range(0, 100_000, 97):
            name = f"entry-{number}"
            info, original = (view / name).stat(), (in_memory / name).stat()
            assert found[name] == info.st_ino == original.st_ino
        assert view.counters()["listings_from_storage"] == 1


def test_200_threads(view: View) -> None:
    wanted = {path: path.read_bytes() for path in (view.root / "sizes").iterdir()}
    wrong: list[str] = []

    def read() -> None:
        for path, content in wanted.items():
            if (view / "sizes" / path.name).read_bytes() != content:
                wrong.append(str(path))
            if (view / "sizes" / "no").exists():
                wrong.append("no")

    threads = [threading.Thread(target=read) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    assert not wrong


NAMES = ["sizes", "deep", "er", "still", "file", "4096", "4097", "1048577", "relative", "absolute"]
NAMES += ["dangling", "outside", "sparse", "empty", "secret", "nothing", ".", "..", "n" * 255]
NAMES += ["n" * 256, "exec", "hard"]
OPERATIONS = ["stat", "lstat", "read", "list", "readlink", "access", "seek", "write", "mkdir"]


def outcome(  # noqa: PLR0911
    top: Path, operation: str, parts: list[str], number: int
) -> object:
    """Do it; returns what came of it, an error's number included."""
    path = os.path.join(top, *parts)
    if not os.path.realpath(path).startswith(str(top)) and operation != "readlink":
        return "outside"
    try:
        if operation in ("stat", "lstat"):
            info = getattr(os, operation)(path)
            link = stat.S_ISLNK(info.st_mode)
            return [getattr(info, one) for one in FIELDS if not (link and one == "st_size")]
        if operation == "list":
            return sorted(os.listdir(path))
        if operation == "readlink":
            return os.readlink(path).replace(str(top), "TOP")
        if operation == "access":
            return [os.access(path, mode) for mode in (os.F_OK, os.R_OK, os.X_OK)]
        if operation == "mkdir":
            os.mkdir(path)
        flags = os.O_WRONLY if operation == "write" else os.O_RDONLY
        descriptor = os.open(path, flags | os.O_NONBLOCK)
        try:
            if operation == "seek" and stat.S_ISREG(os.fstat(descriptor).st_mode):
                return [os.lseek(descriptor, number, how) for how in (os.SEEK_DATA, os.SEEK_HOLE)]
            return os.pread(descriptor, number % 9000, number)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.errno


paths = st.lists(st.sampled_from(NAMES), max_size=5)
numbers = st.one_of(
    st.integers(0, 9 << 20), st.sampled_from([0, 4095, 4096, 4097, 1 << 20, 3 << 20, 8 << 20])
)


def attempt(call: Callable[[], object]) -> object:
    """What came of it, or the error."""
    try:
        return call()
    except OSError as error:
        return error.strerror


class Both(RuleBasedStateMachine):
    """The same on the mount and on the directory behind it, by paths and by descriptors."""

    opened = Bundle("opened")

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view
        self.left: set[int] = set()

    def teardown(self) -> None:
        for descriptor in self.left:
            os.close(descriptor)

    def same(self, call: Callable[[int], object], both: tuple[int, int]) -> None:
        through, directly = (attempt(lambda one=one: call(one)) for one in both)
        assert through == directly

    @rule(operation=st.sampled_from(OPERATIONS), parts=paths, number=numbers)
    def by_path(self, operation: str, parts: list[str], number: int) -> None:
        if operation in ("write", "mkdir"):  # of which the original must be spared
            original = outcome(self.view.root, "stat", parts[:-1], number)
            changed = outcome(self.view.top, operation, parts, number)
            assert isinstance(changed, int | str)
            if not isinstance(original, int | str) and parts and "n" * 256 not in parts:
                assert changed in (errno.EROFS, errno.EEXIST, errno.ENOENT, errno.ENOTDIR,
                                   errno.EISDIR, errno.ELOOP, "outside")  # fmt: skip
            return
        tops = (self.view.top, self.view.root)
        through, directly = (outcome(top, operation, parts, number) for top in tops)
        assert through == directly

    @rule(target=opened, parts=paths, follow=st.booleans())
    def opens(self, parts: list[str], follow: bool) -> object:
        flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
        tops = (self.view.top, self.view.root)
        if any(outcome(top, "stat", parts, 0) == "outside" for top in tops):
            return multiple()
        through, directly = (
            attempt(lambda top=top: os.open(os.path.join(top, *parts), flags)) for top in tops
        )
        self.left |= {one for one in (through, directly) if isinstance(one, int)}
        if not isinstance(through, int) or not isinstance(directly, int):
            assert through == directly
            return multiple()
        info, original = os.fstat(through), os.fstat(directly)
        assert [getattr(info, one) for one in FIELDS] == [getattr(original, one) for one in FIELDS]
        return (through, directly)

    @rule(both=opened, size=st.integers(0, 300_000))
    def reads(self, both: tuple[int, int], size: int) -> None:
        self.same(lambda one: os.read(one, size), both)
        self.same(lambda one: os.lseek(one, 0, os.SEEK_CUR) if not is_directory(one) else 0, both)

    @rule(both=opened, size=st.integers(0, 300_000), number=numbers)
    def reads_there(self, both: tuple[int, int], size: int, number: int) -> None:
        self.same(lambda one: os.pread(one, size, number), both)

    @rule(
        both=opened,
        number=numbers,
        how=st.sampled_from([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, os.SEEK_DATA, os.SEEK_HOLE]),
    )
    def seeks(self, both: tuple[int, int], number: int, how: int) -> None:
        if not is_directory(both[0]):
            self.same(lambda one: os.lseek(one, number, how), both)

    @rule(both=opened)
    def lists(self, both: tuple[int, int]) -> None:
        self.same(lambda one: sorted(os.listdir(one)), both)

    @rule(both=opened, name=st.sampled_from(NAMES))
    def looks_from_there(self, both: tuple[int, int], name: str) -> None:
        def look(one: int) -> object:
            info = os.stat(name, dir_fd=one, follow_symlinks=False)
            return [getattr(info, field) for field in FIELDS if field != "st_size"]

        if name != "..":  # above a root there is nothing but what the mount made up
            self.same(look, both)

    @rule(both=opened, number=numbers)
    def maps(self, both: tuple[int, int], number: int) -> None:
        def bytes_of(one: int) -> object:
            if is_directory(one) or os.fstat(one).st_size == 0:
                return None
            with mmap.mmap(one, 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped:
                return mapped[number : number + 10_000]

        self.same(bytes_of, both)


def is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def test_random_operations_have_the_same_outcome(view: View) -> None:
    run_state_machine_as_test(
        lambda: Both(view),
        settings=settings(max_examples=50, stateful_step_count=25, deadline=None),
    )
