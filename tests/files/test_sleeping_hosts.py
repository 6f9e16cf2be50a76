"""The clocks of a host: one went on while it slept, and somebody sets the one on the wall."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waits import wait_for

import holdfast
from holdfast.client.events import line

#: In seconds: several probes, of which one might find somebody dead.
_PROBES = 1.5
#: Time since boot as if the host had slept, and that of the wall as if somebody had set it, by what
#: a file tells; the others go on.
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

static const volatile int64_t* shifts;

__attribute__((constructor)) static void begin(void) {
    const char* path = getenv("CLOCKS");
    int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* at = file >= 0 ? mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    if (at != MAP_FAILED) shifts = at;
}

int clock_gettime(clockid_t clock, struct timespec* out) {
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result != 0 || shifts == NULL) return result;
    if (clock == CLOCK_BOOTTIME) out->tv_sec += shifts[0];
    if (clock == CLOCK_REALTIME) out->tv_sec += shifts[1];
    return result;
}
"""


class Clocks:
    """Those of all agents that are started with the variables."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler")
        source, library, shifts = (directory / f"clocks.{end}" for end in ("c", "so", "shifts"))
        source.write_text(SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        shifts.write_bytes(bytes(16))
        with shifts.open("r+b") as file:
            self._shifts = mmap.mmap(file.fileno(), 16)
        self.variables = {"LD_PRELOAD": str(library), "CLOCKS": str(shifts)}

    def sleep(self, seconds: int) -> None:
        """Let time since boot pass."""
        self._shift(0, seconds)

    def set(self, seconds: int) -> None:
        """Set the wall clock forward or, by a negative number, back."""
        self._shift(8, seconds)

    def _shift(self, at: int, seconds: int) -> None:
        (before,) = struct.unpack_from("q", self._shifts, at)
        struct.pack_into("q", self._shifts, at, before + seconds)

    def close(self) -> None:
        self._shifts.close()


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[Clocks]:
    made = Clocks(tmp_path)
    yield made
    made.close()


@pytest.fixture
def cluster(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.LocalCluster]:
    with monkeypatch.context() as patch:
        for name, value in clocks.variables.items():
            patch.setenv(name, value)
        agents = holdfast.local_cluster(nodes=2, file_settled="0 s", probe_period="1 s")
        with agents as started:
            yield started


def test_an_agent_whose_host_slept_looks_at_files_before_it_serves_them(
    cluster: holdfast.LocalCluster, clocks: Clocks, tmp_path: Path
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
        clocks.sleep(3600)
        # At once: nobody waits for a loop or a thread to find out.
        assert read() == ({b"three"}, {b"three"}, {5})


def test_an_agent_whose_wall_clock_is_set_dies_of_nothing_and_serves_nothing_stale(
    clocks: Clocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(number) for number in range(8)]
    root = tmp_path / "root"
    root.mkdir()
    with holdfast.local_cluster(nodes=2, file_settled="0 s", probe_period="0.5 s") as cluster:
        cluster.kill(1)
        with cluster.connect(0) as job:
            wait_for(lambda: job._connection.refresh() or len(job.nodes) == 1, "it does not die")
        clocks.set(3600)
        with monkeypatch.context() as patch:
            for name, value in clocks.variables.items():
                patch.setenv(name, value)
            cluster.restart(1)

        def told() -> set[str]:
            return {event.node for event in cluster.story() if event.kind == "died"}

        wait_for(lambda: told() == {"node-0", "node-1"}, "not both know that node-1 died")
        begin = time.clock_gettime(time.CLOCK_BOOTTIME)
        started = {event.node: event.time for event in cluster.story() if event.kind == "started"}
        assert started["node-1"] - started["node-0"] > 3000, "it has no clock of its own"
        with cluster.connect(0) as ours, cluster.connect(1) as theirs:
            for step in (-7200, 10_800, -3600):
                clocks.set(step)
                for name in names:
                    (root / name).write_text(f"{name} after {step}")
                ours.files(root).refresh(*names)
                for job in (ours, theirs):
                    for name in names:
                        assert job.files(root).read(name) == f"{name} after {step}".encode()
                    job.objects.put(f"{job.node} {step}", b"kept", copies=2)
                time.sleep(_PROBES)
                for writer, reader in ((ours, theirs), (theirs, ours)):
                    assert reader.objects.get(f"{writer.node} {step}") == b"kept"
            assert len(ours.nodes) == len(theirs.nodes) == 2
        assert all(node.alive for node in cluster.nodes)
        late = [event for event in cluster.story() if event.boot > begin]
        assert [line(event) for event in late if event.kind == "died"] == []
