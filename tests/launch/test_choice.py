"""Which launcher is chosen, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import holdfast

from holdfast import config
from holdfast.errors import BadInput
from holdfast.launch import launchers
from holdfast.launch.launchers import hostfile
from holdfast.session import addresses, node

SLURM = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_NODELIST": "n[1-4]"}
OMPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8"}


def settings(**arguments: object) -> config.Config:
    return config.load(arguments=arguments).config


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text("# ours\nhost-1 rack=r1\n\nhost-2 slots=4  # new\n")
    return path


def test_what_is_found_and_why(hosts: Path) -> None:
    found = launchers.choose(settings(), {})[1]
    assert (found.what, found.why) == (
        "this machine",
        "there is no host file, Open MPI or Slurm job",
    )
    launcher, found = launchers.choose(settings(), SLURM)
    assert launcher.name == "slurm"
    assert (found.what, found.why) == ("Slurm job 17 with 4 nodes", "SLURM_JOB_ID is set")
    launcher, found = launchers.choose(settings(hostfile=str(hosts)), SLURM | OMPI)
    assert launcher.name == "hostfile"
    assert (found.what, found.why) == (f"2 hosts in {hosts}", "a host file was given")
    found_by_mpi = launchers.LAUNCHERS["openmpi"].detect(settings(), OMPI)
    assert found_by_mpi
    assert found_by_mpi.what == "Open MPI with 8 ranks"


def test_the_user_overrides_what_is_found() -> None:
    launcher, found = launchers.choose(settings(launcher="local"), SLURM, 2)
    assert launcher.name == "local"
    assert found.why == "the launcher 'local' was requested"
    assert launcher.nodes(()) == ("node-0", "node-1")


def test_mpiexec_in_a_slurm_job_is_refused() -> None:
    with pytest.raises(BadInput, match="run `holdfast up` without mpiexec"):
        launchers.choose(settings(), SLURM | OMPI)
    with pytest.raises(SystemExit):  # one rank says why
        launchers.choose(settings(), SLURM | OMPI | {"OMPI_COMM_WORLD_RANK": "1"})


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"launcher": "pbs"}, "there is no launcher 'pbs'; use one of: auto, hostfile, openmpi"),
        ({"launcher": "slurm"}, "the launcher 'slurm' needs a Slurm job: SLURM_JOB_ID is not"),
        ({"launcher": "openmpi"}, "needs Open MPI's mpiexec"),
        ({"launcher": "hostfile"}, "needs a host file: `--hostfile FILE`"),
        ({"hostfile": "/nowhere/hosts"}, "cannot read the host file /nowhere/hosts: No such file"),
        ({"hostfile": "/dev/null"}, "lists no hosts; write one per line"),
    ],
)
def test_mistakes(wanted: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        launchers.choose(settings(**wanted), {})
    assert message in str(caught.value)


def test_mistakes_on_the_command_line(tmp_path: Path) -> None:
    hosts = tmp_path / "none"
    error = holdfast("up", "--hostfile", str(hosts), code=2)
    assert error == f"holdfast: cannot read the host file {hosts}: No such file or directory\n"
    error = holdfast("up", "--nodes", "2", "--set", "interface=nope*", code=2)
    assert "the agents of 2 nodes did not start" in error
    assert "has no interface 'nope*' with an address" in error


def test_nodes_and_a_host_file_do_not_go_together(hosts: Path) -> None:
    error = holdfast("up", "--nodes", "2", "--hostfile", str(hosts), code=2)
    assert "--nodes is for agents on one machine, and this is 2 hosts in" in error


def test_a_host_file(hosts: Path) -> None:
    assert hostfile.read(str(hosts)) == {"host-1": {"rack": "r1"}, "host-2": {}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\na\n", "line 3: a is listed twice; each host runs one agent"),
        ("a color=red\n", "line 1: 'color=red' is unknown; after the host, write rack=NAME"),
        ("a role=spare\n", "line 1: 'role=spare': roles go by the order of the hosts now; list"),
        ("a/b\n", "line 1: 'a/b' is not a valid node name"),
        ("-oProxyCommand=x\n", "line 1: '-oProxyCommand=x' is not a valid node name"),
        ("-q\n", "line 1: '-q' is not a valid node name"),
        ("\xff\xfe", ": it is not text"),
    ],
)
def test_a_host_file_with_mistakes(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput) as caught:
        hostfile.read(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["", "session", "../a", ".a", "x" * 65])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid node name"):
        node.check_name(name)


def test_numeric_addresses_of_this_host() -> None:
    assert addresses.of_interface("l*") == "127.0.0.1"
    assert all(part.isdigit() for part in addresses.of_host().split("."))


def test_the_session_of_a_slurm_job_has_its_number() -> None:
    assert config.load(environment=SLURM).config.session == "slurm-17"
    assert config.load(environment={}).config.session == "local"
    named = SLURM | {"HOLDFAST_SESSION": "mine"}
    assert config.load(environment=named).config.session == "mine"
