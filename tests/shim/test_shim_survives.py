"""Threads, children, signals and programs that close what they do not know; agents that fail."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from preloaded import Shell
from support.settings import SETTINGS
from support.waits import WITHIN, wait_for

import holdfast
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey
from holdfast.config import load
from holdfast.files import FilePolicy, shim
from holdfast.session import session as sessions
from holdfast.testing.countfs import CountingFS

FILES = 40


@pytest.fixture
def backing(backing: Path) -> Path:
    rng = random.Random(6)
    for number in range(FILES):
        (backing / str(number)).write_bytes(
            b"%d." % number + rng.randbytes(rng.choice([9, 90_000]))
        )
    return backing


def in_python(program: str) -> str:
    """A program that knows the files; `check` opens one and compares it with its name."""
    return f"""$PYTHON - $ROOT {FILES} <<'END'
import os, sys, threading, signal
root, files = sys.argv[1], int(sys.argv[2])
def check(number):
    name = f"{{root}}/{{number % files}}"
    with open(name, "rb") as file:
        assert file.read().startswith(b"%d." % (number % files)), number
        assert os.fstat(file.fileno()).st_ino == os.stat(name).st_ino, number
{program}
END
"""


def runs(shell: Shell, program: str, **changed: str) -> dict[str, int]:
    """Run it, and return which files it opened on the storage."""
    shell.warm()
    ran = shell.shimmed(in_python(program), **changed)
    assert (ran.code, ran.errors) == (0, b""), ran
    assert ran.output == b"", ran
    return shell.storage.opens()


def test_threads_that_open_at_the_start(shell: Shell) -> None:
    program = """
def work(first):
    for number in range(first, first + 100): check(number)
threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()"""
    assert runs(shell, program) == {}


def test_children_of_threads_that_read(shell: Shell) -> None:
    program = """
stop = False
def work():
    number = 0
    while not stop: check(number); number += 1
threads = [threading.Thread(target=work) for n in range(3)]
for thread in threads: thread.start()
for round in range(20):
    child = os.fork()
    if child == 0:
        for number in range(20): check(number)
        grandchild = os.fork()
        if grandchild == 0:
            check(round); os._exit(0)
        os._exit(os.waitpid(grandchild, 0)[1] != 0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads: thread.join()"""
    assert runs(shell, program) == {}


def test_children_that_share_memory(shell: Shell) -> None:
    program = """
import subprocess
for number in range(20):
    check(number)
    subprocess.run(["cat", f"{root}/{number}"], stdout=subprocess.DEVNULL, check=True)
    os.waitpid(os.posix_spawn("/bin/cat", ["cat", f"{root}/{number}"], os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]), 0)
    check(number)"""
    assert runs(shell, program) == {}


def test_a_number_that_is_used_again_is_the_new_file(shell: Shell) -> None:
    # FT-Cache gave the bytes of the file that had the number before.
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
for number in range(files):
    stream = libc.fopen(f"{root}/{number}".encode(), b"r")
    room = ctypes.create_string_buffer(9)
    assert libc.fread(room, 1, 3, ctypes.c_void_p(stream)) == 3
    assert room.value.startswith(b"%d." % number), room.value
    libc.fclose(ctypes.c_void_p(stream))
    with open("/etc/passwd", "rb") as other: assert b"root" in other.read()
    assert os.stat("/etc/passwd").st_ino == os.fstat(os.open("/etc/passwd", os.O_RDONLY)).st_ino"""
    assert runs(shell, program) == {}


def test_programs_that_close_everything(shell: Shell) -> None:
    program = """
import socket
for number in range(30):
    check(number)
    os.closerange(3, 4096)
    # The numbers that the shim had are somebody else's now.
    mine = [socket.socketpair() for _ in range(400)]
    check(number + 1)
    for one, other in mine:
        one.sendall(b"x"); assert other.recv(9) == b"x"
    del mine, one, other"""
    assert runs(shell, program) == {}


def test_numbers_are_as_low_as_without_it(shell: Shell) -> None:
    program = """
first = os.open("/dev/null", os.O_RDONLY)
for number in range(5):
    assert os.open(f"{root}/{number}", os.O_RDONLY) == first + 1 + number
try: os.open(root + "/none", os.O_RDONLY)
except FileNotFoundError: pass
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (first + 6, first + 6))
try: os.open(root + "/9", os.O_RDONLY)
except OSError as error: assert error.errno == 24, error
else: raise SystemExit("there was no number left")"""
    runs(shell, program)


def test_another_user_sees_what_it_may_see(shell: Shell, backing: Path) -> None:
    (backing / "0").chmod(0o600)
    program = """
check(0); check(1)
os.seteuid(65534)
try: open(root + "/0")
except PermissionError: pass
else: raise SystemExit("it was open to another user")"""
    runs(shell, program)


def test_flags_of_descriptors(shell: Shell) -> None:
    program = """
import fcntl
for flags in (0, os.O_CLOEXEC, os.O_NONBLOCK, os.O_NOFOLLOW | os.O_NOATIME):
    one = os.open(root + "/1", os.O_RDONLY | flags)
    assert fcntl.fcntl(one, fcntl.F_GETFD) == 1  # Python sets it itself
    assert bool(fcntl.fcntl(one, fcntl.F_GETFL) & os.O_NONBLOCK) == bool(flags & os.O_NONBLOCK)
    try: os.write(one, b"x")
    except OSError as error: assert error.errno == 9
    os.close(one)"""
    assert runs(shell, program) == {}


#: A process that knows nothing of copies, and takes a lock.
TAKES = '''
import subprocess
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
def take(kind, more=""):
    return subprocess.Popen([sys.executable, "-c", f"""
import fcntl, sys
file = open(sys.argv[1], "r+b")
try: fcntl.{kind}(file, fcntl.LOCK_EX | fcntl.LOCK_NB{more})
except BlockingIOError: sys.exit(7)
print("held", flush=True); sys.stdin.read()""", root + "/1"],
        env=plain, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
'''


def test_locks_are_those_of_the_original(shell: Shell) -> None:
    program = """
import fcntl
for kind in "flock", "lockf":
    held = take(kind)
    assert held.stdout.readline() == b"held\\n"
    with open(root + "/1", "rb", buffering=0) as file:
        file.read(1)
        try: getattr(fcntl, kind)(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError: pass
        else: raise SystemExit(kind + " did not see the other's lock")
        held.communicate()
        getattr(fcntl, kind)(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert file.read(1) == b".", "it stands where it stood"
    check(1)"""
    assert set(runs(shell, TAKES + program)) == {"1"}


def test_a_lock_stays_when_the_file_is_read_again(shell: Shell) -> None:
    # A process that closes any descriptor of a file loses all locks that it has of it.
    program = """
import fcntl
held = [open(root + "/1", "rb") for _ in range(3)]
for number, file in enumerate(held): fcntl.lockf(file, fcntl.LOCK_SH, 1, number)
other = take("lockf", ", 1, 0")
other.communicate()
assert other.returncode == 7, other"""
    assert set(runs(shell, TAKES + program)) == {"1"}


def test_holes_are_those_of_the_original(shell: Shell, backing: Path) -> None:
    with open(backing / "sparse", "wb") as file:
        file.seek(1 << 20)
        file.write(b"data" * 1000)
        file.truncate(3 << 20)
    commands = (
        "tar -C $ROOT -Scf out.tar sparse",
        "cp $ROOT/sparse . && du -k sparse",
        """$PYTHON -c 'import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print([os.lseek(file, at, how) for how in (os.SEEK_DATA, os.SEEK_HOLE) for at in (0, 1 << 20)])
print(os.lseek(file, 0, os.SEEK_CUR), os.fstat(file).st_blocks)
try: os.lseek(file, 2 << 20, os.SEEK_DATA)
except OSError as error: print(error.errno)' $ROOT/sparse""",
        """$PYTHON -c 'import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print(os.lseek(file, 5, os.SEEK_DATA), os.lseek(file, 5, os.SEEK_HOLE), os.read(file, 1))
try: os.lseek(file, 1 << 20, os.SEEK_HOLE)
except OSError as error: print(error.errno)' $ROOT/1""",
    )
    plain = [shell.plain(command) for command in commands]
    shell.warm()
    assert [shell.shimmed(command) for command in commands] == plain
    assert set(shell.storage.opens()) == {"sparse"}  # where its holes are only it can tell


def test_opens_leave_nothing_behind(shell: Shell) -> None:
    # FT-Cache leaked 21 kB of its server each time.
    program = """
def agents():
    pid = int(os.environ["AGENT"])
    with open(f"/proc/{pid}/statm") as file: pages = int(file.read().split()[1])
    return 4096 * pages, len(os.listdir(f"/proc/{pid}/fd"))
for number in range(500): check(number)
memory, descriptors = agents()
own = len(os.listdir("/proc/self/fd"))
for number in range(5000): check(number)
assert len(os.listdir("/proc/self/fd")) == own
assert agents()[0] - memory < 5000 * 1000, (agents(), memory)
assert agents()[1] - descriptors < 500, (agents(), descriptors)"""
    assert runs(shell, program, AGENT=str(shell.cluster.nodes[0].pid)) == {}


def test_an_entry_of_a_copy_that_is_gone_is_not_believed_of_another_file(
    shell: Shell, tmp_path: Path
) -> None:
    """Inodes are used again: the entry may still be there when its number is another file's."""
    shell.warm()
    assert shell.shimmed("cat $ROOT/*").code == 0
    own = tmp_path / "own"
    own.write_bytes(b"mine")
    own.chmod(0o400)
    table = shell.cluster.directory / "node-0.attributes"
    ask = f"stat -c '%i %s' {own}; stat -L -c %i - < {own}"
    mine = shell.plain(ask)
    info = own.stat()
    mixed = (info.st_ino + info.st_dev * 0x9E3779B97F4A7C15) * 0xFF51AFD7ED558CCD % 2**64
    for older, longer, believed in ((0, 0, True), (1, 0, False), (0, 1, False)):
        # As native/base/attribute_table.h has it.
        entry = struct.pack(
            "=IIQQQQQIIIIQQ",
            *(2, 1, 1, info.st_dev, info.st_ino, info.st_mtime_ns - older),
            *(info.st_size + longer, 0o100644, 0, 0, 0, 1, 77),
        )
        with open(table, "r+b") as file:
            file.seek(4096 + 256 * 16384 + 1024 * 8 * ((mixed >> 40) % 2**32 % 2048))
            file.write(entry)
        ran = shell.shimmed(ask)
        assert (ran == mine) != believed
        assert (b"77" in ran.output) == believed


def test_a_seek_beyond_two_gibibytes(shell: Shell, backing: Path) -> None:
    with open(backing / "0", "r+b") as file:
        file.truncate(5 << 30)
        file.seek(3 << 30)
        file.write(b"here")
    ran = shell.shimmed(
        "tail -c +3221225473 $ROOT/0 | head -c 4; $PYTHON -c '\n"
        'import sys; file = open(sys.argv[1], "rb"); file.seek(3 << 30); print(file.read(4))'
        "' $ROOT/0"
    )
    assert ran[:3] == (0, b"hereb'here'\n", b"")


def test_copies_of_this_node_are_opened_without_asking_its_agent(shell: Shell) -> None:
    shell.warm()
    rounds, before = 100, passed(shell)
    ran = shell.shimmed(in_python(f"for number in range({rounds} * files): check(number)"))
    assert (ran.code, ran.errors) == (0, b"")
    local, fetched = (b - a for a, b in zip(before, passed(shell), strict=True))
    own = FILES - fetched // rounds  # the others are fetched each time
    assert 0 < own < FILES
    assert own <= local < own * rounds / 4


def test_a_copy_of_this_node_that_went_bad_is_found_by_the_scrub_and_read_again(
    shell: Shell,
) -> None:
    shell.warm()
    read = "cd $ROOT && sha256sum *"
    plain = shell.plain(read)
    for _ in range(2):  # so that programs open them by their names
        assert shell.shimmed(read) == plain
    [agent] = [
        one for one in sessions.agents(shell.cluster.directory) if one.member.node == "node-0"
    ]
    spoilt = [path for path in map(Path, agent.tiers.in_memory()) if path.stat().st_size > 1000]
    assert spoilt
    for path in spoilt:
        info = path.stat()
        path.chmod(0o600)
        with open(path, "r+b") as file:
            file.seek(500)
            byte = file.read(1)[0]
            file.seek(500)
            file.write(bytes([byte ^ 1]))
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))  # as a disk that forgets leaves it
        path.chmod(0o400)
    wait_for(lambda: counters(shell)["damaged"] >= len(spoilt), "the scrub did not find them")
    assert counters(shell)["damaged"] == len(spoilt)
    shell.storage.reset()
    for _ in range(2):
        assert shell.shimmed(read) == plain
    assert list(shell.storage.opens().values()) == [1] * len(spoilt)  # read again, once each


def passed(shell: Shell) -> tuple[int, int]:
    return counters(shell)["file_local"], counters(shell)["file_fetched"]


def counters(shell: Shell) -> dict[str, int]:
    contacts = Contacts(shell.cluster.directory, 5.0)
    try:
        [one] = [one for one in survey(contacts).nodes if one.node == "node-0"]
        return one.counters
    finally:
        contacts.client.close()


@pytest.mark.parametrize("then", ["stay", "resume"])
def test_what_changes_while_an_agent_is_stopped_is_seen_by_its_programs(
    shell: Shell, tmp_path: Path, then: str
) -> None:
    shell.warm()
    read = "for n in $(seq 0 39); do head -c 4 $ROOT/$n; done"
    for _ in range(2):  # the second finds the names
        old = shell.shimmed(read).output
    shell.cluster.stop(0)
    other = Shell(shell.cluster, shell.storage, tmp_path / "other", node=1)
    write = "for n in $(seq 0 3); do printf NEW. > $ROOT/$n; done"
    assert other.shimmed(write).code == 0
    if then == "resume":
        shell.cluster.resume(0)
    assert shell.shimmed(read).output == b"NEW." * 4 + old[16:]
    shell.cluster.resume(0)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("failed", ["stopped", "killed"])
def test_a_stopped_agent_is_left_alone_ever_longer_and_a_killed_one_not_waited_for(
    shell: Shell, failed: str
) -> None:
    shell.warm()
    program = in_python("for number in range(files): check(number)\nprint('done')")
    (shell.cluster.stop if failed == "stopped" else shell.cluster.kill)(0)
    ran = shell.shimmed(program.replace("$PYTHON", "strace -f -ttt -o waits -e ppoll $PYTHON"))
    assert ran[:3] == (0, b"done\n", b"")
    assert len(shell.storage.opens(0)) == FILES  # by the programs themselves
    waits: bytes = ran.made["waits"][2]  # type: ignore[index]
    missed = [float(line.split()[1]) for line in waits.splitlines() if b"(Timeout)" in line]
    if failed == "killed":
        assert not missed
        return
    shell.cluster.resume(0)
    # However slow the program is, each deadline that it misses doubles the pause from 0.2 s on.
    pauses = [later - earlier for earlier, later in itertools.pairwise(missed)]
    assert all(pause > 0.19 * 2**number for number, pause in enumerate(pauses)), pauses


def test_an_agent_killed_between_two_reads_of_a_file(shell: Shell) -> None:
    shell.warm()
    program = in_python("""
held = [open(f"{root}/{number}", "rb") for number in range(files)]
heads = [file.read(1) for file in held]
print("open", flush=True)
sys.stdin = open("/dev/fd/3"); sys.stdin.readline()
for number, file in enumerate(held):
    assert (heads[number] + file.read()).startswith(b"%d." % number)
    assert os.fstat(file.fileno()).st_ino == os.stat(file.name).st_ino
for number in range(files): check(number)
print("done")""")
    read, write = os.pipe()
    running = shell.start(
        f"exec 3<&{read}\n{program}", stdout=subprocess.PIPE, pass_fds=[read], text=True
    )
    os.close(read)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "open\n"
        for node in (0, 1):
            shell.cluster.kill(node)
        os.write(write, b"go\n")
        assert running.communicate(timeout=WITHIN)[0] == "done\n"
        assert running.returncode == 0
    finally:
        os.close(write)
        running.kill()
        running.communicate()


def test_a_change_that_no_agent_hears_of_waits_until_nobody_believes_it(shell: Shell) -> None:
    [agent] = [
        one for one in sessions.agents(shell.cluster.directory) if one.member.node == "node-0"
    ]
    # Its last heartbeat counts for a while, and those of this node are found by name until then.
    program = f"""
for number in range(2 * files): check(number)
os.kill({agent.process.pid}, signal.SIGKILL)
for number in range(files):
    with open(f"{{root}}/{{number}}", "wb") as file: file.write(b"changed")
    with open(f"{{root}}/{{number}}", "rb") as file: assert file.read() == b"changed", number"""
    shell.warm()
    ran = shell.shimmed(in_python(program))
    assert (ran.code, ran.errors) == (0, b""), ran


def test_another_library_that_is_preloaded_stays(shell: Shell, tmp_path: Path) -> None:
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("int holdfast_test_other(void) { return 42; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = "import ctypes; assert ctypes.CDLL(None).holdfast_test_other() == 42; check(1)"
    assert runs(shell, program, LD_PRELOAD=str(library)) == {}


def test_a_clock_that_tells_programs_another_time(shell: Shell, tmp_path: Path) -> None:
    source, library = tmp_path / "shifted.c", tmp_path / "shifted.so"
    source.write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* out) {
    int (*next)(clockid_t, struct timespec*) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, out);
    out->tv_sec += 3600;
    return result;
}""")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    program = """
import time
uptime = float(open("/proc/uptime").read().split()[0])
assert time.clock_gettime(time.CLOCK_BOOTTIME) > uptime + 3000
for number in range(2 * files): check(number)"""
    assert runs(shell, program, LD_PRELOAD=str(library)) == {}


OUTLIVES = """
import fcntl, os, sys, time
root = sys.argv[1]
def copy(name):  # the agent may need a moment
    end = time.monotonic() + 30
    while True:
        file = open(f"{root}/{name}", "rb")
        if os.readlink(f"/proc/self/fd/{file.fileno()}") != file.name: return file
        assert time.monotonic() < end, "it is not cached"
        file.close()
        time.sleep(0.05)
def told(info):
    return info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns
def wait(text):
    print(text, flush=True)
    sys.stdin.readline()
held = copy("held")
wait("open")
file = copy("other")
for one in (held, file):
    assert told(os.fstat(one.fileno())) == told(os.stat(one.name)), one
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
wait("locked")
"""


def test_a_program_that_outlives_its_session(tmp_path: Path) -> None:
    def holdfast_command(*arguments: str) -> None:
        main = "from holdfast.cli.main import main; main()"
        command = [sys.executable, "-c", main, *arguments, "--session", "outlived"]
        subprocess.run(command, check=True, capture_output=True, timeout=WITHIN)

    def variables() -> dict[str, str]:
        config = load(arguments={**SETTINGS, "session": "outlived"}).config
        return shim.environment(config, [str(tmp_path)], FilePolicy(), {})

    for name in ("held", "other"):
        (tmp_path / name).write_text(name)
    settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    holdfast_command("up", "--nodes", "1", *settings)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", OUTLIVES, str(tmp_path)],
            env={**os.environ, **variables()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            try:
                assert running.stdout.readline() == "open\n"
                holdfast_command("down")
                holdfast_command("up", "--nodes", "1", *settings)
                running.stdin.write("go\n")
                running.stdin.flush()
                assert running.stdout.readline() == "locked\n"
                with (tmp_path / "other").open() as file, pytest.raises(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            finally:
                running.stdin.close()
                running.wait(WITHIN)
    finally:
        holdfast_command("down")


def test_holdfast_run(shell: Shell, tmp_path: Path) -> None:
    shell.warm()
    command = [
        *shell.storage.under(0),
        sys.executable,
        "-c",
        "from holdfast.cli.main import main; main()",
        "run",
        "--session",
        shell.cluster.directory.name,
        "--set",
        f"run_dir={shell.cluster.directory.parent}",
        "--set",
        f"roots={shell.root}",
        "--set",
        "file_tier=memory",
    ]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=WITHIN
        )

    ran = run("--", "sh", "-c", f"wc -c {shell.root}/1; exit 7")
    assert (ran.returncode, ran.stderr) == (7, "")
    assert ran.stdout.endswith("/1\n")
    assert shell.storage.opens() == {}
    shown = run("--print-env", "--", "true").stdout
    assert f"export LD_PRELOAD={shim.SHIM}\n" in shown
    assert f"export HOLDFAST_SHIM_ROOTS={shell.root}\n" in shown
    assert re.search(r"^export HOLDFAST_SHIM_ORDER=[0-9a-f]+$", shown, re.MULTILINE)
    orphan = tmp_path / "script"
    orphan.write_text("#!/none\n")
    orphan.chmod(0o755)
    for wrong, code, complaint in (
        (("--", "no-such-program"), 127, "holdfast: the command 'no-such-program' was not found"),
        (
            ("--", "/etc/passwd"),
            126,
            "holdfast: /etc/passwd cannot be run: it is not an executable",
        ),
        (("--", "/etc"), 126, "holdfast: /etc cannot be run: it is not an executable"),
        (("--", str(orphan)), 127, f"holdfast: {orphan} cannot be run: No such file"),
        (("--root", "/none", "--", "true"), 2, "holdfast: the root /none is not a directory here"),
        (("--session", "none", "--", "true"), 3, "holdfast: no session 'none' in"),
        (("--copies", "0", "--", "true"), 2, "holdfast: a file can have 1 to 4 copies, not 0"),
        (("--on-failure", "x", "--", "true"), 2, "holdfast: on_failure='x': use"),
    ):
        ran = run(*wrong)
        assert ran.returncode == code
        assert ran.stderr.startswith(complaint), ran.stderr
        assert ran.stderr.count("\n") == 1


def test_a_file_that_takes_several_deadlines_to_come_is_read_once_from_the_storage(
    tmp_path: Path,
) -> None:
    backing = tmp_path / "slow"
    backing.mkdir()
    for number in range(4):
        (backing / str(number)).write_bytes(random.Random(number).randbytes(2_000_000))
    settings = {**SETTINGS, "deadline": "0.5 s", "file_deadline": "0.3 s"}
    with (
        CountingFS(backing, tmp_path / "at", nodes=2, bandwidth="2 MB/s") as storage,
        holdfast.local_cluster(nodes=2, storage=storage, **settings) as cluster,
    ):
        shell = Shell(cluster, storage, tmp_path / "work")
        ran = shell.shimmed("cat $ROOT/[0-3] | sha256sum", HOLDFAST_SHIM_DEADLINE_MS="500")
        plain = shell.plain(f"cat {backing}/[0-3] | sha256sum")
        assert (ran.code, ran.output) == (0, plain.output)
        assert storage.opens() == {str(number): 1 for number in range(4)}
