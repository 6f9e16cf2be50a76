"""A data set for PyTorch whose samples are files on the nodes of the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from torch.utils.data import Dataset

from ..errors import BadInput
from ..files.policy import OnFailure, Validate
from .lazy_job import LazyJob

Sample = TypeVar("Sample")


class FileDataset(Dataset[Sample], Generic[Sample]):
    """A map-style data set: sample `i` is what `decode` makes of the bytes of file `i`.

    `names` are the files, relative to the root; without them all files below it, in the order of
    their names. `settings` are those of `holdfast.connect`, such as `session`. Workers of a
    DataLoader, forked or spawned, connect by themselves; `decode` must be a function that can be
    pickled if they are spawned.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        decode: Callable[[bytes], Sample],
        names: Iterable[str] | None = None,
        copies: int = 1,
        on_failure: OnFailure = "recache",
        validate: Validate = "never",
        **settings: Any,
    ) -> None:
        self._root = os.path.abspath(root)
        self._decode = decode
        self._connecting = LazyJob(copies, on_failure, validate, settings)
        files = self._connecting.files(self._root)
        # Once and here: else each worker would list the directories of the shared file system.
        self.names = list(files.walk() if names is None else names)
        if not self.names:
            raise BadInput(f"there are no files below {self._root}")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        return self._decode(self._connecting.files(self._root).read(self.names[index]))
