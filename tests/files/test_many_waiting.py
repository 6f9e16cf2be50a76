"""Calls that wait at one agent, by thousands or in vain: their cost, and what goes on beside."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.settings import SETTINGS, config_of
from support.waits import wait_for

import holdfast
from holdfast import _core, errors
from holdfast.client.connection import Connection
from holdfast.client.messages import AgentStatus
from holdfast.files.broadcast import Broadcast, Progress
from holdfast.files.mount import everywhere
from holdfast.files.service import MountOrder
from holdfast.membership.view import Member, MembershipStatus
from holdfast.testing.countfs import CountingFS

encode = msgspec.msgpack.encode
PROCESSES, CLIENTS, CALLS = 4, 25, 100
WAITING = PROCESSES * CLIENTS * CALLS
#: So many threads and connections of an agent come with what others do beside that.
BESIDE = 10
#: More than an agent has threads for calls.
HANGING = 40
KEYS = [f"kept {number}" for number in range(30)]


@pytest.fixture
def nodes() -> int:
    return 3


@pytest.fixture
def settings() -> Mapping[str, Any]:
    """A busy machine makes nobody suspect."""
    return {**SETTINGS, "probe_period": "0.4 s"}


@pytest.fixture
def client(cluster: holdfast.LocalCluster) -> Iterator[_core.AgentClient]:
    made = _core.AgentClient(bytes.fromhex((cluster.directory / "key").read_text()))
    yield made
    made.close()


@pytest.fixture
def hanging(backing: Path, storage: CountingFS) -> Path:
    """A directory with a file, for which tests let the storage hang."""
    (backing / "hangs").mkdir()
    (backing / "hangs" / "file").write_text("at last")
    return storage.at / "hangs"


def of_process(pid: int, field: str) -> int:
    """A number from /proc/PID/status: "VmRSS" is in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def status(client: _core.AgentClient, member: Member) -> AgentStatus:
    answer = client.call(member.socket, "agent", "status", b"", deadline=60.0)
    return msgspec.msgpack.decode(answer, type=AgentStatus)


def beliefs(client: _core.AgentClient, member: Member) -> MembershipStatus:
    return status(client, member).of("membership", MembershipStatus)


def lose_a_node(
    cluster: holdfast.LocalCluster, job: holdfast.Job, client: _core.AgentClient
) -> None:
    """Kill node 2: the others see it, and have its copies again, and suspect nobody else."""
    rest = [node.member for node in cluster.nodes[:2]]
    for key in KEYS:
        job.objects.put(key, key.encode(), copies=2)
    before = [beliefs(client, member) for member in rest]
    cluster.kill(2)

    def whole() -> bool:
        views = [beliefs(client, member) for member in rest]
        if any(view.members != {"alive": 2, "suspect": 0, "lost": 1} for view in views):
            return False
        try:
            for key, member in itertools.product(KEYS, rest):
                client.stat(member.address, key.encode(), deadline=60.0)
        except errors.NotFound:
            return False
        return True

    wait_for(whole, "lost copies did not come back")
    after = [beliefs(client, member) for member in rest]
    # Whoever is suspected says that it lives, by a greater one.
    assert [one.incarnation for one in after] == [one.incarnation for one in before]


def test_ten_thousand_waiting_calls(
    hanging: Path,
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    client: _core.AgentClient,
) -> None:
    agent = cluster.nodes[0].member
    key = (cluster.directory / "key").read_text()
    numbers = itertools.count()

    def beside() -> AgentStatus:
        """What others do meanwhile."""
        name = f"object {next(numbers)}"
        job.objects.put(name, bytes(100_000), copies=1)
        assert job.objects.get(name) == bytes(100_000)
        job.objects.drop(name)
        return status(client, agent)

    order = encode(Broadcast(str(hanging).encode(), 0))
    with ExitStack() as stack:
        storage.hang("hangs", "open")
        stack.callback(storage.heal)
        client.call(agent.socket, "files", "broadcast", order, deadline=60.0)
        known = encode(Progress())  # then it finds the file, and comes no further
        known = client.wait(agent.socket, "files", "broadcasting", known, deadline=60.0).result()
        before = beside()
        memory, threads = of_process(agent.pid, "VmRSS"), of_process(agent.pid, "Threads")
        script = Path(__file__).with_name("waiters.py")
        waiters = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, script, key, address, known.hex(), str(CLIENTS), str(CALLS)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for address in (agent.socket, agent.address) * (PROCESSES // 2)
        ]
        for waiter in waiters:
            stack.callback(waiter.kill)  # a test that fails waits for none of them
        for waiter in waiters:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "waiting\n"
        wait_for(
            lambda: beside().counters["requests"] - before.counters["requests"] > WAITING,
            "the calls did not arrive",
        )
        now = beside()  # Python has taken those that came before
        more = now.counters["connections"] - before.counters["connections"]
        assert more <= PROCESSES * CLIENTS + BESIDE
        grown = of_process(agent.pid, "VmRSS") - memory
        print(f"{WAITING} waiting calls: {grown} KiB")
        assert grown < 48_828  # 50 MB
        assert of_process(agent.pid, "Threads") <= threads + BESIDE
        lose_a_node(cluster, job, client)
        assert all(waiter.poll() is None for waiter in waiters)
        storage.heal()
        for waiter in waiters:
            assert waiter.stdout is not None
            assert waiter.stdout.read() == f"{CLIENTS * CALLS}\n"


def test_calls_that_hang_hold_up_nobody(
    hanging: Path,
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    job: holdfast.Job,
    client: _core.AgentClient,
) -> None:
    """Restoring and joining have the same threads as the calls of programs."""
    agent, config = cluster.nodes[0].member, config_of(cluster)
    connection = Connection(cluster.directory, config)
    order = MountOrder("/", [str(hanging)], config)  # for which a storage is asked first of all
    threads = of_process(agent.pid, "Threads")
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(HANGING))
        storage.hang("hangs", "stat")
        stack.callback(connection.client.close)
        stack.callback(storage.heal)
        mount = partial(everywhere._mount_there, connection, agent, order)
        mounts = [pool.submit(mount) for _ in range(HANGING)]
        wait_for(
            lambda: of_process(agent.pid, "Threads") >= threads + HANGING, "they do not all hang"
        )
        lose_a_node(cluster, job, client)
        assert not any(one.done() for one in mounts)
        storage.heal()
        assert all("cannot mount at /" in one.result() for one in mounts)
