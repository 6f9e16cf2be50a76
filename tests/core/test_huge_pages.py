"""The memory tier in huge pages: a tmpfs of the agent's own, that goes with the agent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import errors
from holdfast.config import load

BIG = 3 << 20

PROGRAM = """
import os
import holdfast

with holdfast.local_cluster(nodes=2, memory="64 MiB") as cluster, cluster.connect() as job:
    job.objects.put("key", b"x" * 1_000_000, copies=2)
    assert job.objects.get("key") == b"x" * 1_000_000
    assert bytes(job.objects.view("key")) == b"x" * 1_000_000
    for node in cluster.nodes:
        [file] = node.tiers.in_memory()
        assert os.stat(file).st_uid == os.getuid()
        told = "small pages only: cannot mount a tmpfs with huge pages" in node.log.read_text()
        print("large" if file.startswith(node.tiers.memory_dir + "/large/") else "small", told)
"""


def permitted() -> bool:
    """Whether this kernel lets us have such a tmpfs, as others find out."""
    mount = "mount -t tmpfs -o huge=within_size none /mnt"
    own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount)
    return subprocess.run(own, capture_output=True, check=False).returncode == 0


needs_permission = pytest.mark.skipif(
    not permitted(), reason="no tmpfs with huge pages can be mounted in a user namespace here"
)


@needs_permission
def test_what_is_large_lies_in_huge_pages(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    data = os.urandom(BIG)
    job.objects.put("big", data, copies=4)
    assert job.objects.get("big") == data
    for node in cluster.nodes:
        [file] = map(Path, node.tiers.in_memory())
        assert file.read_bytes() == data
        assert file.parent.name == "large"
        assert file.stat().st_dev != os.stat(node.tiers.memory_dir).st_dev
        assert file.stat().st_blocks * 512 < 1.01 * BIG  # nothing is given away


@needs_permission
def test_the_memory_of_an_agent_goes_with_it(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    data = os.urandom(BIG)
    job.objects.put("big", data, copies=4)
    view = job.objects.view("big")  # of node 0
    tiers = cluster.nodes[0].tiers
    cluster.kill(0)
    assert tiers.in_memory() == []
    assert os.path.islink(os.path.join(tiers.memory_dir, "large"))  # to be removed with the rest
    assert view == data


def test_it_can_be_switched_off() -> None:
    with (
        holdfast.local_cluster(nodes=1, memory="64 MiB", huge_pages="off") as cluster,
        cluster.connect() as job,
    ):
        job.objects.put("big", b"x" * BIG, copies=1)
        [file] = cluster.nodes[0].tiers.in_memory()
        assert os.path.dirname(file) == cluster.nodes[0].tiers.memory_dir
        assert job.objects.get("big") == b"x" * BIG
    with pytest.raises(errors.BadInput, match="neither on nor off"):
        load({"huge_pages": "perhaps"})


FORBID = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
MAY_NOT_MOUNT = ("setpriv", "--bounding-set=-sys_admin") if os.getuid() == 0 else ()
HAS_NO_NAMESPACES = ("unshare", "--user", "--map-root-user", "sh", "-c", FORBID, "sh", "setpriv")
HAS_NO_NAMESPACES += ("--bounding-set=-sys_admin",)


@needs_permission
@pytest.mark.parametrize(
    ("under", "expected"), [(MAY_NOT_MOUNT, "large False"), (HAS_NO_NAMESPACES, "small True")]
)
def test_who_may_not_mount_has_them_too_but_for_whom_nothing_is_permitted(
    under: tuple[str, ...], expected: str
) -> None:
    done = subprocess.run(
        [*under, sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [expected, expected]
