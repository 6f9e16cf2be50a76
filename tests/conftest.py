"""What holds for every test: where it runs, what it needs, and what its report tells."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import mpi4py
import pytest
from support import stories
from support.requirements import needs_storage

# Programs under mpiexec start MPI; pytest itself only uses what needs none.
mpi4py.rc.initialize = False
mpi4py.rc.finalize = False

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

pytest_plugins = ["support.clusters", "support.leftovers", "support.unstable"]

#: Folders and files whose tests need the machine for themselves: they count exactly what others
#: would disturb, keep all cores busy, or use what there is once, such as a port.
ALONE = (
    "bench",
    "broadcast",
    "replicas",
    "core/test_watching.py",
    "faults/test_networks.py",
    "launch/test_openmpi.py",
    "launch/test_slurm.py",
)

#: Folders whose tests mount something, most of them a storage that counts.
MOUNTING = ("broadcast", "files", "mount", "shim", "storage")

#: Short, so that tests of silence are quick; long enough for a busy machine.
DEADLINE = "1 s"


def pytest_configure(config: pytest.Config) -> None:
    """Let workers, too, have the directories of tests in the place that `_places` makes."""
    if hasattr(config, "workerinput"):
        config.option.basetemp = None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs alone, before it is selected by that, and what cannot run everywhere."""
    tests = Path(__file__).parent
    for item in items:
        if any(item.path.is_relative_to(tests / name) for name in ALONE):
            item.add_marker("alone")
        if any(item.path.is_relative_to(tests / name) for name in MOUNTING):
            item.add_marker(needs_storage)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the report of a test that fails tell what the agents of its sessions remember."""
    report = yield
    if report.when == "call" and report.failed and call.excinfo is not None:
        report.sections.extend(stories.sections(item, call.excinfo))
    return report


@pytest.fixture(scope="session", autouse=True)
def _places() -> Iterator[None]:
    """Keep sessions, tiers and configuration of the tests apart from those of anybody else."""
    base = Path(tempfile.mkdtemp(prefix="hft-"))
    memory = Path(tempfile.mkdtemp(prefix="hft-", dir="/dev/shm"))
    mpi = Path(tempfile.mkdtemp(prefix="hft-", dir="/dev/shm"))  # killed ranks leave theirs
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
            patch.delenv(name)
        patch.setenv("TMPDIR", str(base))
        patch.setattr(tempfile, "tempdir", str(base))
        patch.setenv("XDG_CONFIG_HOME", str(base / "config"))
        patch.delenv("XDG_RUNTIME_DIR", raising=False)
        patch.setenv("HOLDFAST_MEMORY_DIR", str(memory))
        patch.setenv("HOLDFAST_DEADLINE", DEADLINE)
        patch.setenv("OMPI_MCA_btl_sm_backing_directory", str(mpi))
        yield
    for place in (base, memory, mpi):
        shutil.rmtree(place)


@pytest.fixture
def another_user() -> Iterator[Callable[[Path], None]]:
    """Listen on a Unix socket as another user, whom nobody may tell anything."""
    if os.getuid() != 0:
        pytest.skip("taking another user's place needs root")
    started = []

    def listen(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            ready, says = os.pipe()
            pid = os.fork()
            if pid == 0:
                told = 0
                try:
                    os.setuid(65534)
                    listener.listen()  # whoever does this is the one at the other end
                    os.write(says, b"x")
                    listener.settimeout(20)
                    told = len(listener.accept()[0].recv(100))
                finally:
                    os._exit(told)
        started.append(pid)
        os.read(ready, 1)
        os.close(ready)
        os.close(says)

    yield listen
    told = [os.waitpid(pid, 0)[1] for pid in started]
    assert told == [0] * len(started), "it was told something"
