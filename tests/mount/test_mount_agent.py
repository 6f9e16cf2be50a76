"""Mounts in front of agents: what they give, and that nobody suffers when they are gone."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from mounted import fill, through
from support.counters import nodes_of
from support.settings import SETTINGS
from support.waits import WITHIN, wait_for

import holdfast
from holdfast.files.mount import control
from holdfast.files.refresh import Refresh
from holdfast.testing.countfs import HOST, CountingFS

BIG = os.urandom(12 << 20)


def look(top: Path) -> bytes:
    """Read everything below a directory as programs of their own would; returns its digest."""
    done = subprocess.run(
        ["bash", "-c", "find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"],
        cwd=top,
        capture_output=True,
        timeout=WITHIN,
        check=True,
    )
    return done.stdout


def test_all_nodes_together_ask_the_storage_once(
    backing: Path, storage: CountingFS, in_parts: holdfast.LocalCluster, tmp_path: Path
) -> None:
    fill(backing)
    (backing / "large").write_bytes(BIG)
    with (
        through(in_parts, tmp_path / "m0", storage.at, 0) as first,
        through(in_parts, tmp_path / "m1", storage.at, 1) as second,
    ):
        storage.reset()
        views = (first, second)
        with ThreadPoolExecutor(4) as pool:
            seen = set(pool.map(look, [view.top for view in views * 2]))
        assert seen == {look(backing)}
        for view in views:
            assert (view / "large").read_bytes() == BIG
            assert (view / "sizes/4097").read_bytes() == (backing / "sizes/4097").read_bytes()
            assert not (view / "deep/missing").exists()
            counters = view.counters()
            assert counters["files_from_storage"] == counters["listings_from_storage"] == 0
            assert counters["listings"] >= 6
        counts = storage.counts()
    assert storage.opens(HOST) == {}
    assert {path for path, one in counts.items() if one.opens > 1 and path != "large"} == set()
    assert counts["large"].bytes <= len(BIG)  # in parts, each read once
    assert {path for path, one in counts.items() if one.listings > 1} == set()
    assert storage.total(HOST).listings == 0


def test_when_an_owner_of_a_spread_root_died_others_take_over_for_all_mounts(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        (backing / name).write_text(name)
    with holdfast.local_cluster(nodes=2, storage=storage, **SETTINGS) as cluster:
        with cluster.connect() as job:
            job.files(storage.at).warm()
        lost = storage.opens(1)
        assert 0 < len(lost) < len(names)
        cluster.kill(1)
        storage.reset()
        for point in ("one", "other"):
            with through(
                cluster, tmp_path / point, storage.at, spread_roots=str(storage.at)
            ) as view:
                assert [(view / name).read_text() for name in names] == names
        assert storage.opens() == dict.fromkeys(lost, 1)
        assert storage.opens(HOST) == {}


def test_files_of_a_spread_root_come_from_their_owners(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    fill(backing)
    with through(cluster, tmp_path / "mnt", storage.at, spread_roots=str(storage.at)) as view:
        for path in sorted((backing / "sizes").iterdir()):
            assert (view / f"sizes/{path.name}").read_bytes() == path.read_bytes()
    assert storage.opens(HOST) == {}
    opens = storage.opens()
    assert len(opens) == 9  # all but the empty one, of which nothing was read
    assert set(opens.values()) == {1}


@pytest.mark.parametrize("node", [0, 1])  # one of them owns it
def test_a_large_file_of_a_spread_root_comes_in_parts(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path, node: int
) -> None:
    content = os.urandom(36_000_000)
    (backing / "large").write_bytes(content)
    with through(cluster, tmp_path / "mnt", storage.at, node, spread_roots=str(storage.at)) as view:
        with (view / "large").open("rb") as file:
            assert file.read(10) == content[:10]
            assert view.counters()["bytes"] < len(content) // 2
            file.seek(30_000_000)
            assert file.read(10) == content[30_000_000:30_000_010]
        assert view.counters()["files"] > 1
        assert (view / "large").read_bytes() == content
    assert storage.opens(HOST) == {}
    assert storage.opens() == {"large": 1}


def test_refresh_reaches_the_kernels_of_all_nodes(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    with (
        through(cluster, tmp_path / "m0", storage.at, 0) as first,
        through(cluster, tmp_path / "m1", storage.at, 1) as second,
    ):
        for view in (first, second):
            assert (view / "file").read_text() == "old"
            assert not (view / "more").exists()
        (backing / "file").write_text("new, and longer")
        (backing / "more").write_text("more")
        with cluster.connect() as job:
            done = job.files(storage.at).refresh()
        assert sorted(done.nodes) == ["node-0", "node-1"]
        for view in (first, second):
            assert (view / "file").read_text() == "new, and longer"
            assert (view / "more").read_text() == "more"
        # A mount that cannot be told is named, and told when it is asked again.
        replaced = backing / "replacement"
        replaced.write_text("newer still")
        replaced.replace(backing / "file")
        with second.stopped(), cluster.connect() as job:
            assert job.files(storage.at).refresh().missed == ["node-1"]
        with cluster.connect() as job:
            assert job.files(storage.at).refresh().missed == []
        assert (second / "file").read_text() == "newer still"


def test_a_mount_whose_agent_was_not_told_looks_again_when_it_has_learnt(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    with through(cluster, tmp_path / "mnt", storage.at, 1) as view:
        assert (view / "file").read_text() == "old"
        (backing / "replacement").write_text("new, and longer")
        (backing / "replacement").replace(backing / "file")
        told = msgspec.msgpack.encode(Refresh([os.fsencode(storage.at)], 7))
        with cluster.connect() as job:
            agent = cluster.nodes[0].member.address
            job._connection.client.wait(agent, "files", "refresh", told).result()
        wait_for(lambda: (view / "file").read_text() == "new, and longer")


def test_refresh_sees_a_file_written_in_place(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    with through(cluster, tmp_path / "mnt", storage.at) as view:
        assert (view / "file").read_text() == "old"
        with (backing / "file").open("w") as file:
            file.write("new, and longer")
        with cluster.connect() as job:
            assert job.files(storage.at).refresh().missed == []
        assert os.listdir(view.top) == ["file"]
        assert (view / "file").read_text() == "new, and longer"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_agent_that_is_gone_or_silent(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path, how: str
) -> None:
    (backing / "big").write_bytes(BIG)
    (backing / "other").write_bytes(BIG[:5000])
    (backing / "d").mkdir()
    with through(cluster, tmp_path / "mnt", storage.at) as view:
        descriptor = os.open(view / "big", os.O_RDONLY)
        begin = os.read(descriptor, 1000)
        getattr(cluster, how)(0)
        rest = b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
        os.close(descriptor)
        assert begin + rest == BIG
        assert (view / "other").read_bytes() == BIG[:5000]
        assert os.listdir(view / "d") == []
        if how == "stop":
            cluster.resume(0)


def test_a_mapped_library_outlives_the_agent(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    import _ctypes

    name = Path(_ctypes.__file__ if hasattr(_ctypes, "__file__") else ctypes.__file__).name
    shutil.copy(_ctypes.__file__, backing / name)
    program = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
assert sys.argv[1] in open("/proc/self/maps").read()
print("loaded", flush=True)
sys.stdin.readline()
from pathlib import Path
assert Path(sys.argv[1]).read_bytes()
for line in open("/proc/self/maps"):
    if sys.argv[1] in line and "r-" in line:
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        ctypes.string_at(begin, end - begin)
print("still here", flush=True)
"""
    with (
        through(cluster, tmp_path / "mnt", storage.at) as view,
        subprocess.Popen(
            [sys.executable, "-c", program, str(view / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as running,
    ):
        assert running.stdout is not None
        assert running.stdout.readline() == "loaded\n"
        cluster.kill(0)
        said, _ = running.communicate("go\n", timeout=WITHIN)
        assert said == "still here\n"
        assert running.returncode == 0


def test_a_restarted_agent_is_used_again(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    for number in range(40):
        (backing / f"file-{number}").write_bytes(BIG[:1000])
    with through(cluster, tmp_path / "mnt", storage.at, spread_roots=str(storage.at)) as view:
        assert (view / "file-0").read_bytes() == BIG[:1000]
        cluster.kill(0)
        assert (view / "file-1").read_bytes() == BIG[:1000]
        cluster.restart(0)
        before = view.counters()["files"]
        numbers = iter(range(2, 40))
        wait_for(
            lambda: (
                (view / f"file-{next(numbers)}").read_bytes() == BIG[:1000]
                and view.counters()["files"] > before
            ),
        )


def test_mounts_end_with_their_session(backing: Path, storage: CountingFS, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    with holdfast.local_cluster(nodes=1, storage=storage) as agents:
        with through(agents, tmp_path / "other", storage.at):
            pass
        from mounted import config_of

        control.start(config_of(agents), str(tmp_path / "mnt"), [str(storage.at)])
        supervisor = next(iter(control.of_session(agents.directory).values())).supervisor
        assert os.path.ismount(tmp_path / "mnt")
    wait_for(lambda: not supervisor.running)
    assert not os.path.ismount(tmp_path / "mnt")


def test_sizes_around_every_limit(
    backing: Path, storage: CountingFS, in_parts: holdfast.LocalCluster, tmp_path: Path
) -> None:
    """Those of pages, of the kernel's requests, of parts and of large files."""
    limits = (4096, 128 << 10, 1 << 20, 4 << 20, 5 << 20, 8 << 20)
    for size in [0, *(limit + more for limit in limits for more in (-1, 0, 1))]:
        (backing / str(size)).write_bytes(BIG[:size])
    with through(in_parts, tmp_path / "mnt", storage.at, 1) as view:
        for name in os.listdir(backing):
            assert (view / name).read_bytes() == BIG[: int(name)], name
        assert view.counters()["files_from_storage"] == 0
    assert storage.opens(HOST) == {}
    assert set(storage.opens().values()) == {1}


class Exchange(threading.Thread):
    """Between an agent and its clients: whatever file it passes to them, they get another."""

    def __init__(self, agent: Path, instead: Path) -> None:
        super().__init__()
        self.agent, self.aside, self.instead = agent, agent.with_name("aside"), instead
        self.listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> None:
        self.agent.rename(self.aside)
        self.listener.bind(str(self.agent))
        self.listener.listen()
        self.start()

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.join(WITHIN)
        self.listener.close()
        self.agent.unlink()
        self.aside.rename(self.agent)

    def run(self) -> None:
        peers: dict[socket.socket, socket.socket] = {}
        with contextlib.suppress(OSError):  # nobody can be accepted when the test is over
            while True:
                for one in select.select([self.listener, *peers], [], [])[0]:
                    if one is self.listener:
                        client = self.listener.accept()[0]
                        agent = socket.socket(socket.AF_UNIX)
                        agent.connect(str(self.aside))
                        peers |= {client: agent, agent: client}
                    elif one in peers and not self.carry(one, peers[one]):
                        for end in (one, peers[one]):
                            del peers[end]
                            end.close()
        for one in peers:
            one.close()

    def carry(self, one: socket.socket, to: socket.socket) -> bool:
        try:
            said, files, _, _ = socket.recv_fds(one, 1 << 16, 1)
            with self.instead.open("rb") as other:
                socket.send_fds(to, [said], [other.fileno()] if files else [])
        except OSError:
            return False
        for file in files:
            os.close(file)
        return bool(said)


@pytest.mark.parametrize("size", [1000, 999, 1001])
def test_a_copy_of_another_size_is_not_believed(
    alone: holdfast.LocalCluster, root: Path, tmp_path: Path, size: int
) -> None:
    (root / "new").write_bytes(b"true" * 250)
    false = tmp_path / "false"
    false.write_bytes((b"false" * 250)[:size])
    agent = Path(alone.nodes[0].member.socket.removeprefix("unix:"))
    with Exchange(agent, false), through(alone, tmp_path / "mnt", root) as view:
        read = (view / "new").read_bytes()
        assert read == (false if size == 1000 else root / "new").read_bytes()


def test_what_is_large_is_what_the_agents_were_told(
    backing: Path, storage: CountingFS, in_parts: holdfast.LocalCluster, tmp_path: Path
) -> None:
    """Also if whoever mounts has another setting: else every node would read it by itself."""
    (backing / "large").write_bytes(BIG)
    with through(in_parts, tmp_path / "mnt", storage.at, tree_largest="1 GiB") as view:
        assert (view / "large").read_bytes() == BIG
        assert view.counters()["files_from_storage"] == 0
    assert storage.opens() == {"large": 1}
    assert storage.opens(HOST) == {}


def test_agents_with_too_little_memory(backing: Path, storage: CountingFS, tmp_path: Path) -> None:
    """Programs read the right bytes, and agents hold no more than they may."""
    for number in range(24):
        (backing / f"file-{number}").write_bytes(BIG[number << 18 : (number << 18) + (1 << 20)])
    (backing / "more than all of it").write_bytes(BIG)
    (backing / "large").write_bytes(BIG * 2)
    small = {**SETTINGS, "memory": "8 MiB", "disk": "8 MiB", "tree_largest": "16 MiB"}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **small) as cluster,
        through(cluster, tmp_path / "m0", storage.at, 0) as first,
        through(cluster, tmp_path / "m1", storage.at, 1) as second,
        ThreadPoolExecutor(4) as pool,
    ):
        assert set(pool.map(look, [first.top, second.top] * 2)) == {look(backing)}
        found = nodes_of(cluster, WITHIN)
        assert len(found) == 2
        for node in found.values():
            memory = node.tiers["memory"]
            assert memory["occupied"] + memory["reserved"] <= memory["capacity"]
            assert node.counters["evicted"] > 0


def test_a_time_to_live_holds_for_what_the_kernel_keeps(
    backing: Path, storage: CountingFS, tmp_path: Path
) -> None:
    (backing / "file").write_text("old")
    (backing / "d").mkdir()
    short = {**SETTINGS, "tree_ttl": "0.3 s"}
    with (
        holdfast.local_cluster(nodes=2, storage=storage, **short) as cluster,
        through(cluster, tmp_path / "mnt", storage.at) as view,
    ):
        assert (view / "file").read_text() == "old"
        assert not (view / "d/missing").exists()
        assert os.listdir(view / "d") == []
        (backing / "file").write_text("new, and longer")
        (backing / "d/missing").write_text("there")
        wait_for((view / "d/missing").exists)
        wait_for(lambda: os.listdir(view / "d") == ["missing"])
        wait_for(lambda: os.stat(view / "file").st_size == 15)
        assert (view / "file").read_text() == "new, and longer"
        assert view.counters()["listings_from_storage"] == 0
    assert storage.total(HOST).listings == 0


def test_a_storage_that_fails_gives_its_errors_through_agents(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    """Neither an empty file nor a short one, and it is tried again afterwards."""
    (backing / "file").write_bytes(BIG)
    (backing / "d").mkdir()
    with through(cluster, tmp_path / "mnt", storage.at) as view:
        assert (view / "file").stat().st_size == len(BIG)
        for operation in ("open", "read"):
            storage.fail("file", operation, errno.EIO)
            with pytest.raises(OSError, match="Input/output"):
                (view / "file").read_bytes()
            storage.heal()
        assert (view / "file").read_bytes() == BIG
        storage.fail("d", "stat", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            os.listdir(view / "d")
        storage.heal()
        assert os.listdir(view / "d") == []


def test_a_storage_that_hangs_holds_up_nobody_else(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    (backing / "stuck").write_bytes(BIG)
    (backing / "file").write_text("content")
    with through(cluster, tmp_path / "mnt", storage.at) as view:
        os.listdir(view.top)
        storage.hang("stuck", "open")
        waiting = [subprocess.Popen(["sha256sum", view / "stuck"], stdout=-3) for _ in range(20)]
        try:
            assert (view / "file").read_text() == "content"
            done = subprocess.run(["df", view.top], capture_output=True, timeout=WITHIN)
            assert done.returncode == 0
            assert all(one.poll() is None for one in waiting)
        finally:
            storage.heal()
            assert {one.wait(WITHIN) for one in waiting} == {0}
    assert storage.opens() == {"stuck": 1, "file": 1}


def test_paths_longer_than_the_kernel_takes_at_once(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    names = [f"{number:02}" + "d" * 200 for number in range(24)]  # 4,872 bytes: beyond PATH_MAX

    def go_down(top: Path, make: bool) -> int:
        here = os.open(top, os.O_RDONLY)
        for name in names:
            if make:
                os.mkdir(name, dir_fd=here)
            else:
                assert os.listdir(here) == [name]
            here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
            os.close(above)
        return here

    here = go_down(backing, make=True)
    with open(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(BIG)
    os.close(here)
    with through(cluster, tmp_path / "mnt", storage.at, 1) as view:
        here = go_down(view.top, make=False)
        with open(os.open("file", os.O_RDONLY, dir_fd=here), "rb") as file:
            assert file.read() == BIG
        os.close(here)
        assert view.counters()["listings"] >= 18  # agents give what has a path short enough
    shutil.rmtree(backing / names[0])
