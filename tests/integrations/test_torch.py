"""PyTorch trains on files of the nodes: by its own data set, under `holdfast run`, and on after a
node died; the storage is read as often as promised."""

from __future__ import annotations

import argparse
import os
import pickle
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.commands import HOLDFAST

import holdfast
from holdfast.errors import BadInput
from holdfast.integrations.torch import FileDataset
from holdfast.testing.countfs import CountingFS

TRAIN = Path(__file__).parents[2] / "examples/train.py"
SAMPLES, EPOCHS = 96, 2
WITHIN = 100
LOSS = r"loss ([\d.]+)"


@pytest.fixture
def samples(backing: Path) -> list[str]:
    """The names of a data set that `train.py` made."""
    runpy.run_path(str(TRAIN))["make"](backing, SAMPLES)
    return sorted(path.name for path in backing.iterdir())


def environment(options: dict[str, Any], **more: str) -> dict[str, str]:
    given = {f"HOLDFAST_{name.upper()}": value for name, value in options.items()}
    return os.environ | given | more


def train(
    storage: CountingFS, options: dict[str, Any], before: Sequence[object], *arguments: object
) -> list[str]:
    """Train as a process of node 0; return the losses of the epochs."""
    ran = subprocess.run(
        [
            *storage.under(0),
            *map(str, [*before, sys.executable, TRAIN, storage.at]),
            *map(str, arguments),
        ],
        env=environment(options, HOLDFAST_NODE="node-0"),
        check=True,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert ran.stderr == ""
    return re.findall(LOSS, ran.stdout)


def test_a_program_trains_the_same_under_holdfast_run_and_the_storage_is_read_once(
    samples: list[str],
    storage: CountingFS,
    options: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = runpy.run_path(str(TRAIN))
    plainly = argparse.Namespace(epochs=EPOCHS, workers=0, compute=0)
    program["Trainer"](plainly).train(program["PlainFiles"](storage.at))
    plain = re.findall(LOSS, capsys.readouterr().out)
    assert storage.opens() == dict.fromkeys(samples, EPOCHS)
    storage.reset()
    run = [HOLDFAST, "run", "--root", storage.at, "--"]
    assert train(storage, options, run, "--epochs", EPOCHS) == plain
    assert storage.opens() == dict.fromkeys(samples, 1)
    spawned = ("--epochs", 1, "--start", "spawn", "--workers", 1)
    assert train(storage, options, run, *spawned) == plain[:1]
    assert storage.opens() == dict.fromkeys(samples, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "there are no samples in {}; --make {} makes some\n"),
        (("--nodes", "node-0"), "no session 'none' in {}; `holdfast up` starts one\n"),
    ],
)
def test_the_example_names_a_mistake_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    tmp_path.chmod(0o700)
    ran = subprocess.run(
        [sys.executable, TRAIN, tmp_path, *arguments],
        env=os.environ | {"HOLDFAST_SESSION": "none", "HOLDFAST_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == said.format(tmp_path, tmp_path)


def test_spawned_workers_read_the_data_set_of_files(
    samples: list[str], storage: CountingFS, options: dict[str, Any]
) -> None:
    how = ("--nodes", "node-0", "--start", "spawn", "--workers", 1, "--epochs", 1)
    assert len(train(storage, options, [], *how)) == 1
    assert storage.opens() == dict.fromkeys(samples, 1)


def test_a_node_and_its_trainer_die_and_the_epoch_begins_again_without(
    samples: list[str],
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    options: dict[str, Any],
) -> None:
    nodes = [node.name for node in cluster.nodes]
    program = [sys.executable, TRAIN, storage.at, "--nodes", *nodes, "--epochs", "3"]
    trainers: dict[str, int] = {}
    said = []
    with subprocess.Popen(
        [*program, "--workers", "1", "--compute", "0.2"],
        env=environment(options),
        stdout=subprocess.PIPE,
        text=True,
    ) as ran:
        assert ran.stdout is not None
        for line in ran.stdout:
            said.append(line)
            if started := re.match(r"(.*): trainer (\d+)", line):
                trainers[started[1]] = int(started[2])
            if line.startswith("epoch 1:"):
                assert storage.opens() == dict.fromkeys(samples, 1)
                lost = storage.opens(1)
                # In the first batch: who is killed while workers start may leave a semaphore.
                time.sleep(0.1)
                cluster.kill(1)
                os.killpg(trainers["node-1"], signal.SIGKILL)
    assert ran.returncode == 0
    text = "".join(said)
    assert re.findall(r"epoch (\d): .* trainers (\d)", text) == [("1", "3"), ("2", "2"), ("3", "2")]
    assert text.index("epoch 1:") < text.index("lost node-1; back") < text.index("epoch 2:")
    assert "all trainers have the model" in text
    # Each file that the dead node owned was read once more, by the node that took over.
    assert storage.opens() == {name: 1 + (name in lost) for name in samples}


def test_it_is_a_map_style_data_set(
    samples: list[str], storage: CountingFS, options: dict[str, Any]
) -> None:
    dataset = FileDataset(storage.at, decode=len, **options)
    assert dataset.names == samples
    assert [*dataset] == [1029] * len(samples)
    some = FileDataset(storage.at, bytes.hex, names=samples[3:5], **options)
    assert len(some) == 2
    assert some[-1] == (storage.at / samples[4]).read_bytes().hex()
    assert pickle.loads(pickle.dumps(dataset))[0] == 1029
    with pytest.raises(IndexError):
        some[2]


def test_a_data_set_without_files_is_refused(
    storage: CountingFS, backing: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(BadInput, match="no files below"):
        FileDataset(storage.at, bytes.hex, **options)
