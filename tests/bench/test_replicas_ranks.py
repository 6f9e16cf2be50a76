"""What `holdfast bench replicas` starts on its ranks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.bench import replicas
from holdfast.errors import BadInput


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory with a short name: Open MPI keeps sockets in it."""
    path = Path(tempfile.mkdtemp(prefix="hb"))
    yield path
    shutil.rmtree(path)


def test_a_rank_dies_and_the_others_say_how_long_it_took(scratch: Path) -> None:
    measured = replicas._ranks(scratch, "bare", str(scratch), ranks=5)
    assert measured.keys() == {"detect and shrink"}
    assert 0 < measured["detect and shrink"] < 60


def test_ranks_that_fail_are_one_sentence(scratch: Path) -> None:
    with pytest.raises(BadInput, match=r"mpiexec failed on .* nonsense"):
        replicas._ranks(scratch, "nonsense", ranks=1)
