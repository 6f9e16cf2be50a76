"""Submitting and loading without failures, and every mistake that a caller can make."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import launch
import pytest

ORDINARY = "nobody"
EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount.py"


@pytest.mark.parametrize(("ranks", "how"), [(1, ()), (5, ()), (5, ("many",))])
def test_blocks_come_back(mpi_passes: Callable[..., str], ranks: int, how: tuple[str, ...]) -> None:
    said = mpi_passes("basics.py", *how, ranks=ranks, timeout=60)
    assert said.count("is done") == ranks


def test_any_mpi_will_do_until_the_first_failure(mpi_passes: Callable[..., str]) -> None:
    said = mpi_passes("basics.py", ranks=2, ulfm=False, timeout=60)
    assert said.count("is done") == 2


def test_mpich_works_until_the_first_failure(mpi_passes: Callable[..., str]) -> None:
    said = mpi_passes("basics.py", ranks=3, mpich=True, timeout=60)
    assert said.count("is done") == 3


def test_tensors_of_torch(mpi_passes: Callable[..., str]) -> None:
    said = mpi_passes("tensors.py", ranks=2, timeout=100)
    assert said.count("is done") == 2


def _python_for_ordinary_users() -> str | None:
    for python in launch.pythons():
        command = [python, "-c", "import ctypes"]
        options = {"user": ORDINARY, "extra_groups": [], "capture_output": True, "timeout": 60}
        try:
            if subprocess.run(command, cwd="/", **options).returncode == 0:
                return python
        except OSError:
            continue
    return None


@pytest.mark.skipif(os.getuid() != 0, reason="all tests run as an ordinary user already")
def test_an_ordinary_user_survives_a_death() -> None:
    python = _python_for_ordinary_users()
    if python is None:
        pytest.skip(f"{ORDINARY} may not run any Python that these packages are for")
    scratch = Path(tempfile.mkdtemp(prefix="hr", dir="/tmp"))  # others may not enter the tests' own
    options = {"scratch": scratch, "timeout": 60, "user": ORDINARY, "python": python}
    try:
        program = scratch / "ordinary.py"
        code = f"import os, runpy; assert os.getuid(); runpy.run_path({str(EXAMPLE)!r})"
        program.write_text(code)
        said = launch.passes(program, "--documents", 200, "--kill", 1, ranks=4, **options)
    finally:
        shutil.rmtree(scratch)
    assert "3 of 4 ranks counted" in said


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_more_than_two_gibibytes(mpi_passes: Callable[..., str]) -> None:
    mpi_passes("large.py", ranks=2, timeout=500)
