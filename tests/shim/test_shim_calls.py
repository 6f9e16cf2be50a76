"""Each call that the shim stands before, by its name, as programs in C call it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from preloaded import Shell

AT = "-100"  # AT_FDCWD
#: How each call opens `path` for reading, as a descriptor.
OPENS = {
    **dict.fromkeys(("open", "open64", "__open", "__open64"), "(path, 0)"),
    **dict.fromkeys(("openat", "openat64"), f"({AT}, path, 0)"),
    **dict.fromkeys(("__open_2", "__open64_2"), "(path, 0)"),
    **dict.fromkeys(("__openat_2", "__openat64_2"), f"({AT}, path, 0)"),
    **dict.fromkeys(("fopen", "fopen64", "_IO_fopen"), "(path, b'r')"),
    **dict.fromkeys(("freopen", "freopen64"), "(path, b'r', c.fopen(b'/dev/null', b'r'))"),
}
#: How each call changes `path`, or makes `to` of it.
CHANGES = {
    **dict.fromkeys(("open", "open64", "__open", "__open64"), "(path, 1 | os.O_TRUNC)"),
    **dict.fromkeys(("openat", "openat64"), f"({AT}, path, 2 | os.O_APPEND)"),
    **dict.fromkeys(("__open_2", "__open64_2"), "(path, 1)"),
    **dict.fromkeys(("__openat_2", "__openat64_2"), f"({AT}, path, 1)"),
    **dict.fromkeys(("creat", "creat64"), "(path, 0o644)"),
    **dict.fromkeys(("fopen", "_IO_fopen"), "(path, b'w')"),
    "fopen64": "(path, b'r+')",
    **dict.fromkeys(("freopen", "freopen64"), "(path, b'a', c.fopen(b'/dev/null', b'r'))"),
    **dict.fromkeys(("rename", "link"), "(path, to)"),
    "renameat": f"({AT}, path, {AT}, to)",
    **dict.fromkeys(("renameat2", "linkat"), f"({AT}, path, {AT}, to, 0)"),
    "symlink": "(b'open', again(path))",
    "symlinkat": f"(b'open', {AT}, again(path))",
    **dict.fromkeys(("unlink", "remove"), "(path)"),
    "unlinkat": f"({AT}, path, 0)",
    **dict.fromkeys(("truncate", "truncate64"), "(path, ctypes.c_long(3))"),
    **dict.fromkeys(("mkstemp", "mkstemp64"), "(pattern)"),
    **dict.fromkeys(("mkostemp", "mkostemp64"), "(pattern, 0)"),
    **dict.fromkeys(("mkstemps", "mkstemps64"), "(pattern, 0)"),
    **dict.fromkeys(("mkostemps", "mkostemps64"), "(pattern, 0, 0)"),
    "fchmod": "(copy(path), 0o600)",
    "fchown": "(copy(path), 1, 1)",
    "futimens": "(copy(path), (ctypes.c_long * 4)(5, 0, 6, 0))",
    "futimes": "(copy(path), (ctypes.c_long * 4)(5, 0, 6, 0))",
    "chmod": "(path, 0o600)",
    "fchmodat": f"({AT}, path, 0o600, 0)",
    **dict.fromkeys(("chown", "lchown"), "(path, 1, 1)"),
    "fchownat": f"({AT}, path, 1, 1, 0)",
    "utime": "(path, (ctypes.c_long * 2)(5, 6))",
    "utimes": "(path, (ctypes.c_long * 4)(5, 0, 6, 0))",
    "utimensat": f"({AT}, path, (ctypes.c_long * 4)(5, 0, 6, 0), 0)",
}
BEGIN = """$PYTHON - $ROOT <<'END'
import ctypes, os, sys
root, at = sys.argv[1], -100
c = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments): return getattr(c, name)(*arguments)
for name in "fopen", "fopen64", "_IO_fopen", "freopen", "freopen64":
    getattr(c, name).restype = ctypes.c_void_p
    getattr(c, name).argtypes = [ctypes.c_char_p] * 2 + [ctypes.c_void_p] * ("re" in name)
c.fileno.argtypes = c.fflush.argtypes = [ctypes.c_void_p]
c.lseek.restype = c.lseek64.restype = ctypes.c_long
c.lseek.argtypes = c.lseek64.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int]
def descriptor(name, result):
    assert result not in (None, -1), (name, os.strerror(ctypes.get_errno()))
    return c.fileno(result) if "fopen" in name or "freopen" in name else result
"""


@pytest.fixture
def backing(backing: Path) -> Path:
    for name in {*OPENS, *CHANGES, "untouched"}:
        (backing / name).write_text(f"this is {name}\n")
        os.setxattr(backing / name, "user.colour", name.encode())
    return backing


def program(lines: str) -> str:
    return f"{BEGIN}{lines}\nEND\n"


def test_each_call_that_opens_gives_the_copy(shell: Shell) -> None:
    calls = program(
        f"for name, how in {OPENS!r}.items():\n"
        "    path = os.fsencode(f'{root}/{name}')\n"
        "    fd = descriptor(name, eval(f'getattr(c, name){how}'))\n"
        "    print(name, os.pread(fd, 99, 0), os.readv(fd, [bytearray(4)]), os.fstat(fd).st_ino)\n"
    )
    plain = shell.plain(calls)
    assert (plain.code, plain.errors) == (0, b"")
    assert set(shell.storage.opens()) == set(OPENS)
    shell.warm()
    assert shell.shimmed(calls) == plain
    assert shell.storage.opens() == {}


def test_each_call_that_asks_tells_of_the_original_without_opening_it(shell: Shell) -> None:
    calls = program("""
path = os.fsencode(root + "/open")
for _ in range(2): fd = os.open(path, os.O_RDONLY)
room = ctypes.create_string_buffer(4096)
def told(name, result):
    seen = room.raw
    if "statx" in name: seen = seen[4:8] + seen[16:56] + seen[96:144]  # no times of access, birth
    elif "statvfs" in name: seen = seen[:24]  # what is free changes
    elif "statfs" in name: seen = seen[:24]
    elif "stat" in name: seen = seen[:72] + seen[88:]
    print(name, result, seen.rstrip(bytes(1)).hex())
    ctypes.memset(room, 0, len(room))
for name in "fstat", "fstat64", "fstatvfs", "fstatvfs64", "fstatfs", "fstatfs64":
    told(name, call(name, fd, room))
for name in "__fxstat", "__fxstat64": told(name, call(name, 1, fd, room))
for name in "fstatat", "fstatat64":
    told(name, call(name, fd, b"", room, 0x1000))
    for flags in 0, 0x100: told(name, call(name, at, path, room, flags))
for name in "__fxstatat", "__fxstatat64":
    told(name, call(name, 1, fd, b"", room, 0x1000))
    for flags in 0, 0x100: told(name, call(name, 1, at, path, room, flags))
told("statx", c.statx(fd, b"", 0x1000, 0x7ff, room))
told("statx", c.statx(at, path, 0, 0x7ff, room))
for name in "stat", "stat64", "lstat", "lstat64": told(name, call(name, path, room))
for name in "__xstat", "__xstat64", "__lxstat", "__lxstat64": told(name, call(name, 1, path, room))
told("fgetxattr", c.fgetxattr(fd, b"user.colour", room, 99))
told("flistxattr", c.flistxattr(fd, room, 99))
for how in 0, 4: print(c.access(path, how), c.faccessat(at, path, how, 0))
for name in "lseek", "lseek64":
    for where in 3, 4:
        print(call(name, fd, 2, where), call(name, fd, 99999, where), ctypes.get_errno())
""")
    plain = shell.plain(calls)
    assert (plain.code, plain.errors) == (0, b"")
    shell.warm()
    assert shell.shimmed(calls) == plain
    assert shell.storage.opens() == {}


def test_each_call_that_changes_a_path_puts_it_out_of_the_cache_of_all_nodes_until_refreshed(
    shell: Shell, backing: Path, tmp_path: Path
) -> None:
    other = Shell(shell.cluster, shell.storage, tmp_path / "other", node=1)
    read = "cd $ROOT && for name in *; do echo $name; cat $name; stat -c '%s %a %u %Y' $name; done"
    shell.warm()
    assert other.shimmed(read).code == 0
    assert shell.storage.opens() == {}
    calls = program(
        "def copy(path): return os.open(path, os.O_RDONLY)\n"
        # Past the shim: a name that was there, and nobody was told that it is not.
        "def again(path): assert c.syscall(87, path) == 0; return path\n"
        f"for name, how in {CHANGES!r}.items():\n"
        "    path = os.fsencode(f'{root}/{name}')\n"
        "    to, pattern = path + b'.to', ctypes.create_string_buffer(path + b'XXXXXX')\n"
        "    done = eval(f'getattr(c, name){how}')\n"
        "    fd = descriptor(name, done)\n"
        "    if fd > 0: assert os.write(fd, b'changed') == 7\n"
        "    if 'temp' in name: c.syscall(87, path)\n"
    )
    ran = shell.shimmed(calls)
    assert ran[:3] == (0, b"", b"")
    shell.storage.reset()
    seen = [other.shimmed(read) for _ in range(2)]
    assert seen == [other.plain(read)] * 2
    opens = shell.storage.opens()
    left = {path.name for path in backing.iterdir() if not path.is_symlink()}
    # Each that is there was opened by each reader itself, the one without the shim among them.
    assert opens.pop("open") == 9  # the links lead to it
    assert opens.pop("untouched") == 1
    assert opens == dict.fromkeys(left - {"open", "untouched"}, 3)
    with shell.cluster.connect() as job:
        job.files(shell.root).refresh()
    shell.warm()
    assert other.shimmed(read) == seen[0]
    assert shell.storage.opens() == {}


def test_what_a_copy_would_answer_otherwise_is_passed_through(
    shell: Shell, backing: Path, tmp_path: Path
) -> None:
    shell.warm()
    (backing / "below").mkdir()
    (tmp_path / "outside").write_text("outside\n")
    (backing / "foreign").symlink_to(tmp_path / "outside")
    calls = program(f"""
os.chdir(root)
for path, flags in (
    ("open", os.O_DIRECT), ("open", os.O_PATH), ("below", os.O_DIRECTORY | os.O_RDONLY),
    ("open", os.O_DIRECTORY), ("below", os.O_RDONLY), ("below/../openat", os.O_RDONLY),
    (root + "/../outside", os.O_RDONLY), ("foreign", os.O_RDONLY), ("foreign", os.O_NOFOLLOW),
    ("../{backing.name}/open64", os.O_RDONLY),
):
    try:
        fd = os.open(path, flags)
        print(path, flags, os.readlink(f"/proc/self/fd/{{fd}}"), os.fstat(fd).st_mode, end=" ")
        print(os.read(fd, 99) if not flags else "")
    except OSError as error: print(path, flags, error.errno)
""")
    plain = shell.plain(calls)
    assert (plain.code, plain.errors) == (0, b"")
    shell.storage.reset()
    assert shell.shimmed(calls) == plain
    assert shell.storage.opens() == {"open": 1, "openat": 1}  # which O_DIRECT and .. lead to


def test_streams_convert_and_open_as_their_mode_says(shell: Shell, backing: Path) -> None:
    (backing / "wide").write_bytes("größer\n".encode("utf-16-le"))
    for name in ("w", "a", "r+"):
        (backing / f"told{name}").write_text("before\n")
    calls = program("""
import fcntl
c.fgetwc.argtypes = c.fclose.argtypes = c.fputwc.argtypes = [ctypes.c_void_p]
c.fputwc.argtypes = [ctypes.c_uint, ctypes.c_void_p]
def reads(stream):
    fd, seen = c.fileno(stream), []
    flags = fcntl.fcntl(fd, fcntl.F_GETFD), fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    while (one := c.fgetwc(stream)) != -1: seen.append(one)
    print(seen, flags)
    c.fclose(stream)
wide, plain = os.fsencode(root + "/wide"), os.fsencode(root + "/open")
for mode in b"r,ccs=UTF-16LE", b"re,ccs=UTF-16LE":
    reads(c.fopen(wide, mode))
    reads(c.freopen(wide, mode, c.fopen(b"/dev/null", b"r")))
for mode in b"r", b"rb", b"re", b"rm", b"rx", b"rcme":
    reads(c.fopen(plain, mode))
    reads(c.freopen(plain, mode, c.fopen(b"/dev/null", b"r")))
for mode in b"w", b"a", b"r+":
    name = os.fsencode(root) + b"/told" + mode
    stream = c.fopen(name, mode + b",ccs=UTF-16LE")
    c.fputwc(0xf6, stream); c.fclose(stream)
    print(open(name, "rb").read())
""")
    plain = shell.plain(calls)
    assert (plain.code, plain.errors) == (0, b"")
    assert str([ord(one) for one in "größer\n"]).encode() in plain.output
    for name in ("w", "a", "r+"):
        (backing / f"told{name}").write_text("before\n")
    shell.warm()
    assert shell.shimmed(calls) == plain
    assert "open" not in shell.storage.opens()


ON_A_SMALL_STACK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
static char path[512], to[512];
static volatile int failed;

static void handler(int signal) {
    (void)signal;
    struct stat info;
    char one;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &info) || stat(path, &info) || lstat(path, &info)) failed = 1;
    if (access(path, R_OK) || read(file, &one, 1) != 1) failed = 2;
    if (flock(file, LOCK_SH) || pread(file, &one, 1, 0) != 1 || lockf(file, F_TEST, 0)) failed = 3;
    close(file);
    file = open(path, O_WRONLY | O_APPEND);
    if (file < 0 || write(file, "x", 1) != 1 || close(file)) failed = 4;
    if (truncate(path, 3) || chmod(path, 0600) || rename(path, to) || unlink(to)) failed = 5;
}

int main(int count, char** words) {
    long kernel = (long)getauxval(AT_MINSIGSTKSZ), size = 8192;
    if (count != 3) return 11;
    snprintf(path, sizeof path, "%s/%s", words[1], words[2]);
    snprintf(to, sizeof to, "%s.to", path);
    // Whoever goes beyond its end is killed.
    char* at = mmap(NULL, (size_t)size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    mprotect(at, 4096, PROT_NONE);
    stack_t stack = {.ss_sp = at + 4096, .ss_size = (size_t)size};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL)) return 10;
    raise(SIGUSR1);
    // Where registers are large the kernel takes up to a half of it.
    long unused = 0;
    while (at[4096 + unused] == 0) ++unused;
    printf("%ld bytes and the kernel's %ld\n", size - unused - kernel, kernel);
    return size - unused - kernel > size / 2 ? 12 : failed;
}
"""


def test_handlers_on_stacks_of_8_kib_open_and_change_files(
    shell: Shell, backing: Path, tmp_path: Path
) -> None:
    source = tmp_path / "program.c"
    source.write_text(ON_A_SMALL_STACK)
    subprocess.run(["gcc", "-O1", "-Wl,-z,now", "-o", tmp_path / "program", source], check=True)
    shell.warm()
    for name in ("open", "openat", "fopen", "link"):  # some lie on the other node
        ran = shell.shimmed(f"{tmp_path}/program $ROOT {name}")
        assert ran.code == 0, ran
        assert not (backing / name).exists()
        assert not (backing / f"{name}.to").exists()


PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* names[] = {"open", "creat", "rename", "link", "unlink", "truncate", "fchmod"};
#define NAMES (sizeof names / sizeof *names)
static char paths[NAMES][512], said[NAMES][64];
static volatile int seen, broken;

static void check(size_t which) {
    char room[99] = "";
    struct stat by_descriptor, by_name;
    errno = 77;
    int file = open(paths[which], O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &by_descriptor) || stat(paths[which], &by_name) || errno != 77 ||
        by_descriptor.st_ino != by_name.st_ino || read(file, room, 98) <= 0 ||
        strcmp(room, said[which]))
        broken = 1;
    close(file);
}

static void handler(int signal) {
    (void)signal;
    int saved = errno;
    check(++seen % NAMES);
    errno = saved;
}

int main(int count, char** words) {
    for (size_t i = 0; i < NAMES; ++i) {
        snprintf(paths[i], sizeof *paths, "%s/%s", words[1], names[i]);
        snprintf(said[i], sizeof *said, "this is %s\n", names[i]);
    }
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int turn = 0; turn < 1000000 && seen < 1000; ++turn) check((size_t)turn % NAMES);
    setitimer(ITIMER_REAL, &never, NULL);
    if (seen < 1000 || broken) return 1;

    for (size_t i = 0; i < NAMES; ++i) {
        pid_t child = vfork();
        if (child == 0) {
            int file = open(paths[i], O_RDONLY);
            dup2(file, 0);
            execl("/bin/cat", "cat", (char*)NULL);
            _exit(9);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 2;
        check(i);
    }
    close_range(3, ~0u, 0);
    for (size_t i = 0; i < NAMES; ++i) check(i);
    char library[600];
    snprintf(library, sizeof library, "%s/library.so", words[1]);
    void* loaded = dlopen(library, RTLD_NOW);
    int (*answer)(void) = loaded ? (int (*)(void))dlsym(loaded, "answer") : NULL;
    if (answer == NULL || answer() != 42) return 3;
    for (size_t i = 0; i < NAMES; ++i) check(i);
    return broken;
}
"""


def test_signal_handlers_vfork_close_range_and_dlopen_in_a_program_in_c(
    shell: Shell, backing: Path, tmp_path: Path
) -> None:
    source, library = tmp_path / "program.c", tmp_path / "library.c"
    source.write_text(PROGRAM)
    library.write_text("int answer(void) { return 42; }")
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "program", source, "-ldl"], check=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", backing / "library.so", library], check=True)
    plain = shell.plain(f"{tmp_path}/program $ROOT")
    assert (plain.code, plain.errors) == (0, b"")
    shell.warm()
    assert shell.shimmed(f"{tmp_path}/program $ROOT") == plain
    assert set(shell.storage.opens()) <= {"library.so"}  # which the loader opens past the shim
