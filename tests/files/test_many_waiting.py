"""Ten thousand calls that wait at one agent: what they cost it, and what goes on beside them."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from support.waits import wait_for

import holdfast
from holdfast import _core
from holdfast.client.messages import AgentStatus
from holdfast.files.broadcast import Broadcast, Progress
from holdfast.testing.countfs import CountingFS

encode = msgspec.msgpack.encode
PROCESSES, CLIENTS, CALLS = 4, 25, 100
WAITING = PROCESSES * CLIENTS * CALLS


@pytest.fixture
def nodes() -> int:
    return 1


def of_process(pid: int, field: str) -> int:
    """A number from /proc/PID/status: "VmRSS" is in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_ten_thousand_waiting_calls(
    backing: Path, storage: CountingFS, cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    agent = cluster.nodes[0].member
    key = (cluster.directory / "key").read_text()
    client = _core.AgentClient(bytes.fromhex(key))
    numbers = itertools.count()

    def beside() -> AgentStatus:
        """What others do meanwhile."""
        name = f"object {next(numbers)}"
        job.objects.put(name, bytes(100_000), copies=1)
        assert job.objects.get(name) == bytes(100_000)
        job.objects.drop(name)
        answer = client.call(agent.socket, "agent", "status", b"", deadline=60.0)
        return msgspec.msgpack.decode(answer, type=AgentStatus)

    (backing / "hangs").mkdir()
    (backing / "hangs" / "file").write_text("at last")
    order = encode(Broadcast(str(storage.at / "hangs").encode(), 0))
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
        assert now.counters["connections"] <= before.counters["connections"] + PROCESSES * CLIENTS
        grown = of_process(agent.pid, "VmRSS") - memory
        print(f"{WAITING} waiting calls: {grown} KiB")
        assert grown < 50_000
        # What goes on beside them may have started a thread of its own, or two.
        assert of_process(agent.pid, "Threads") <= threads + 2
        assert all(waiter.poll() is None for waiter in waiters)
        storage.heal()
        for waiter in waiters:
            assert waiter.stdout is not None
            assert waiter.stdout.read() == f"{CLIENTS * CALLS}\n"
    client.close()
