"""Who may connect, and what a stranger learns."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.waits import wait_for

import holdfast
from holdfast import _core, errors
from holdfast.session import session as sessions


def tcp(cluster: holdfast.LocalCluster, node: int = 0) -> tuple[str, int]:
    host, port = cluster.nodes[node].member.address.removeprefix("tcp:").rsplit(":", 1)
    return host, int(port)


def wait_for_log(cluster: holdfast.LocalCluster, text: str) -> None:
    """Wait until node 0 has said so; it may answer its peer before it writes its log."""
    wait_for(lambda: text in cluster.nodes[0].log.read_text(), f"the log never says {text!r}")


def test_a_wrong_job_key_is_refused(cluster: holdfast.LocalCluster, job: holdfast.Job) -> None:
    job.objects.put("secret", b"bytes", copies=4)
    stranger = _core.AgentClient(os.urandom(32))
    address = cluster.nodes[0].member.address
    with pytest.raises(errors.Refused, match="job key does not match"):
        stranger.get(address, b"secret")
    wait_for_log(cluster, "it does not have the job key")
    assert job.objects.get("secret") == b"bytes"


def test_nothing_is_read_before_the_proof(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    for junk in (b"GET / HTTP/1.0\r\n\r\n" * 10, os.urandom(4096), b""):
        with socket.create_connection(tcp(cluster)) as connection:
            challenge = connection.recv(100)
            assert challenge[:5] == b"HLDF\x01"
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(10)
            try:
                answer = connection.recv(1000)
            except ConnectionResetError:
                answer = b""
            assert answer in (b"", bytes(32))
    job.objects.put("key", b"still here")
    assert job.objects.get("key") == b"still here"


@contextlib.contextmanager
def flood(cluster: holdfast.LocalCluster, size: int) -> Iterator[None]:
    """So many connections to each of two agents that say nothing; nobody closes them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * size + 200:
        pytest.skip(f"needs {2 * size} open files; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as silent:
        silent.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for i in range(2 * size):
            silent.enter_context(socket.create_connection(tcp(cluster, i % 2), timeout=10))
        yield


def test_silent_strangers_keep_nobody_out(cluster: holdfast.LocalCluster) -> None:
    """Far more of them than an agent takes; clients and agents that connect now are let in."""

    def use(thread: int) -> None:
        with cluster.connect(node=thread % 2) as job:
            for i in range(5):
                key, bytes_ = f"{thread}/{i}", os.urandom(70_000)
                job.objects.put(key, bytes_, copies=4)
                assert job.objects.get(key) == bytes_

    with flood(cluster, 4200), ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))
    assert "closed the oldest connection" in cluster.nodes[0].log.read_text()


def test_an_impostor_on_the_port_is_refused_by_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        impostor.settimeout(10)
        client = _core.AgentClient(os.urandom(32))
        port = impostor.getsockname()[1]
        pid = os.fork()
        if pid == 0:
            connection, _ = impostor.accept()
            connection.sendall(b"HLDF\x01\0\0\0" + os.urandom(32))
            connection.recv(100)
            connection.sendall(os.urandom(32))
            os._exit(0)
        with pytest.raises(errors.Refused):
            client.get(f"tcp:127.0.0.1:{port}", b"key")
        os.waitpid(pid, 0)


@pytest.mark.skipif(os.getuid() != 0, reason="taking another user's place needs root")
def test_another_user_is_refused_on_the_unix_socket(cluster: holdfast.LocalCluster) -> None:
    cluster.directory.chmod(0o755)  # even where the directories let them in
    cluster.directory.parent.chmod(0o755)
    path = cluster.nodes[0].member.socket.removeprefix("unix:")
    os.chmod(path, 0o777)
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
        f"s.connect({path!r}); s.settimeout(10); sys.exit(len(s.recv(10)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True).returncode == 0
    wait_for_log(cluster, "belongs to user 65534")


def test_a_unix_socket_of_another_user_is_refused_by_the_client(
    another_user: Callable[[Path], None], tmp_path: Path
) -> None:
    another_user(tmp_path / "socket")
    with pytest.raises(errors.Refused, match="belongs to user 65534"):
        _core.AgentClient(os.urandom(32)).get(f"unix:{tmp_path}/socket", b"key")


def test_a_key_that_others_can_read_is_refused(cluster: holdfast.LocalCluster) -> None:
    (cluster.directory / "key").chmod(0o644)
    with pytest.raises(errors.Refused, match="mode 0600"):
        cluster.connect()
    (cluster.directory / "key").chmod(0o600)
    cluster.connect()


def test_a_run_dir_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(errors.Refused, match="mode 0700"):
        sessions.make_private(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="directories of other users need root")
def test_a_run_dir_of_another_user_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(errors.Refused, match=r"directory that you own, .* set another run_dir"):
        sessions.make_private(tmp_path)


def test_the_session_keeps_its_files_to_itself(cluster: holdfast.LocalCluster) -> None:
    job = cluster.connect()
    job.objects.put("key", b"x" * 100_000, copies=4)
    assert cluster.directory.stat().st_mode & 0o077 == 0
    assert (cluster.directory / "key").stat().st_mode & 0o777 == 0o600
    for process in cluster.nodes:
        for directory in (process.tiers.memory_dir, process.tiers.disk_dir):
            assert os.stat(directory).st_mode & 0o777 == 0o700
        [file] = process.tiers.in_memory()
        assert os.stat(file).st_mode & 0o777 == 0o400
        assert os.stat(os.path.dirname(file)).st_mode & 0o777 == 0o700


def frame(**changes: int) -> bytes:
    """A request that is valid but for `changes`."""
    fields = {"magic": 0x46444C48, "version": 1, "op": 2, "flags": 0, "status": 0, "zero": 0,
              "meta": 0, "request": 1, "body": 0, "crc": 0, "deadline": 1000} | changes  # fmt: skip
    head = struct.pack("<IBBHHHIQQII", *fields.values())
    return head + struct.pack("<II", _core.crc32c(head), 0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (frame(magic=1), "wrong magic"),
        (frame(version=9), "version 9"),
        (frame(op=99), "unknown operation 99"),
        (frame(flags=0x8000), "unknown flags"),
        (frame(meta=1 << 30), "meta of 1073741824 bytes"),
        (frame(body=1 << 62), "body of 4611686018427387904 bytes"),
        (frame()[:20], "truncated frame"),
        (frame()[:-8] + struct.pack("<II", 1, 0), "does not match its checksum"),
        (frame(body=5) + b"hello", "a body where none is allowed"),
    ],
)
def test_a_malformed_frame_ends_its_connection_only(
    cluster: holdfast.LocalCluster, job: holdfast.Job, bad: bytes, reason: str
) -> None:
    path = cluster.nodes[0].member.socket.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(bad)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(10)
        while connection.recv(1000):
            pass
    wait_for_log(cluster, reason)
    job.objects.put("key", b"bytes", copies=4)
    assert job.objects.get("key") == b"bytes"
