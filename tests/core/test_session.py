"""`holdfast up`, `down` and `status` as a person uses them, mistakes included."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import HOLDFAST, run
from support.waits import wait_for

import holdfast
from holdfast import config
from holdfast.session import processes
from holdfast.session import session as sessions


@pytest.fixture
def session() -> Iterator[str]:
    """A running session of two agents, ended whatever the test did to it."""
    run("up", "--nodes", "2")
    yield "local"
    subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)


def directory() -> Path:
    return sessions.directory(config.load().config)


def test_up_connect_status_down(session: str) -> None:
    with holdfast.connect() as job:
        job.objects.put("key", b"bytes" * 100_000, copies=2)
        assert job.objects.get("key") == b"bytes" * 100_000
    status = json.loads(run("status", "--json"))
    assert status["session"] == "local"
    assert [node["state"] for node in status["nodes"]] == ["alive", "alive"]
    assert [node["answer"] for node in status["nodes"]] == ["up", "up"]
    assert (status["views"], status["under_replicated"]) == (1, 0)
    assert status["window"] > 0
    assert [node["tiers"]["memory"]["objects"] for node in status["nodes"]] == [1, 1]
    assert sum(node["counters"]["puts"] for node in status["nodes"]) == 2
    shown = run("status")
    assert "node-1" in shown
    assert "All objects have the requested number of copies." in shown
    assert "Exposure after a node failure" in shown
    assert "has ended" in run("down")
    assert "`holdfast up` starts one" in run("status", code=3)
    assert "nothing to end" in run("down", code=3)


def test_a_session_that_runs_is_not_started_again(session: str) -> None:
    assert "is running with 2 nodes" in run("up", code=2)
    run("up", "--nodes", "1", "--session", "other")
    run("down", "--session", "other")


def test_what_a_crash_left_is_cleaned_up_at_the_next_start(session: str) -> None:
    with holdfast.connect() as job:
        job.objects.put("key", b"x" * 100_000, copies=2)
    agents = sessions.agents(directory())
    for agent in agents:
        os.kill(agent.process.pid, signal.SIGKILL)
    assert processes.wait([agent.process for agent in agents], 10)
    assert all(os.listdir(agent.tiers.memory_dir) for agent in agents)
    status = json.loads(run("status", "--json"))
    assert [node["answer"] for node in status["nodes"]] == ["gone", "gone"]
    assert "No agent answers" in run("status")
    assert "ended unexpectedly" in run("up", "--nodes", "2")
    assert [node["answer"] for node in json.loads(run("status", "--json"))["nodes"]] == ["up", "up"]


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(session: str) -> None:
    from msgspec.structs import replace

    first, _ = sessions.agents(directory())
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        fake = replace(first.process, pid=bystander.pid)
        assert not fake.running
        os.kill(first.process.pid, signal.SIGTERM)  # the real one, which nobody names any more
        assert processes.wait([first.process], 10)
        sessions.write_agent(directory(), replace(first, process=fake))
        run("down")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_stopped_agent_is_shown_as_silent_and_ends_with_down(session: str) -> None:
    process = sessions.agents(directory())[1].process
    os.kill(process.pid, signal.SIGSTOP)
    answers = [node["answer"] for node in json.loads(run("status", "--json"))["nodes"]]
    assert answers == ["up", "silent"]
    run("down")
    assert not process.running


def test_a_port_in_use_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run("up", "--nodes", "1", "--set", f"port={port}")
        (node,) = json.loads(run("status", "--json"))["nodes"]
        assert not node["address"].endswith(f":{port}")
        run("down")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["up", "--nodes", "0"], 2, "1 to 1024"),
        (["up", "--memory", "lots"], 2, "is not a size"),
        (["up", "--session", "a/b"], 2, "is not a valid name"),
        (
            ["up", "--set", "deadlin=3"],
            2,
            "there is no setting 'deadlin'; did you mean 'deadline'?",
        ),
        (["up", "--set", "virtual_nodes=0"], 2, "use at least 1"),
        (["up", "--set", "colour"], 2, "write it like"),
        (["up", "--set", "memory_dir=/nowhere"], 2, "cannot keep a tier below /nowhere"),
        (["up", "--set", "listen=localhost"], 2, "is not a numeric address"),
        (["up", "--set", "run_dir=/proc/nowhere"], 2, "set another run_dir"),
        (["up", "--set", "listen=192.0.2.1"], 1, "cannot listen"),
        (["status", "--session", "nobody"], 3, "no session 'nobody'"),
        (["demo", "nothing"], 2, "no demo 'nothing'"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_mistakes_get_a_sentence_and_leave_nothing(
    arguments: list[str], code: int, message: str
) -> None:
    error = run(*arguments, code=code)
    assert message in " ".join(error.split())
    parent = directory().parent
    assert not parent.exists() or not os.listdir(parent)
    if parent.exists():
        parent.rmdir()


def test_config_show_says_where_a_value_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEADLINE", "9 s")
    shown = {one["name"]: one for one in json.loads(run("config", "show", "--json"))}
    assert shown["deadline"]["value"] == "9 s"
    assert shown["deadline"]["origin"] == "HOLDFAST_DEADLINE"
    assert "HOLDFAST_DEADLINE" in run("config", "show", "--origin")


def test_a_directory_that_the_user_made_stays() -> None:
    with tempfile.TemporaryDirectory() as mine:  # a short path: sockets lie below it
        run("up", "--nodes", "1", "--set", f"run_dir={mine}")
        run("down", "--set", f"run_dir={mine}")
        assert os.path.isdir(mine)
        with holdfast.local_cluster(nodes=1, run_dir=f"{mine}/made") as cluster:
            assert str(cluster.directory.parent) == f"{mine}/made"


def test_version() -> None:
    assert run("--version") == run("version") == f"holdfast {holdfast.__version__}\n"
    assert json.loads(run("version", "--json")) == {"version": holdfast.__version__}


def test_agents_end_when_the_program_that_started_them_is_killed() -> None:
    code = (
        "import holdfast, os, time; cluster = holdfast.local_cluster(nodes=2); "
        "print(cluster.directory, *(n.pid for n in cluster.nodes), flush=True); time.sleep(60)"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    place, *pids = program.stdout.readline().split()
    agents = sessions.agents(Path(place))
    program.kill()
    program.wait()
    program.stdout.close()
    wait_for(
        lambda: not any(processes.start_time(int(pid)) for pid in pids),
        "agents outlive the program",
    )
    wait_for(lambda: not os.path.exists(place), "their directory outlives the program")
    assert not any(os.path.exists(agent.tiers.memory_dir) for agent in agents)
