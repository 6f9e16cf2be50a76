"""`holdfast status --watch`, for people and for programs, and OpenMetrics."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import cast

import pytest
from support.commands import HOLDFAST

import holdfast

STATES = ("alive", "suspect", "lost")
TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

#: Asks many at once, again and again, while another process interrupts it; each Ctrl-C is to come
#: through, and no thread is to stay.
INTERRUPTED = """
import os, signal, threading, time
from holdfast.client.contacts import at_once

wanted, sent, caught, armed = 2000, 0, 0, False

def interrupt(number, frame):
    global sent, armed
    if armed:
        armed, sent = False, sent + 1
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
parent = os.getpid()
sender = os.fork()
if sender == 0:
    while os.getppid() == parent:
        time.sleep(0.0005)
        os.kill(parent, signal.SIGINT)
    os._exit(0)
while sent < wanted:
    try:
        armed = True
        at_once(str, range(4))
        armed = False
    except KeyboardInterrupt:
        caught += 1
os.kill(sender, signal.SIGKILL)
os.waitpid(sender, 0)
print(sent - caught, threading.active_count())
"""


@contextlib.contextmanager
def watching(
    cluster: holdfast.LocalCluster, *options: str, out: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Watch a cluster with the command, which writes to `out`."""
    run_dir, session = os.path.split(cluster.directory)
    where = ("--session", session, "--set", f"run_dir={run_dir}")
    # Whoever runs in the background, and we may, is started with Ctrl-C ignored.
    heeding = ("env", "--default-signal=INT", HOLDFAST)
    process = subprocess.Popen(
        [*heeding, "status", "--watch", *where, *options], stdout=out, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def states(line: bytes) -> dict[str, str]:
    return {node["node"]: node["state"] for node in json.loads(line)["nodes"]}


@pytest.fixture
def cluster() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=2, probe_period="100 ms") as cluster:
        yield cluster


def test_no_interruption_is_lost_and_none_leaves_a_thread_behind() -> None:
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout == "0 1\n"


def test_a_program_gets_a_line_of_json_each_time(cluster: holdfast.LocalCluster) -> None:
    with watching(cluster, "--json", out=subprocess.PIPE) as process:
        assert process.stdout
        assert set(states(process.stdout.readline()).values()) == {"alive"}
        cluster.kill(1)
        seen = (states(process.stdout.readline()) for _ in range(60))
        assert any(state["node-1"] == "dead" for state in seen)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr
        assert process.stderr.read() == b""


def test_watching_ends_when_nobody_reads(cluster: holdfast.LocalCluster) -> None:
    with watching(cluster, "--json", out=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 1
        assert process.stderr
        assert b"Traceback" not in process.stderr.read()


def test_a_person_sees_the_table_anew(cluster: holdfast.LocalCluster) -> None:
    ours, theirs = pty.openpty()
    try:
        with watching(cluster, out=theirs):
            shown = b""
            while shown.count(b"Exposure after a node failure") < 3:
                shown += os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"node-1" in shown
    assert b"\x1b[" in shown  # it is drawn over what was shown before


def parse(text: str) -> dict[str, dict[str, float]]:
    """Read OpenMetrics strictly: the samples of each family, by their labels."""
    *lines, end, rest = text.split("\n")
    assert (end, rest) == ("# EOF", "")
    families: dict[str, dict[str, float]] = {}
    name = kind = ""
    for line in lines:
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name not in families, f"{name} comes twice"
            assert kind in ("counter", "gauge")
            families[name] = {}
        else:
            sample, value = line.split(" ")
            metric, _, labels = sample.partition("{")
            assert metric == (f"{name}_total" if kind == "counter" else name)
            assert labels.endswith('"}')
            families[name][labels.removesuffix("}")] = float(value)
    return families


def free_ports(count: int) -> int:
    """Return the first of so many ports in a row that nobody listens on."""
    for first in range(20_000, 30_000, count):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError("no ports are free")


def scrape(port: int, authorization: str) -> HTTPResponse:
    headers = {"Authorization": authorization} if authorization else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    return cast(HTTPResponse, urllib.request.urlopen(request))


def test_metrics_are_on_a_port_and_at_the_end_in_a_file(tmp_path: Path) -> None:
    port = free_ports(2)
    settings = {"metrics_port": port, "metrics_file": str(tmp_path / "{node}.prom")}
    with holdfast.local_cluster(nodes=2, staging=1, **settings) as cluster:
        job = cluster.connect()
        job.objects.put("key", bytes(100_000), copies=2)
        job.objects.get("key")
        token = cluster.directory / "metrics-token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        for wrong in ("", "Bearer", "Bearer x", f"Basic {token.read_text()}", "Bearer \xff"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                scrape(port, wrong)
        for index in range(2):
            with scrape(port + index, f"Bearer {token.read_text()}") as answer:
                assert answer.headers["Content-Type"] == TYPE
                families = parse(answer.read().decode())
            node = f'node="node-{index}"'
            assert families["holdfast_tier_objects"][f'{node},tier="memory"'] == 1
            assert families["holdfast_tier_bytes"][f'{node},tier="memory"'] == 100_000
            assert families["holdfast_puts"][node] == 1
            assert families["holdfast_restoring_under_replicated"][node] == 0
            members = {s: families["holdfast_members"][f'{node},state="{s}"'] for s in STATES}
            assert members == {"alive": 2, "suspect": 0, "lost": 0}
            assert families["holdfast_incarnation"][node] == 0
            role = ("compute", "staging")[index]
            assert families["holdfast_role"] == {f'{node},role="{role}"': 1}
            assert families["holdfast_detection_seconds"][node] > 0
        assert not list(tmp_path.iterdir())  # not before the end
    at_the_end = {path.name: parse(path.read_text()) for path in tmp_path.iterdir()}
    assert set(at_the_end) == {"node-0.prom", "node-1.prom"}
    gets = [families["holdfast_gets"] for families in at_the_end.values()]
    assert sum(value for samples in gets for value in samples.values()) == 1


def test_agents_run_where_metrics_cannot_be_offered(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        missing = str(tmp_path / "missing" / "{node}")
        with holdfast.local_cluster(nodes=1, metrics_port=port, metrics_file=missing) as cluster:
            job = cluster.connect()
            job.objects.put("key", b"bytes", copies=1)
            log = Path(cluster.directory, "node-0.log")
            assert f"cannot serve metrics on port {port}: Address already in use" in log.read_text()
            assert job.objects.get("key") == b"bytes"
