"""A file system that is full below the session: nobody dies of it, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import HOLDFAST, run_at

import holdfast
from holdfast.errors import Full
from holdfast.session import session as sessions

FILES = 400

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="mounting a small tmpfs needs root")


@pytest.fixture
def place() -> Iterator[Path]:
    """A tmpfs of 64 MiB for a session, which ends with it; its path is short, as sockets need."""
    with tempfile.TemporaryDirectory() as made:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "none", made]
        subprocess.run(mount, check=True)
        try:
            yield Path(made)
        finally:
            down = [HOLDFAST, "down", "--set", f"run_dir={made}/run"]
            subprocess.run(down, capture_output=True, timeout=60)
            subprocess.run(["umount", "--lazy", made], check=True)


def fill(place: Path) -> None:
    """Take all that is free."""
    free = os.statvfs(place)
    with open(place / "rest", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
    assert os.statvfs(place).f_bavail == 0


def test_a_session_without_room_for_its_tables_is_refused(place: Path) -> None:
    (place / "filler").write_bytes(bytes(50 << 20))
    told = run_at(place / "run", "up", "--nodes", "2", code=1)
    assert "attribute table" in told
    assert "21 MB" in told
    assert "run_dir" in told
    assert "Traceback" not in told
    assert not os.path.exists(place / "run" / "local")
    fill(place)
    told = run_at(place / "run", "up", "--nodes", "1", code=1)
    assert "No space left" in told
    assert "run_dir" in told


def test_a_file_system_that_fills_up_ends_no_agent_and_no_program(
    place: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(FILES):
        (data / f"{number:03}").write_bytes(b"%d." % number + bytes(4000))
    settings = ["--set", f"disk_dir={place}", "--set", "file_settled=0 s", "--disk", "10 GB"]
    run_at(place / "run", "up", "--nodes", "2", *settings)
    directory = place / "run" / "local"
    agents = sessions.agents(directory)
    with holdfast.connect(run_dir=f"{place}/run") as job:
        for tier in ("memory", "disk"):
            job.objects.put(tier, tier.encode() * 1000, copies=2, tier=tier)
        fill(place)
        with pytest.raises(Full):
            job.objects.put("more", bytes(1 << 20), copies=2, tier="disk")
        job.objects.put("other", b"memory" * 1000, copies=2)

        expected = b"".join(path.read_bytes() for path in sorted(data.iterdir()))
        read = f'exec cat "{data}"/*'
        command = [HOLDFAST, "run", "--set", f"run_dir={place}/run", "--root", str(data), "--"]
        # Also a table that an agent which did not start has left: of its size, and with holes.
        holey = directory / "holey.attributes"
        with open(holey, "wb") as file:
            file.truncate(os.stat(directory / "node-0.attributes").st_size)
        for table in ((), ("env", f"HOLDFAST_SHIM_TABLE={holey}")):
            for _ in range(2):
                done = subprocess.run(
                    [*command, *table, "bash", "-c", read], capture_output=True, timeout=120
                )
                assert (done.returncode, done.stderr) == (0, b"")
                assert done.stdout == expected
        assert all(agent.process.running for agent in agents)
        for tier in ("memory", "disk"):
            assert job.objects.get(tier) == tier.encode() * 1000
        assert job.objects.get("other") == b"memory" * 1000


def test_a_put_that_the_file_system_has_no_room_for_is_told_so(place: Path) -> None:
    tiers = {"memory": "40 MiB", "disk": "4 MiB", "memory_dir": str(place), "huge_pages": "off"}
    with holdfast.local_cluster(nodes=1, **tiers) as cluster, cluster.connect() as job:
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        (place / "filler").write_bytes(bytes(free - (10 << 20)))
        before = time.monotonic()
        with pytest.raises(Full, match="cannot write 'large': No space left"):
            job.objects.put("large", bytes(20 << 20), copies=1)
        assert time.monotonic() - before < job._connection.put_retry_for  # it was not repeated
        assert not list(place.rglob("new-*"))
        job.objects.put("smaller", bytes(5 << 20), copies=1)
        assert job.objects.get("smaller") == bytes(5 << 20)
