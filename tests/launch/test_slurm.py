"""A session in a real Slurm job: four nodes that die and return, all on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import programs
import pytest
from programs import BIN, from_page, limit_an_agent
from slurm import Slurm, missing, tasks, wait_for
from support.commands import HOLDFAST

from holdfast.session import session as sessions

CLIENT = Path(__file__).parent / "client.py"

pytestmark = pytest.mark.skipif(
    bool(missing()), reason=f"no {', '.join(missing())} here: `scripts/packages test` installs them"
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    cluster = Slurm(4)
    yield cluster
    cluster.close()


@pytest.fixture
def job(slurm: Slurm) -> Iterator[dict[str, str]]:
    """The environment of a shell in an allocation of all nodes."""
    with slurm.allocation(4, "--no-kill") as environment:
        yield environment
        subprocess.run([HOLDFAST, "down"], env=environment, capture_output=True, timeout=60)
    assert not slurm.processes(), "agents outlive their job"


def run(environment: dict[str, str], *command: str, code: int = 0, cwd: Path | None = None) -> str:
    return programs.run(*command, code=code, environment=environment, cwd=cwd)


def client(environment: dict[str, str], *arguments: str, nodes: int = 4) -> list[dict[str, str]]:
    """Run the client on every node as a user does, beside the agents."""
    srun = ["srun", "--overlap", f"--nodes={nodes}", "--ntasks-per-node=1"]
    output = run(environment, *srun, sys.executable, str(CLIENT), *arguments)
    return [json.loads(line) for line in output.splitlines()]


def states(environment: dict[str, str]) -> dict[str, str]:
    status = json.loads(run(environment, HOLDFAST, "status", "--json"))
    return {node["node"]: node["answer"] for node in status["nodes"]}


def roles(environment: dict[str, str]) -> list[str]:
    status = json.loads(run(environment, HOLDFAST, "status", "--json"))
    return [node["role"] for node in status["nodes"]]


def directory(environment: dict[str, str]) -> Path:
    name = f"slurm-{environment['SLURM_JOB_ID']}"
    return Path(environment["TMPDIR"]) / f"holdfast-{os.getuid()}" / name


def kill_agent(environment: dict[str, str], node: str) -> None:
    [agent] = [a for a in sessions.agents(directory(environment)) if a.member.node == node]
    os.kill(agent.process.pid, 9)


def test_a_job_has_an_agent_on_every_node_and_nothing_when_it_is_down(
    slurm: Slurm, job: dict[str, str]
) -> None:
    said = run(job, HOLDFAST, "up")
    assert f"Found Slurm job {job['SLURM_JOB_ID']} with 4 nodes: SLURM_JOB_ID is set." in said
    assert "4 agents are up" in said
    assert states(job) == dict.fromkeys(slurm.nodes, "up")
    racks = [node["rack"] for node in json.loads(run(job, HOLDFAST, "status", "--json"))["nodes"]]
    assert racks == ["top.left", "top.left", "top.right", "top.right"]  # Slurm's switches
    answers = client(job, "put-and-get")
    assert sorted(answer["through"] for answer in answers) == slurm.nodes
    assert all(answer["through"] == answer["on"] for answer in answers)
    key = sessions.read_key(directory(job)).hex()
    for pid in [*tasks(slurm.directory), "self"]:
        for name in ("cmdline", "environ"):
            assert key not in Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    assert "is running with 4 nodes" in run(job, HOLDFAST, "up", code=2)
    assert "has ended" in run(job, HOLDFAST, "down")
    assert not slurm.command("squeue", "-h", "-s"), "srun outlives its agents"
    assert not directory(job).exists()
    assert "nothing to end" in run(job, HOLDFAST, "down", code=3)


def test_a_node_dies_and_returns(slurm: Slurm, job: dict[str, str], tmp_path: Path) -> None:
    run(job, HOLDFAST, "up", "--staging", "2", "--spares", "1")
    before = roles(job)
    assert before == ["compute", "staging", "staging", "spare"]
    client(job, "put-and-get")
    slurm.kill("node3")
    slurm.command("scontrol", "update", "nodename=node3", "state=down", "reason=test")
    answers = client(job, "get", *slurm.nodes, nodes=3)
    assert sorted(answer["on"] for answer in answers) == ["node1", "node2", "node4"]
    assert states(job)["node3"] != "up"
    assert "every node has an agent" in run(job, HOLDFAST, "up", "--missing")

    slurm.boot("node3")
    slurm.command("scontrol", "update", "nodename=node3", "state=resume")
    said = run(job, "bash", "-e", "-c", from_page("slurm.md", "bash")[1], cwd=tmp_path)
    assert "started node3." in said
    assert states(job) == dict.fromkeys(slurm.nodes, "up")
    assert roles(job) == before
    assert sorted(answer["through"] for answer in client(job, "get", "node1")) == slurm.nodes
    run(job, HOLDFAST, "down")
    assert not slurm.command("squeue", "-h", "-s")


def test_a_daemon_that_dies_alone_takes_no_agent_with_it(slurm: Slurm, job: dict[str, str]) -> None:
    run(job, HOLDFAST, "up")
    client(job, "put-and-get")
    slurm.orphan("node3")
    assert states(job) == dict.fromkeys(slurm.nodes, "up")
    on_others = ["srun", "--overlap", "--nodes=3", "--ntasks=3", "--nodelist=node[1-2,4]"]
    output = run(job, *on_others, sys.executable, str(CLIENT), "get", *slurm.nodes)
    assert len(output.splitlines()) == 3
    slurm.boot("node3")
    wait_for(lambda: slurm.state("node3") == "alloc", "node3 is back")
    assert len(client(job, "get", *slurm.nodes)) == 4
    assert "has ended" in run(job, HOLDFAST, "down")
    assert not slurm.processes()


def test_an_agent_that_was_killed_comes_back(slurm: Slurm, job: dict[str, str]) -> None:
    run(job, HOLDFAST, "up")
    kill_agent(job, "node2")
    assert states(job)["node2"] == "gone"
    assert "started node2." in run(job, HOLDFAST, "up", "--missing")
    assert states(job) == dict.fromkeys(slurm.nodes, "up")
    assert len(client(job, "put-and-get")) == 4


def test_a_job_that_ends_without_down_leaves_nothing_that_the_next_does_not_remove(
    slurm: Slurm,
) -> None:
    with slurm.allocation(2) as job:
        run(job, HOLDFAST, "up")
        client(job, "put-and-get", nodes=2)
        [first, _] = sessions.agents(directory(job))
        assert os.path.exists(first.tiers.memory_dir)
    wait_for(lambda: not slurm.processes(), "agents end with their job")
    assert not os.path.exists(first.tiers.memory_dir)
    assert os.listdir(directory(job).parent) == [directory(job).name]
    with slurm.allocation(1) as another:
        run(another, HOLDFAST, "up")
        assert os.listdir(directory(job).parent) == [directory(another).name]
        run(another, HOLDFAST, "down")


def test_the_batch_script_of_the_page(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(from_page("slurm.md", "bash")[0])
    (tmp_path / "app.py").write_text(from_page("slurm.md", "py")[0])
    output = tmp_path / "output"
    slurm.command("sbatch", f"--chdir={tmp_path}", f"--output={output}", str(tmp_path / "job.sh"))
    wait_for(lambda: not slurm.command("squeue", "-h"), "the job ends")
    text = output.read_text()
    assert "with 3 nodes: SLURM_JOB_ID is set." in text
    assert sorted(re.findall(r"^rank \d went through (node\d)$", text, re.MULTILINE)) == [
        "node1",
        "node2",
        "node3",
    ]
    assert "has ended" in text


def test_if_an_agent_cannot_start_none_stays(
    slurm: Slurm, job: dict[str, str], tmp_path: Path
) -> None:
    limited = limit_an_agent(tmp_path, 'os.environ.get("SLURMD_NODENAME") == "node3"')
    error = run(job | limited, HOLDFAST, "up", code=1)
    assert "the agent of node3 did not start: cannot create the attribute table" in error
    assert not directory(job).exists()
    assert not slurm.processes()


def test_a_node_without_python_is_named(slurm: Slurm, job: dict[str, str]) -> None:
    broken = slurm.directory / "broken-node3"
    broken.touch()
    error = run(job, HOLDFAST, "up", code=1)
    broken.unlink()
    assert "the agent of node3 did not start: Exited with exit code 1; " in error
    assert "No module named 'encodings'" in error
    assert not directory(job).exists()
    assert not slurm.processes()


def test_mistakes(slurm: Slurm, job: dict[str, str]) -> None:
    assert "--nodes is for agents on one machine" in run(
        job, HOLDFAST, "up", "--nodes", "2", code=2
    )
    without = job | {"PATH": str(BIN)}
    assert "is not in PATH" in run(without, HOLDFAST, "up", code=2)
    step = ["srun", "--ntasks=4", "--kill-on-bad-exit=0"]
    assert "run it once, without srun" in run(job, *step, HOLDFAST, "up", code=2)
    too_many = ["--staging", "4", "--spares", "1"]
    assert "the session has 4 nodes, too few for 4" in run(job, HOLDFAST, "up", *too_many, code=2)
    here = run(job, HOLDFAST, "up", "--launcher", "local", "--nodes", "1")
    assert "Found this machine: the launcher 'local' was requested." in here
    run(job, HOLDFAST, "down")
