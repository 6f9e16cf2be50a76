"""Reads the data set of the demo in epochs through one node, until its standard input ends.

It prints a line of JSON: for each read that took long, and how many there were, at the end.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast import config
from holdfast.cli.demo.epochs import NODES, SETTINGS, DemoDataset
from holdfast.job import Job

#: In seconds: a read that takes longer must have a reason that is not ours.
LONG = 1.0
#: In seconds: such reads are counted.
NOTED = 0.5
#: The training of a model with one file, which leaves the machine to others.
_TRAINING = 0.002


class Slow(msgspec.Struct, frozen=True, tag=True):
    """A read that took long."""

    path: str
    reader: str
    begin: float
    end: float


class Total(msgspec.Struct, frozen=True, tag=True):
    """What a reader has read."""

    reads: int = 0
    longest: float = 0.0
    noted: int = 0


def main(directory: str, node: str, rank: str, root: str) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    dataset = DemoDataset()
    total = Total()
    with Job(Path(directory), config.load(arguments=SETTINGS).config, node) as job:
        files = job.files(root, copies=2)
        names = _epochs(dataset, int(rank))
        while not over.wait(_TRAINING):
            name = next(names)
            begin = time.time()
            content = files.read(name)
            end = time.time()
            if content != dataset.content(name):
                sys.exit(f"file {name} does not have the bytes that were written")
            took = end - begin
            total = Total(
                reads=total.reads + 1,
                longest=max(total.longest, took),
                noted=total.noted + (took > NOTED),
            )
            if took > LONG:
                _tell(Slow(f"{root}/{name}", node, begin, end))
    _tell(total)


def _epochs(dataset: DemoDataset, rank: int) -> Iterator[str]:
    """Give the part of a rank, epoch for epoch."""
    epoch = 0
    while True:
        epoch += 1
        yield from dataset.of(epoch)[rank::NODES]


def _tell(what: Slow | Total) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
