"""A host that slept hears of nothing meanwhile, and its clocks are of two kinds."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

#: Time since boot as if the host had slept, for a while that a file tells; the others go on.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* slept;

__attribute__((constructor)) static void begin(void) {
    const char* path = getenv("SLEPT");
    int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* at = file >= 0 ? mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    if (at != MAP_FAILED) slept = at;
}

int clock_gettime(clockid_t clock, struct timespec* out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_BOOTTIME && slept != NULL) out->tv_sec += *slept;
    return result;
}
"""


class Sleep:
    """How long the hosts of all agents have slept."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._seconds = mmap.mmap(file.fileno(), 8)

    def sleep(self, seconds: int) -> None:
        (before,) = struct.unpack("q", self._seconds[:])
        self._seconds[:] = struct.pack("q", before + seconds)

    def close(self) -> None:
        self._seconds.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Sleep]:
    made = Sleep(tmp_path / "slept")
    yield made
    made.close()


@pytest.fixture
def cluster(
    host: Sleep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[holdfast.LocalCluster]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "sleep.c").write_text(SOURCE)
    library = tmp_path / "sleep.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, tmp_path / "sleep.c"], check=True
    )
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("SLEPT", str(tmp_path / "slept"))
        agents = holdfast.local_cluster(nodes=2, file_settled="0 s", probe_period="1 s")
        with agents as started:
            yield started


def test_an_agent_whose_host_slept_looks_at_files_before_it_serves_them(
    cluster: holdfast.LocalCluster, host: Sleep, tmp_path: Path
) -> None:
    names = [str(number) for number in range(8)]
    root = tmp_path / "root"
    root.mkdir()

    def write(text: str) -> None:
        for name in names:
            (root / "made").write_text(text)
            (root / "made").replace(root / name)

    with cluster.connect() as job:
        files = job.files(root)

        def read() -> tuple[set[bytes], set[bytes], set[int]]:
            texts = {files.read(name) for name in names}
            opened = set()
            for name in names:
                with files.open(name) as file:
                    opened.add(file.read())
            return texts, opened, {files.stat(name).st_size for name in names}

        write("one")
        assert read() == ({b"one"}, {b"one"}, {3})
        write("three")
        assert read() == ({b"one"}, {b"one"}, {3})  # nobody has told them
        host.sleep(3600)
        # At once: nobody waits for a loop or a thread to find out.
        assert read() == ({b"three"}, {b"three"}, {5})
