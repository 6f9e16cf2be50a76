"""Large puts through files that the own node's agent hands to the program: who dies, and when."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from support.counters import counted, nodes_of
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.client.fault_points import FaultPoint, arm
from holdfast.testing.faults import Faults
from holdfast.testing.injector import inject

SIZE = 8 << 20
STAGES = ["hand", "writing", "close", "seal"]
#: Of silence, that a program bears.
BEARS = 0.5


def key_owned(job: holdfast.Job, *nodes: int) -> str:
    """A key that nobody has used, whose first owners are these nodes."""
    while True:
        key = f"handed-{next(_numbers)}"
        owners = job._connection.routing.owners.of(key.encode(), len(nodes))
        if [member.node for member in owners] == [f"node-{node}" for node in nodes]:
            return key


_numbers = itertools.count()


@pytest.fixture
def agents() -> Iterator[holdfast.LocalCluster]:
    """Agents that nobody kills."""
    with holdfast.local_cluster(nodes=2, memory="128 MiB", disk="128 MiB") as cluster:
        yield cluster


@pytest.fixture
def client(agents: holdfast.LocalCluster) -> Iterator[holdfast.Job]:
    """Somebody else on the same node."""
    with agents.connect(0) as job:
        yield job


@contextmanager
def program(
    agents: holdfast.LocalCluster, key: str, stage: str, bears: float = BEARS
) -> Iterator[subprocess.Popen[str]]:
    """A program of node 0 that has come to that stage."""
    member = agents.nodes[0].member
    script = Path(__file__).with_name("handed_program.py")
    arguments = (member.socket, key, member.number, SIZE, stage, bears)
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(script.parents[1])},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{stage}\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def nothing_reserved(agents: holdfast.LocalCluster) -> bool:
    return all(node.tiers["memory"]["reserved"] == 0 for node in nodes_of(agents).values())


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_a_program_that_is_killed_leaves_neither_room_nor_key_taken(
    agents: holdfast.LocalCluster, client: holdfast.Job, stage: str
) -> None:
    key, data = key_owned(client, 0), os.urandom(SIZE)
    with program(agents, key, stage) as process:
        assert not nothing_reserved(agents)
        process.kill()
        wait_for(lambda: nothing_reserved(agents))
    client.objects.put(key, data, copies=1)
    assert client.objects.get(key) == data


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_a_program_that_is_stopped_holds_nobody_up(
    agents: holdfast.LocalCluster, client: holdfast.Job, stage: str
) -> None:
    key, data = key_owned(client, 0), os.urandom(SIZE)
    with program(agents, key, stage) as process:
        process.send_signal(signal.SIGSTOP)
        client.objects.put(key, data, copies=1)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate("go on\n", timeout=60)
        assert output == "Busy\n"  # what it wrote went nowhere
    assert client.objects.get(key) == data
    assert nothing_reserved(agents)


@pytest.mark.parametrize("action", [signal.SIGKILL, signal.SIGSTOP])
def test_a_program_that_is_hurt_while_its_file_is_sealed(
    agents: holdfast.LocalCluster, client: holdfast.Job, action: signal.Signals
) -> None:
    key = key_owned(client, 0)
    core, member = client._connection.client, agents.nodes[0].member
    arm(core, member.socket, FaultPoint("seal", "stop"), 5.0)
    with program(agents, key, "seal") as process:
        wait_for(lambda: "State:\tT" in Path(f"/proc/{member.pid}/status").read_text())
        process.send_signal(action)
        agents.resume(0)
        wait_for(lambda: nothing_reserved(agents))
        assert client.objects.get(key) == b"b" * SIZE  # it was asked for, so it may be there
        client.objects.put(key, b"b" * SIZE, copies=1)
        with pytest.raises(errors.KeyExists):
            client.objects.put(key, b"c" * SIZE, copies=1)


def test_what_a_program_goes_on_with_is_sealed(
    agents: holdfast.LocalCluster, client: holdfast.Job
) -> None:
    for stage in STAGES:
        key = key_owned(client, 0)
        with program(agents, key, stage) as process:
            output, _ = process.communicate("go on\n", timeout=60)
        assert output == "sealed\n"
        assert client.objects.get(key) == b"b" * SIZE


def test_a_program_without_a_free_descriptor_puts_through_its_connection(
    agents: holdfast.LocalCluster, client: holdfast.Job
) -> None:
    key, data = key_owned(client, 0), os.urandom(SIZE)
    client.objects.put(f"{key}-before", b"bytes", copies=1)  # so that there is a connection
    sealed, held = counted(agents, "sealed"), []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        client.objects.put(key, data, copies=1)
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert client.objects.get(key) == data
    assert counted(agents, "sealed") == sealed


def test_a_limit_of_the_sizes_of_files_does_not_limit_objects(
    agents: holdfast.LocalCluster,
) -> None:
    with agents.connect(0) as job:
        key = key_owned(job, 0, 1)
    script = (
        "import pathlib, resource, holdfast.config\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        f"directory = pathlib.Path({str(agents.directory)!r})\n"
        "with holdfast.Job(directory, holdfast.config.load().config, 'node-0') as job:\n"
        f"    job.objects.put({key!r}, b'x' * {SIZE})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    with agents.connect(1) as job:
        assert job.objects.get(key) == b"x" * SIZE


def test_a_full_tier_refuses_as_for_any_put(
    agents: holdfast.LocalCluster, client: holdfast.Job
) -> None:
    key = key_owned(client, 0)
    with pytest.raises(errors.Full, match="node-0: the memory tier"):
        client.objects.put(key, bytes(200 << 20), copies=1)
    with pytest.raises(errors.Full, match="node-0: the disk tier"):
        client.objects.put(key, bytes(200 << 20), copies=1, tier="disk")
    assert nothing_reserved(agents)
    client.objects.put(key, bytes(SIZE), copies=1)


def test_off_means_through_the_socket(agents: holdfast.LocalCluster, client: holdfast.Job) -> None:
    data = os.urandom(SIZE)
    for hand, more in ((True, 1), (False, 0)):
        before = counted(agents, "sealed")
        config = msgspec.structs.replace(agents.config, hand=hand)
        with holdfast.Job(agents.directory, config, "node-0") as job:
            key = key_owned(job, 0, 1)
            job.objects.put(key, data)
        assert counted(agents, "sealed") - before == more
        assert client.objects.get(key) == data
    assert counted(agents, "seal_copied") == 0


@pytest.mark.parametrize(
    ("action", "node", "stage"),
    [
        ("kill", 0, "hand"),
        ("stop", 0, "hand"),
        ("kill", 0, "seal"),
        ("stop", 0, "seal"),
        ("kill", 0, "chain"),
        ("stop", 1, "put"),
        ("kill", 1, "put"),
    ],
)
def test_an_agent_that_is_hurt(action: str, node: int, stage: str) -> None:
    hurt = getattr(Faults(), action)(node, at=stage)
    plan = hurt.restart(node) if action == "kill" else hurt.wait(0.3).resume(node)
    data = os.urandom(SIZE)
    with (
        holdfast.local_cluster(nodes=3, memory="256 MiB", disk="64 MiB") as cluster,
        cluster.connect(0) as job,
    ):
        key = key_owned(job, 0, 1)
        with inject(plan, cluster) as report:
            end = time.monotonic() + 30
            while True:
                try:
                    job.objects.put(key, data)
                    break
                except errors.TryAgain:
                    assert time.monotonic() < end, "it was never acknowledged"
        assert report.stages[stage] == 1
        assert job.objects.get(key) == data
        wait_for(lambda: nothing_reserved(cluster))


@pytest.mark.parametrize("stage", ["writing", "close"])
def test_an_agent_that_is_killed_while_a_program_has_its_file(
    agents: holdfast.LocalCluster, stage: str
) -> None:
    other = os.urandom(SIZE)
    with agents.connect(0) as job:
        key = key_owned(job, 0)
    with program(agents, key, stage) as process:
        agents.kill(0)
        output, _ = process.communicate("go on\n", timeout=60)
    assert output == "nobody there\n"
    agents.restart(0)
    with agents.connect(0) as job:
        job.objects.put(key, other, copies=1)  # nobody was promised anything
        assert job.objects.get(key) == other
    assert nothing_reserved(agents)


@pytest.mark.parametrize("stage", ["writing", "close"])
def test_an_agent_that_is_stopped_while_a_program_has_its_file(
    agents: holdfast.LocalCluster, client: holdfast.Job, stage: str
) -> None:
    key = key_owned(client, 0)
    with program(agents, key, stage, bears=60.0) as process:
        agents.stop(0)
        assert process.stdin is not None
        process.stdin.write("go on\n")  # it needs nobody before it asks for the seal
        process.stdin.flush()
        time.sleep(0.3)
        assert process.poll() is None
        agents.resume(0)
        output, _ = process.communicate(timeout=60)
    assert output == "sealed\n"
    assert client.objects.get(key) == b"b" * SIZE
    assert nothing_reserved(agents)


def test_a_header_goes_with_a_file_that_was_handed(
    agents: holdfast.LocalCluster, client: holdfast.Job
) -> None:
    objects, key, data = client.objects, key_owned(client, 0, 1), os.urandom(SIZE)
    sealed = counted(agents, "sealed")
    objects.put(key, data, copies=2, header=b"box 1")
    assert counted(agents, "sealed") == sealed + 1
    objects.put(key, data, copies=2, header=b"box 1")
    for header in (b"", b"box 2"):
        with pytest.raises(errors.KeyExists):
            objects.put(key, data, copies=2, header=header)
    assert objects.stat(key).header == b"box 1"
    assert [info.header for info in objects.list(key)] == [b"box 1"]
    os.kill(agents.nodes[0].member.pid, signal.SIGKILL)
    with agents.connect(1) as other:
        wait_for(lambda: other.objects.stat(key).header == b"box 1")
        assert other.objects.get(key) == data
