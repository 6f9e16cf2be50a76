"""Acknowledged means kept: one of four agents is killed at a random moment, twenty times."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import errors
from holdfast._core import crc32c

CLIENT = Path(__file__).with_name("acknowledging_client.py")


@pytest.fixture
def cluster() -> Iterator[holdfast.LocalCluster]:
    """Four agents that notice deaths in a second."""
    with holdfast.local_cluster(
        nodes=4, memory="512 MiB", disk="512 MiB", probe_period="0.1 s"
    ) as agents:
        yield agents


def kill_and_check(cluster: holdfast.LocalCluster, tmp_path: Path, rounds: int) -> None:
    rng = random.Random(20_240)
    checked = 0
    for number in range(rounds):
        record = tmp_path / f"{number}.log"
        record.touch()
        client = subprocess.Popen([sys.executable, CLIENT, cluster.directory, record, str(number)])
        try:
            while not record.stat().st_size:  # it has begun
                assert client.poll() is None
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.15))
            victim = rng.randrange(4)
            cluster.kill(victim)
            before = len(record.read_text().splitlines())
            while len(record.read_text().splitlines()) < before + 5:  # it goes on
                assert client.poll() is None
                time.sleep(0.005)
        finally:
            client.kill()
            client.wait()
        with cluster.connect((victim + 1) % 4) as job:
            for line in record.read_text().splitlines():
                key, size, crc = line.split()
                data = job.objects.get(key)
                assert (len(data), crc32c(data)) == (int(size), int(crc))
                checked += 1
            cluster.restart(victim)
            for info in job.objects.list():
                # A node may list what was dropped until it hears of it.
                with contextlib.suppress(errors.Dropped):
                    job.objects.drop(info.key)
    assert checked > 10 * rounds


def test_every_acknowledged_object_is_whole_after_a_kill(
    cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    kill_and_check(cluster, tmp_path, rounds=20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_acknowledged_object_is_whole_after_a_thousand_kills(
    cluster: holdfast.LocalCluster, tmp_path: Path
) -> None:
    kill_and_check(cluster, tmp_path, rounds=1000)
