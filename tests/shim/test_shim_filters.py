"""Programs with filters of system calls that do not expect sockets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from preloaded import Shell

PROGRAM = r"""
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IS(call, then) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, then)

static char root[512];

static int reads(void) {
    for (int number = 0; number < 8; ++number) {
        char path[600], room[16] = "";
        struct stat info;
        snprintf(path, sizeof path, "%s/%d", root, number);
        int file = open(path, O_RDONLY);
        if (file < 0 || read(file, room, 15) != 2 || room[0] != '0' + number || stat(path, &info))
            return 0;
        close(file);
    }
    return 1;
}

static int filter(unsigned then, int by_call) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IS(SYS_socket, then), IS(SYS_connect, then), IS(SYS_sendto, then), IS(SYS_sendmsg, then),
        IS(SYS_recvfrom, then), IS(SYS_recvmsg, then), IS(SYS_getsockopt, then),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 0;
    return by_call ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all) == 0
                   : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

int main(int count, char** words) {
    strcpy(root, words[1]);
    int late = !strcmp(words[2], "late"), by_call = !strcmp(words[3], "call");
    int kills = !strcmp(words[4], "kill");
    unsigned then = kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    char path[600];
    snprintf(path, sizeof path, "%s/0", root);
    if (late && !reads()) return 1;
    if (!filter(then, by_call)) return 2;
    if (!reads()) return 3;
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, "0", 1) != 1) return 4;
    if (count > 5) return execvp(words[5], words + 5);
    puts("done");
    return 0;
}
"""


@pytest.fixture
def backing(backing: Path) -> Path:
    for number in range(8):
        (backing / str(number)).write_text(f"{number}\n")
    return backing


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filters")
    (place / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-o", place / "program", place / "program.c"], check=True)
    return place / "program"


def test_a_filter_without_sockets_means_no_agent(shell: Shell, program: Path) -> None:
    shell.warm()
    for when, how, then in (
        ("early", "prctl", "kill"),
        ("late", "prctl", "kill"),
        ("late", "call", "kill"),
        ("late", "call", "refuse"),
    ):
        ran = shell.shimmed(f"{program} $ROOT {when} {how} {then}")
        assert ran[:3] == (0, b"done\n", b""), (when, how, then, ran)
    # A program that it starts has the filter from the beginning.
    ran = shell.shimmed(f"{program} $ROOT late prctl kill cat $ROOT/1 $ROOT/2")
    assert ran[:3] == (0, b"1\n2\n", b""), ran


def test_a_filter_that_holdfast_run_has_itself_is_none(shell: Shell, program: Path) -> None:
    # As in containers: it was there before, and evidently permits sockets.
    shell.warm()
    [count] = [
        line.split()[1]
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("Seccomp_filters:")
    ] or ["0"]
    read = f"{program} $ROOT early prctl refuse cat $ROOT/[1-7]"
    assert shell.shimmed(read).output == b"1\n2\n3\n4\n5\n6\n7\n"
    assert len(shell.storage.opens()) == 8
    shell.storage.reset()
    told = {"HOLDFAST_SHIM_FILTERS": str(int(count) + 1)}
    for _ in range(2):
        assert shell.shimmed("cat $ROOT/[1-7]").code == 0
    assert shell.storage.opens() == {}
    # It asks, is refused, and goes on.
    assert shell.shimmed(read, **told).output == b"1\n2\n3\n4\n5\n6\n7\n"
