"""`holdfast up` on this machine: agents that are missing, and commands that meet."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from programs import SIZES, holdfast, limit_an_agent
from support.commands import HOLDFAST
from support.waits import wait_for

from holdfast import config, connect
from holdfast._core import AgentClient
from holdfast.client import contacts
from holdfast.client.contacts import Contacts
from holdfast.launch.starter import AGENT
from holdfast.membership.view import Entry, State, View
from holdfast.session import processes
from holdfast.session import session as sessions
from holdfast.session.session import AgentFile


@pytest.fixture
def session() -> Iterator[None]:
    holdfast("up", "--nodes", "3")
    yield
    subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)


def agent(node: str) -> AgentFile:
    agents = sessions.agents(sessions.directory(config.load().config))
    return next(agent for agent in agents if agent.member.node == node)


def kill(node: str) -> AgentFile:
    victim = agent(node)
    os.kill(victim.process.pid, signal.SIGKILL)
    assert processes.wait([victim.process], 10)
    return victim


def states() -> dict[str, str]:
    status = json.loads(holdfast("status", "--json"))
    return {node["node"]: node["answer"] for node in status["nodes"]}


def test_a_killed_agent_comes_back_as_a_new_member(session: None) -> None:
    with connect() as job:
        job.objects.put("key", b"x" * 100_000, copies=3)
    old = kill("node-1")
    assert states()["node-1"] == "gone"
    assert "started node-1." in holdfast("up", "--missing")
    assert states() == dict.fromkeys(["node-0", "node-1", "node-2"], "up")
    new = agent("node-1")
    assert new.member.number != old.member.number
    assert new.member.started > old.member.started
    # The others bring back what the old one held.
    wait_for(new.tiers.in_memory, "the copy did not come back")
    assert json.loads(holdfast("status", "--json"))["lost"] == ["node-1"]
    with connect() as job:
        assert job.objects.get("key") == b"x" * 100_000


def test_a_clock_that_was_set_back_keeps_no_node_out(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import time; now = time.time_ns; time.time_ns = lambda: now() + 3_600_000_000_000"
    )
    try:
        holdfast("up", "--nodes", "2", PYTHONPATH=str(tmp_path))
        old = kill("node-1")
        assert old.member.started > time.time_ns()
        assert "started node-1." in holdfast("up", "--missing")
        assert states() == {"node-0": "up", "node-1": "up"}
        assert agent("node-1").member.started > old.member.started
    finally:
        subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)


def test_an_agent_that_gives_way_says_so_and_the_command_fails() -> None:
    """Only one agent knows of a later life of the new node: none of those that are asked first."""
    try:
        holdfast("up", "--nodes", "2", "--set", "probe_period=30s")
        directory = sessions.directory(config.load().config)
        knowing = agent("node-1").member
        ahead = replace(knowing, node="node-2", number=1, started=time.time_ns() + 10**13)
        client = AgentClient(sessions.read_key(directory))
        contacts.join(client, [knowing], View([Entry(ahead, 0, State.DEAD)]), 30)
        error = holdfast("up", "--missing", "--nodes", "3", code=5)
        assert "the agent of node-2 did not start: a newer agent for node-2 started" in error
        assert "run the command again" in error
        log = directory / "node-2.log"
        wait_for(lambda: "a newer agent for node-2 started" in log.read_text(), log.read_text)
    finally:
        subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)


def test_nothing_is_started_where_nothing_is_missing(session: None) -> None:
    before = agent("node-0").member.number
    assert "every node has an agent; none was started" in holdfast("up", "--missing")
    assert agent("node-0").member.number == before


def test_a_session_grows(session: None) -> None:
    assert "started node-3, node-4." in holdfast("up", "--missing", "--nodes", "5")
    kill("node-4")
    assert "started node-4." in holdfast("up", "--missing")
    assert len(states()) == 5
    assert connect().nodes == [f"node-{index}" for index in range(5)]


def test_a_stopped_agent_is_not_replaced(session: None) -> None:
    stopped = agent("node-2")
    os.kill(stopped.process.pid, signal.SIGSTOP)
    kill("node-1")
    error = holdfast("up", "--missing", code=5)
    os.kill(stopped.process.pid, signal.SIGCONT)
    assert f"node-2 already has a running agent (process {stopped.process.pid})" in error
    assert "started: node-1" in error
    assert states() == dict.fromkeys(["node-0", "node-1", "node-2"], "up")


def test_of_two_commands_at_once_one_starts_the_session() -> None:
    both = [
        subprocess.Popen(
            [HOLDFAST, "up", "--nodes", "3"],
            env=os.environ | SIZES,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [one.communicate(timeout=90) for one in both]
    codes = sorted(one.returncode for one in both)
    assert codes in ([0, 2], [0, 5]), said  # it runs, or it is being started
    assert any("another command is" in err or "is running" in err for _, err in said)
    assert len(states()) == 3
    holdfast("down")


def test_a_start_that_was_cut_off_leaves_nothing_after_down() -> None:
    directory = sessions.directory(config.load().config)
    starting = subprocess.Popen(
        [HOLDFAST, "up", "--nodes", "8"], env=os.environ | SIZES, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: sessions.agents(directory), "no agent started")
    starting.kill()
    starting.wait()

    def nothing_is_left() -> bool:
        down = subprocess.run([HOLDFAST, "down"], capture_output=True, check=False)
        return down.returncode == 3 and not _left()

    # Its agents end by themselves if they see in time that nobody waits for them.
    wait_for(nothing_is_left, lambda: f"{_left()} are left")


def _left() -> list[str]:
    places = (os.environ["HOLDFAST_MEMORY_DIR"], os.environ["TMPDIR"])
    return [name for place in places for name in os.listdir(place) if name.startswith("holdfast")]


def test_an_agent_of_another_host_is_reached_over_the_network(session: None) -> None:
    from msgspec.structs import replace

    directory = sessions.directory(config.load().config)
    other = agent("node-1")
    far = replace(other, process=replace(other.process, boot="of another host"))
    sessions.write_agent(directory, far)  # as if the directory were shared
    contacts = Contacts(directory, 2.0)
    assert contacts.address(other.member) == other.member.address
    assert contacts.address(agent("node-0").member) == agent("node-0").member.socket
    assert not far.process.running
    sessions.write_agent(directory, other)


def test_agents_whose_session_directory_was_removed_end_and_leave_nothing(
    session: None, tmp_path: Path
) -> None:
    directory = sessions.directory(config.load().config)
    agents = sessions.agents(directory)
    directory.rename(tmp_path / "moved")  # with their logs, which we want to read
    holdfast("up", "--nodes", "1")  # another session in its place does not count
    ended = processes.wait([one.process for one in agents], 90)
    assert not processes.end([one.process for one in agents], 10)
    assert ended, "agents that no client can reach go on"
    for one in agents:
        log = (tmp_path / "moved" / f"{one.member.node}.log").read_text()
        assert "the session's directory was removed" in log
        assert not os.path.lexists(one.tiers.memory_dir)
    assert states() == {"node-0": "up"}


def test_where_no_session_is_nothing_can_be_missing() -> None:
    assert "`holdfast up` starts one" in holdfast("up", "--missing", code=3)


def test_the_last_words_of_an_agent_are_repeated_and_none_stays(tmp_path: Path) -> None:
    directory = sessions.directory(config.load().config)
    error = holdfast("up", "--nodes", "3", code=1, **limit_an_agent(tmp_path))
    assert re.search("the agent of node-. did not start: cannot create the attribute table", error)
    assert not directory.exists()


def test_an_agent_that_dies_at_once_is_named_with_its_last_words() -> None:
    error = holdfast("up", "--nodes", "9", code=1, PYTHONSTARTUP="", PYTHONPATH=_broken_resource())
    assert error.startswith("holdfast: the agents of 9 nodes did not start (node-0, node-1, ")
    assert error.endswith("; node-0: ImportError: broken on purpose\n")  # not mixed with others'


def test_the_last_words_of_an_agent_are_one_piece() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # where each write is seen
    with ours, theirs:
        environment = {**os.environ, "PYTHONPATH": _broken_resource()}
        subprocess.run(AGENT, stdin=subprocess.DEVNULL, stderr=theirs, env=environment, timeout=60)
        words = ours.recv(1 << 16)
    assert words.startswith(b"Traceback")
    assert words.endswith(b"ImportError: broken on purpose\n")


def _broken_resource() -> str:
    """A directory in which `resource`, which only agents need, cannot be imported."""
    place = os.path.join(os.environ["TMPDIR"], "broken")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "resource.py"), "w") as file:
        file.write("raise ImportError('broken on purpose')\n")
    return place
