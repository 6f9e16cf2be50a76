"""`mpiexec holdfast up`: one agent per host, whatever the number of ranks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import BIN, from_page, holdfast, limit_an_agent, run
from support.commands import HOLDFAST

from holdfast import connect

AS_ROOT = ["--allow-run-as-root"] if os.getuid() == 0 else []

#: Runs a command as on a host of that name, with temporary files of its own.
SSH = """#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
export TMPDIR={directory}/$host
exec unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
"""


def mpiexec(place: Path, *options: str) -> list[str]:
    command = shutil.which("mpiexec", path=str(BIN)) or "mpiexec"
    # Ranks that end early leave shared memory behind: it goes with the directory.
    shared = ["--mca", "btl_sm_backing_directory", str(place)]
    return [command, *AS_ROOT, *shared, *options]


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # short: sockets lie below it
        yield Path(name)
        subprocess.run([HOLDFAST, "down"], capture_output=True, timeout=60)


@pytest.fixture
def two_hosts(place: Path) -> list[str]:
    """The start of a command that runs on four ranks of two hosts."""
    if os.getuid() != 0:
        pytest.skip("hosts of other names need root")
    ssh = place / "ssh"
    ssh.write_text(SSH.format(directory=place))
    ssh.chmod(0o755)
    for host in ("alpha", "beta"):
        (place / host).mkdir()
    hosts = ["--prtemca", "plm_ssh_agent", str(ssh), "--host", "alpha:2,beta:2", "-n", "4"]
    return mpiexec(place, *hosts)


def test_several_ranks_on_one_host_start_one_agent(place: Path) -> None:
    said = run(*mpiexec(place, "--oversubscribe", "-n", "3"), HOLDFAST, "up")
    assert "Found Open MPI with 3 ranks: OMPI_COMM_WORLD_RANK is set." in said
    assert said.count("1 agent is up") == 1
    with connect() as job:
        assert job.node == os.uname().nodename.partition(".")[0]
        job.objects.put("key", b"bytes", copies=1)
    program = "import holdfast; print(holdfast.connect().objects.get('key'))"
    again = run(*mpiexec(place, "--oversubscribe", "-n", "2"), sys.executable, "-c", program)
    assert again.split() == ["b'bytes'"] * 2
    error = run(*mpiexec(place, "--oversubscribe", "-n", "2"), HOLDFAST, "up", code=2)
    assert error.count("is running with 1 nodes") == 1
    error = run(*mpiexec(place, "--oversubscribe", "-n", "2"), HOLDFAST, "up", "--missing", code=2)
    assert "mpiexec cannot add agents to a session; use `holdfast up --missing --hostfile" in error
    holdfast("down")
    error = run(*mpiexec(place, "-n", "2"), HOLDFAST, "up", "--spares", "1", code=2)
    assert (
        error.count("the session has 1 node; with 1 spare no node would be left to store objects")
        == 1
    )


def test_two_hosts(place: Path, two_hosts: list[str]) -> None:
    started = json.loads(run(*two_hosts, HOLDFAST, "up", "--staging", "1", "--json"))
    assert [member["node"] for member in started["members"]] == ["alpha", "beta"]
    assert [member["host"] for member in started["members"]] == ["alpha", "beta"]
    assert [member.get("role") for member in started["members"]] == [None, "staging"]
    on_alpha = {"TMPDIR": str(place / "alpha")}  # home: the first rank was there
    code = "import holdfast; j = holdfast.connect(); j.objects.put('k', b'x', copies=2); print(j)"
    assert run(sys.executable, "-c", code, **on_alpha) == "<Job through alpha of 2 nodes>\n"
    on_beta = {"TMPDIR": str(place / "beta")}
    assert "<Job through beta" in run(sys.executable, "-c", code, **on_beta)
    holdfast("down", **on_alpha)
    assert not list(place.glob("*/holdfast-*")), "directories of the session are left"


def test_if_one_host_fails_no_agent_stays(place: Path, two_hosts: list[str]) -> None:
    limited = limit_an_agent(place, 'os.uname().nodename == "beta"')
    error = run(*two_hosts, HOLDFAST, "up", code=1, **limited)
    assert error.count("the agent of beta did not start: cannot create the attribute table") == 1
    assert not list(place.glob("*/holdfast-*"))


def test_the_commands_of_the_page(place: Path) -> None:
    (place / "app.py").write_text("import holdfast; print(holdfast.connect())")
    allow = dict.fromkeys(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"], "1")
    more = allow | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "OMPI_MCA_btl_sm_backing_directory": str(place),
    }
    script = from_page("hosts.md", "bash")[1]
    said = run("bash", "-e", "-c", script, cwd=place, **more)
    assert "of 1 nodes>" in said
    assert "has ended" in said
