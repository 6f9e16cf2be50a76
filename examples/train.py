"""Train a small model in PyTorch on a data set of files, and outlive a node that dies.

    python examples/train.py                        make samples, and train on them
    python examples/train.py --make DIR             make samples, no more
    python examples/train.py DIR                    train on them, like any program
    holdfast run --root DIR -- python examples/train.py DIR      the same program, from copies
    python examples/train.py DIR --nodes node-0 node-1 node-2    one trainer for each node

With --nodes, samples come through `holdfast.integrations.torch`, and the trainers average their
gradients after each batch. When one of them dies the others go back to the start of the epoch and
go on without it, as Horovod's elastic runs do.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import zlib
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from holdfast.errors import HoldfastError
from holdfast.integrations.torch import FileDataset

SIDE, CLASSES, BATCH = 32, 10, 16
#: A trainer that hears nothing from the others for so long gives up, in seconds.
SILENCE = 60
Sample = tuple[torch.Tensor, int]


# ---- samples


def make(directory: Path, samples: int) -> None:
    """Write images of ten kinds under much noise: a checksum, the kind, the pixels."""
    directory.mkdir(parents=True, exist_ok=True)
    random = torch.Generator().manual_seed(1)
    kinds = torch.randint(0, 256, (CLASSES, SIDE * SIDE), generator=random)
    for number in range(samples):
        noise = torch.randint(0, 256, (SIDE * SIDE,), generator=random)
        pixels = (kinds[number % CLASSES] + 3 * noise) // 4
        body = bytes([number % CLASSES, *pixels.tolist()])
        path = directory / f"{number:05}.sample"
        path.write_bytes(zlib.crc32(body).to_bytes(4, "little") + body)


def decode(content: bytes) -> Sample:
    if zlib.crc32(content[4:]) != int.from_bytes(content[:4], "little"):
        raise ValueError("a sample has other bytes than were written")
    pixels = torch.frombuffer(bytearray(content[5:]), dtype=torch.uint8)
    return pixels.float() / 128 - 1, content[4]


class PlainFiles(Dataset[Sample]):
    """The samples, opened as files are: what a program has that never heard of Holdfast."""

    def __init__(self, directory: str) -> None:
        self._paths = sorted(Path(directory).glob("*.sample"))
        if not self._paths:
            raise SystemExit(f"there are no samples in {directory}; --make {directory} makes some")

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Sample:
        return decode(self._paths[index].read_bytes())


# ---- training


class Trainer:
    """A model, and the way back to where it was at the start of the epoch."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._options = options
        self.model = torch.nn.Sequential(
            torch.nn.Linear(SIDE * SIDE, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES)
        )
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.epoch = 0
        self._saved = self._state()

    def _state(self) -> tuple[int, dict, dict]:
        state = (self.epoch, self.model.state_dict(), self._optimizer.state_dict())
        return copy.deepcopy(state)

    def go_back(self, rank: int, size: int) -> None:
        """Forget what this epoch has done to the model so far; all go back to the same start."""
        epochs = [0] * size
        dist.all_gather_object(epochs, self._saved[0])
        # One may have ended the epoch before it heard of the death that kept another from it.
        latest = [self._saved]
        dist.broadcast_object_list(latest, epochs.index(max(epochs)))
        self._saved = latest[0]
        self.epoch, model, optimizer = copy.deepcopy(self._saved)
        self.model.load_state_dict(model)
        self._optimizer.load_state_dict(optimizer)

    def train(self, dataset: Dataset[Sample], rank: int = 0, size: int = 1) -> None:
        """Train all epochs that are left, as one of `size` trainers."""
        while self.epoch < self._options.epochs:
            start = time.perf_counter()
            loss = self._train_epoch(dataset, rank, size)
            self.epoch += 1
            self._saved = self._state()
            if rank == 0:
                seconds = time.perf_counter() - start
                say(f"epoch {self.epoch}: loss {loss:.4f}, trainers {size}, {seconds:.2f} s")

    def _train_epoch(self, dataset: Dataset[Sample], rank: int, size: int) -> float:
        shuffled = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(len(dataset), generator=shuffled).tolist()
        order += order[: -len(order) % size]  # as many for each: they meet after each batch
        loader = DataLoader(
            dataset,
            BATCH,
            sampler=order[rank::size],
            num_workers=self._options.workers,
            multiprocessing_context=self._options.start if self._options.workers else None,
        )
        total = torch.zeros(1)
        for pixels, labels in loader:
            self._optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(pixels), labels)
            loss.backward()
            time.sleep(self._options.compute)
            for parameter in self.model.parameters():
                average(parameter.grad, size)
            self._optimizer.step()
            total += loss.detach()
        average(total, size)
        return total.item() / len(loader)


def average(tensor: torch.Tensor, size: int) -> None:
    if size > 1:
        dist.all_reduce(tensor)
        tensor /= size


# ---- several trainers, of which some may die


def work(
    trainer: Trainer,
    dataset: FileDataset[Sample],
    meet: str,
    leader: Connection,
    inherited: list[Connection],
) -> None:
    """Train on one node, with whomever the leader names, until all epochs are done."""
    os.setpgrp()  # its DataLoader's workers belong to it, also in death
    for pipe in inherited:  # else nobody would hear that the leader is gone
        pipe.close()
    while (order := leader.recv()) is not None:
        attempt, rank, size = order
        timeout = datetime.timedelta(seconds=SILENCE)
        try:
            store = dist.FileStore(f"{meet}/{attempt}", size)
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=size, timeout=timeout
            )
            trainer.go_back(rank, size)
            trainer.train(dataset, rank, size)
            dist.barrier()
        except RuntimeError:  # somebody is gone; leaving the group tells those who wait for us
            leader.send(None)
        else:
            model = b"".join(each.numpy().tobytes() for each in trainer.model.state_dict().values())
            leader.send(f"{zlib.crc32(model):08x}")
        if dist.is_initialized():
            dist.destroy_process_group()


def lead(options: argparse.Namespace) -> int:
    """Start a trainer for each node, and begin an epoch again without those that died."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all of them are on this machine
    context = multiprocessing.get_context("fork")
    trainer = Trainer(options)  # all begin with the same model
    try:
        datasets = {node: FileDataset(options.data, decode, node=node) for node in options.nodes}
    except HoldfastError as error:
        raise SystemExit(str(error)) from None
    crew = {}
    try:
        with tempfile.TemporaryDirectory() as meet:
            for node, dataset in datasets.items():
                ours, theirs = context.Pipe()
                inherited = [ours, *(pipe for _, pipe in crew.values())]
                arguments = (trainer, dataset, meet, theirs, inherited)
                worker = context.Process(target=work, args=arguments)
                worker.start()
                theirs.close()
                crew[node] = (worker, ours)
                say(f"{node}: trainer {worker.pid}")
            models = attempt(crew, 0)
            for number in range(1, len(options.nodes)):
                dead = [node for node, model in models.items() if model == "dead"]
                if not dead:
                    break
                for node in dead:
                    crew.pop(node)[1].close()
                say(f"lost {', '.join(dead)}; back to the start of the epoch without")
                models = attempt(crew, number)
            for _, pipe in crew.values():
                pipe.send(None)
            while crew:
                crew.popitem()[1][0].join()
    finally:
        for worker, _ in crew.values():
            end(worker)
    if len(set(models.values())) != 1 or None in models.values():
        say(f"the trainers do not agree on a model: {models}")
        return 1
    say(f"all trainers have the model {models.popitem()[1]}")
    return 0


def attempt(crew: dict, number: int) -> dict[str, str | None]:
    """Let all that live train together; return what each ended with: its model, None or "dead"."""
    for rank, (_, pipe) in enumerate(crew.values()):
        with contextlib.suppress(BrokenPipeError):  # found out below
            pipe.send((number, rank, len(crew)))
    ended: dict[str, str | None] = {}
    while waiting := {pipe: node for node, (_, pipe) in crew.items() if node not in ended}:
        for pipe in wait(list(waiting), timeout=0.1):
            try:
                ended[waiting[pipe]] = pipe.recv()
            except (EOFError, ConnectionResetError):
                ended[waiting[pipe]] = "dead"
        for node, (worker, _) in crew.items():
            if node not in ended and not worker.is_alive():
                end(worker)  # what it left holds its connections open, and others wait
                ended[node] = "dead"
    return ended


def end(worker: multiprocessing.process.BaseProcess) -> None:
    """End a trainer and the workers of its DataLoader."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("data", nargs="?", help="the directory of the samples")
    parser.add_argument("--make", metavar="DIR", help="make samples there, and end")
    parser.add_argument("--samples", type=int, default=200, help="how many to make")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of the DataLoader; 0: none")
    parser.add_argument("--start", choices=("fork", "spawn"), default="fork", help="its workers")
    parser.add_argument("--nodes", nargs="+", help="train with one trainer for each of these")
    parser.add_argument("--compute", type=float, default=0, help="more seconds for each batch")
    options = parser.parse_args()
    if options.make:
        make(Path(options.make), options.samples)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        if options.data is None:
            options.data = directory
            make(Path(directory), options.samples)
        if options.nodes:
            return lead(options)
        Trainer(options).train(PlainFiles(options.data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
