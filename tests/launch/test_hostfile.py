"""Agents on the hosts of a file, started through a real ssh server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh
from programs import BIN, from_page, holdfast, run
from support.commands import HOLDFAST

from holdfast import connect
from holdfast.errors import NotEnoughNodes
from holdfast.session import processes
from holdfast.session import session as sessions
from holdfast.session.session import AgentFile

pytestmark = pytest.mark.skipif(
    bool(ssh.missing()),
    reason=f"no {', '.join(ssh.missing())} here: `scripts/packages test` installs it",
)


class Hosts:
    """Two hosts that can be reached, and a file that lists them."""

    def __init__(self, directory: Path, command: str) -> None:
        self.directory = directory
        self.file = directory / "hosts"
        self.file.write_text("alpha rack=r1\nbeta rack=r2\n")
        self.up = ["up", "--hostfile", str(self.file), "--set", f"ssh={command}"]
        self.up += ["--set", "listen=127.0.0.1"]

    def sessions(self, host: str) -> Path:
        return self.directory / host / f"holdfast-{os.getuid()}"

    def agent(self, host: str) -> AgentFile:
        [agent] = sessions.agents(self.sessions(host) / "local")
        return agent

    def kill(self, host: str) -> None:
        victim = self.agent(host).process
        os.kill(victim.pid, signal.SIGKILL)
        assert processes.wait([victim], 10)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with tempfile.TemporaryDirectory() as name:  # short: sockets lie below it
        directory = Path(name)
        with ssh.server(directory, ["alpha", "beta"]) as command:
            made = Hosts(directory, command)
            yield made
            subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)
            left = [host for host in ("alpha", "beta") if made.sessions(host).exists()]
            assert not left, f"a session is left on {left}"


def test_agents_on_hosts_that_share_nothing(hosts: Hosts) -> None:
    started = json.loads(holdfast(*hosts.up, "--staging", "1", "--json"))
    assert started["found"] == f"2 hosts in {hosts.file}"
    labels = [(m["node"], m.get("rack"), m.get("role", "compute")) for m in started["members"]]
    assert labels == [("alpha", "r1", "compute"), ("beta", "r2", "staging")]
    assert not sessions.agents(sessions.directory(_config())), "no agent runs at home"
    with connect() as job:  # over the network, since no agent is here
        assert job.nodes == ["alpha", "beta"]
        job.objects.put("key", b"x" * 100_000, copies=2)
    code = "import holdfast; j = holdfast.connect(); print(j.node, len(j.objects.get('key')))"
    on_beta = run(sys.executable, "-c", code, TMPDIR=str(hosts.directory / "beta"))
    assert on_beta == "beta 100000\n"
    assert "is running with 2 nodes" in holdfast(*hosts.up, code=2)
    holdfast("down")
    assert not hosts.sessions("alpha").exists()
    assert not any(Path(os.environ["HOLDFAST_MEMORY_DIR"]).iterdir())


def _config():  # type: ignore[no-untyped-def]
    from holdfast import config

    return config.load().config


def test_a_spare_serves_programs_and_owns_nothing(hosts: Hosts) -> None:
    holdfast(*hosts.up, "--spares", "1")
    with connect(node="beta") as job:
        for number in range(20):
            job.objects.put(f"key-{number}", b"bytes", copies=1)
        with pytest.raises(NotEnoughNodes, match="2 copies need as many nodes"):
            job.objects.put("two", b"bytes", copies=2)
        assert job.objects.get("key-7") == b"bytes"
    status = json.loads(holdfast("status", "--json"))
    seen = [
        (node["node"], node["role"], node["rack"], node["tiers"]["memory"]["objects"])
        for node in status["nodes"]
    ]
    assert seen == [("alpha", "compute", "r1", 20), ("beta", "spare", "r2", 0)]


def test_a_host_returns_and_another_joins(hosts: Hosts) -> None:
    hosts.file.write_text("alpha\n")
    holdfast(*hosts.up, "--staging", "1")
    hosts.file.write_text("alpha\nbeta\n")
    assert "started beta." in holdfast("up", "--missing")
    with connect() as job:
        job.objects.put("key", b"x" * 100_000, copies=2)
    held = hosts.agent("alpha").tiers.memory_dir
    hosts.kill("alpha")
    left = {entry.inode() for entry in os.scandir(held)}
    assert left
    assert "started alpha." in holdfast("up", "--missing")
    nodes = json.loads(holdfast("status", "--json"))["nodes"]
    assert [node["role"] for node in nodes] == ["staging", "compute"], "beta came later"
    # It may have its share again by now, but in files of its own.
    assert not left & {entry.inode() for entry in os.scandir(held)}
    with connect() as job:
        assert job.objects.get("key") == b"x" * 100_000


def test_what_a_session_left_on_its_hosts_is_removed_by_the_next(hosts: Hosts) -> None:
    holdfast(*hosts.up)
    with connect() as job:
        job.objects.put("key", b"x" * 100_000, copies=2)
    hosts.kill("alpha")
    hosts.kill("beta")
    sessions.clear(sessions.directory(_config()))  # home was lost too
    assert "2 agents are up" in holdfast(*hosts.up)


def test_a_session_of_the_same_name_from_another_home_is_refused(hosts: Hosts) -> None:
    holdfast(*hosts.up)
    with tempfile.TemporaryDirectory() as other:
        error = holdfast(*hosts.up, code=2, TMPDIR=other)
        assert (
            "the agents of 2 nodes did not start (alpha, beta); alpha: session 'local' is" in error
        )
        assert "is running with 1 nodes on" in error
        assert not os.listdir(other)
    with connect() as job:
        assert job.nodes == ["alpha", "beta"]


def test_a_host_that_cannot_be_reached_is_named_and_none_stays(hosts: Hosts) -> None:
    hosts.file.write_text("alpha\n127.0.0.99\n")
    error = holdfast(*hosts.up, code=1)
    assert "the agent of 127.0.0.99 did not start: ssh: connect to host 127.0.0.99 port" in error
    assert not hosts.sessions("alpha").exists()


def test_a_command_that_is_not_there(hosts: Hosts) -> None:
    error = holdfast(*hosts.up, "--set", "ssh=no-such-ssh", code=2)
    assert "there is no command 'no-such-ssh'; set `ssh`" in error


def test_the_host_file_of_the_page() -> None:
    text, command = from_page("hosts.md", "text")[0], from_page("hosts.md", "bash")[0]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "hosts").write_text(text)
        with ssh.server(directory, ["node01", "node02", "node03"]) as reach:
            shell = ["bash", "-c", command]
            path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
            said = run(*shell, cwd=directory, HOLDFAST_SSH=reach, PATH=path)
            assert "3 agents are up" in said
            again = ["bash", "-c", from_page("hosts.md", "bash")[2]]
            assert "every node has an agent" in run(*again, cwd=directory, PATH=path)
            holdfast("down")
