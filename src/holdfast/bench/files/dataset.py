"""A data set on a storage that counts, agents in front of it, and a reader that compares."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from ...errors import HoldfastError
from ...files import Files
from ...job import LocalCluster, local_cluster
from ...testing.countfs import CountingFS

FILES, SIZE = 2000, 100_000


class Dataset:
    """Two hundred megabytes in two thousand files, of which no two are the same."""

    def __init__(self, backing: Path) -> None:
        self._content = os.urandom(SIZE + FILES)
        self.names = [f"{number:04}" for number in range(FILES)]
        for number, name in enumerate(self.names):
            (backing / name).write_bytes(self._content[number : number + SIZE])

    def read(self, files: Files, names: list[str]) -> float:
        """Read files and compare every byte; return the seconds, without those of comparing."""
        out, seconds = bytearray(SIZE), 0.0
        for name in names:
            start = perf_counter()
            size = files.read(name, out=out)
            seconds += perf_counter() - start
            number = int(name)
            if size != SIZE or out != self._content[number : number + SIZE]:
                raise HoldfastError(f"file {name} does not have the bytes that were written")
        return seconds

    def epoch(self, files: Files) -> float:
        """Read all of it."""
        return self.read(files, self.names)


class DatasetCluster:
    """What a benchmark of files works with."""

    def __init__(self, dataset: Dataset, storage: CountingFS, cluster: LocalCluster) -> None:
        self.dataset = dataset
        self.storage = storage
        self.cluster = cluster


@contextmanager
def shown(nodes: int, open_delay: str = "0", bandwidth: str = "0") -> Iterator[DatasetCluster]:
    """Show a data set to some agents."""
    with tempfile.TemporaryDirectory() as directory:
        backing = Path(directory, "backing")
        backing.mkdir()
        dataset = Dataset(backing)
        with (
            CountingFS(backing, Path(directory, "shared"), nodes, open_delay, bandwidth) as storage,
            local_cluster(
                nodes, storage=storage, memory="512 MiB", file_tier="memory", file_settled="0 s"
            ) as cluster,
        ):
            yield DatasetCluster(dataset, storage, cluster)
