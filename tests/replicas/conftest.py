from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import launch


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a short name: Open MPI keeps sockets in it."""
    path = Path(tempfile.mkdtemp(prefix="hr"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def mpi_passes(scratch: Path) -> Callable[..., str]:
    """Run a program on some ranks; it must succeed."""
    return partial(launch.passes, scratch=scratch)
