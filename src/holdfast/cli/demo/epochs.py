"""The paper's experiment in small: epochs over a data set, and a node that dies in the second."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from ...client.contacts import Contacts
from ...client.survey import survey
from ...errors import HoldfastError
from ...files import Files
from ...files.policy import OnFailure
from ...job import LocalCluster, local_cluster
from ...testing.countfs import CountingFS

NODES = 4
VICTIM = 2
EPOCHS = 5
FATAL = 2  # the epoch in which it dies
FILES, SIZE = 600, 102_400
OPEN_DELAY = "5 ms"
#: A death is to be seen, not a busy machine: only a broken connection makes an owner fail.
SETTINGS = {
    "memory": "512 MiB",
    "file_tier": "memory",
    "file_settled": "0 s",
    "file_deadline": "10 s",
    "deadline": "10 s",
}
#: Second copies are there after this many seconds, or the machine is too busy.
_SOON = 60.0


class Way(msgspec.Struct, frozen=True):
    """What is done about an owner that fails."""

    name: str
    on_failure: OnFailure
    copies: int = 1


WAYS = (
    Way("redirect", "redirect"),
    Way("recache", "recache"),
    Way("copies=2", "recache", copies=2),
)


class Epoch(msgspec.Struct):
    """What one epoch cost."""

    seconds: float = 0.0
    opens: int = 0  # of files of the storage
    read: int = 0  # bytes that readers got and compared


class DemoDataset:
    """Files of which no two are the same."""

    def __init__(self) -> None:
        self._content = random.Random(0).randbytes(SIZE + FILES)
        self.names = [f"{number:04}" for number in range(FILES)]

    def write(self, directory: Path) -> None:
        """Write all files to a directory."""
        for name in self.names:
            (directory / name).write_bytes(self.content(name))

    def of(self, epoch: int) -> list[str]:
        """Return the names in the order of an epoch."""
        names = self.names.copy()
        random.Random(epoch).shuffle(names)
        return names

    def content(self, name: str) -> bytes:
        """Return what was written."""
        return self._content[int(name) : int(name) + SIZE]


@contextmanager
def shown() -> Iterator[tuple[DemoDataset, CountingFS]]:
    """Show a data set on a storage that is slow to open files."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        backing = Path(directory, "backing")
        backing.mkdir()
        dataset = DemoDataset()
        dataset.write(backing)
        with CountingFS(backing, Path(directory, "shared"), NODES, OPEN_DELAY) as storage:
            yield dataset, storage


def run(
    way: Way, dataset: DemoDataset, storage: CountingFS, tell: Callable[[int, int], None]
) -> list[Epoch]:
    """Read all epochs; `tell` is told the epoch and how many files were read in it."""
    storage.reset()
    with local_cluster(NODES, storage=storage, **SETTINGS) as cluster, ExitStack() as stack:
        readers = {
            node: stack.enter_context(cluster.connect(node)).files(
                storage.at, way.copies, way.on_failure
            )
            for node in range(NODES)
        }
        found = []
        for number in range(1, EPOCHS + 1):
            if number == FATAL:
                _wait_for_copies(cluster, way.copies * FILES)
            epoch = Epoch()
            before = storage.total().opens
            start = time.perf_counter()
            if number == FATAL:
                _read(dataset, readers, number, epoch, tell, lambda: cluster.kill(VICTIM))
                del readers[VICTIM]
            _read(dataset, readers, number, epoch, tell)
            epoch.seconds = time.perf_counter() - start
            epoch.opens = storage.total().opens - before
            found.append(epoch)
        return found


def _read(
    dataset: DemoDataset,
    readers: dict[int, Files],
    number: int,
    epoch: Epoch,
    tell: Callable[[int, int], None],
    fail: Callable[[], None] | None = None,
) -> None:
    """Let each node read its part of the data set, in the order of this epoch.

    `fail` is called in the middle, and then the epoch is over: those that live begin it again.
    """
    names = dataset.of(number)
    fatal = names[len(names) // 2] if fail else ""
    over = threading.Event()
    done = [0] * len(readers)

    def read(rank: int, files: Files) -> int:
        size = 0
        for name in names[rank :: len(readers)]:
            if name == fatal and fail:
                fail()
                over.set()
            if over.is_set():
                break
            content = files.read(name)
            if content != dataset.content(name):
                raise HoldfastError(f"file {name} does not have the bytes that were written")
            size += len(content)
            done[rank] += 1
            tell(number, sum(done))
        return size

    with ThreadPoolExecutor(len(readers)) as pool:
        epoch.read += sum(pool.map(read, range(len(readers)), readers.values()))


def _wait_for_copies(cluster: LocalCluster, wanted: int) -> None:
    """Second copies come a moment after the first: until then a death would cost a read."""
    contacts = Contacts(cluster.directory, cluster.config.deadline)
    end = time.monotonic() + _SOON
    try:
        while sum(node.files.files for node in survey(contacts).nodes) < wanted:
            if time.monotonic() > end:
                raise HoldfastError(f"the second copies were not complete after {_SOON:g} s")
            time.sleep(0.05)
    finally:
        contacts.client.close()
