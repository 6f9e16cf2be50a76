"""What removes old files below /tmp, on all nodes on the same day, leaves a session alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.waits import wait_for

import holdfast

LONG_AGO = 1_000_000_000


def test_no_file_of_a_session_grows_old(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    with holdfast.local_cluster(nodes=1) as cluster:
        link = cluster.directory / "link"
        link.symlink_to(other)
        files = [path for path in cluster.directory.iterdir() if not path.is_dir()]
        assert {"key", "session.json", "node-0.json", "node-0.attributes"} <= {
            path.name for path in files
        }
        for path in (other, *files):
            os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)

        def young(path: Path) -> bool:
            info = path.lstat()
            return min(info.st_atime, info.st_mtime) > LONG_AGO

        wait_for(lambda: all(map(young, files)))
        assert not young(other)


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="no systemd-tmpfiles here")
def test_systemd_leaves_the_disk_tier_of_an_agent_alone(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "other").mkdir(parents=True)
    (place / "other/file").touch()
    rules = tmp_path / "rules.conf"
    rules.write_text(f"d {place} 0700 - - 0\n")  # whatever its age
    with (
        holdfast.local_cluster(nodes=1, disk_dir=str(place), disk="64 MiB") as cluster,
        cluster.connect() as job,
    ):
        job.objects.put("key", b"x" * 100_000, copies=1, tier="disk")
        subprocess.run(["systemd-tmpfiles", "--clean", rules], check=True, timeout=60)
        assert not (place / "other").exists()
        assert len(os.listdir(cluster.nodes[0].tiers.disk_dir)) == 1
        assert job.objects.get("key") == b"x" * 100_000
