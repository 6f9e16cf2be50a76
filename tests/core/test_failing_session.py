"""A file system that fails below the session's directory: commands say so, and agents live on."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import HOLDFAST, run_at

from holdfast.session import session as sessions
from holdfast.testing import countfs
from holdfast.testing.countfs import CountingFS


@pytest.fixture
def storage() -> Iterator[CountingFS]:
    """Shown to the host, in a short path: sockets lie below it."""
    if reason := countfs.why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as made:
        backing = Path(made, "b")
        backing.mkdir()
        with CountingFS(backing, Path(made, "s"), nodes=0) as shown:
            yield shown


@pytest.fixture
def run_dir(storage: CountingFS) -> Iterator[Path]:
    """In which a session is left running at most."""
    place = storage.at / "run"
    yield place
    storage.heal()
    subprocess.run([HOLDFAST, "down", "--set", f"run_dir={place}"], capture_output=True, timeout=60)


def test_a_session_that_cannot_be_read_is_named_and_there_when_it_can(
    storage: CountingFS, run_dir: Path, tmp_path: Path
) -> None:
    small = ("--memory", "64 MiB", "--disk", "64 MiB")
    run_at(run_dir, "up", "--nodes", "2", *small)
    agents = sessions.agents(run_dir / "local")
    assert len(agents) == 2
    said = f"holdfast: {run_dir}/local/session.json: {os.strerror(errno.EIO)}\n"
    for operation in ("open", "read", "stat"):
        storage.fail("", operation, errno.EIO)
        for command in (["status"], ["run", "--root", str(tmp_path), "--", "true"]):
            assert run_at(run_dir, *command, code=1) == said, operation
        assert all(agent.process.running for agent in agents)
        storage.heal()
        run_at(run_dir, "status")
    run_at(run_dir, "down")
    assert os.listdir(run_dir) == []
