"""Software through mounts: a package's own tests, and imports while agents die."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from mounted import View, through
from support.waits import WITHIN

import holdfast
from holdfast.testing.countfs import HOST, CountingFS

#: A package in Python alone, which brings its tests along; PyTorch needs it.
PACKAGE = "mpmath"
SUITE = ("test_basic_ops.py", "test_division.py", "test_str.py", "test_power.py", "test_trig.py")
PROGRAM = f"import {PACKAGE}; print({PACKAGE}.__file__, {PACKAGE}.sqrt(2))"


@pytest.fixture
def nodes() -> int:
    return 4


@pytest.fixture
def backing(backing: Path) -> Path:
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(found.origin).parent, backing / PACKAGE, ignore=compiled)
    return backing


def outcome_of_its_tests(top: Path, suite: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "/"]
        + [f"{PACKAGE}/tests/{name}" for name in suite],
        cwd=top,
        env={"PYTHONPATH": str(top), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert done.returncode == 0, done.stdout
    return re.sub(r" in .*", "", done.stdout.splitlines()[-1])


@pytest.mark.parametrize("suite", [SUITE[:2], pytest.param(SUITE, marks=pytest.mark.soak)])
def test_a_package_passes_its_tests_from_a_mount_and_its_files_are_opened_once(
    backing: Path,
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    tmp_path: Path,
    suite: Sequence[str],
) -> None:
    directly = outcome_of_its_tests(backing, suite)
    with (
        through(cluster, tmp_path / "one", storage.at) as one,
        through(cluster, tmp_path / "other", storage.at, node=1) as other,
    ):
        assert outcome_of_its_tests(one.top, suite) == directly
        assert outcome_of_its_tests(other.top, suite) == directly
    opened = storage.opens()
    assert f"{PACKAGE}/__init__.py" in opened
    assert set(opened.values()) == {1}
    assert not storage.opens(HOST)  # the mounts asked their agents for everything


def importing(view: View) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-B", "-c", PROGRAM],
        cwd="/",
        env={"PYTHONPATH": str(view.top)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    "fault",
    [
        lambda cluster: cluster.kill(3),
        lambda cluster: cluster.stop(3),
        lambda cluster: (cluster.kill(2), cluster.kill(3)),  # half of every tree
    ],
    ids=["one-killed", "one-stopped", "half-killed"],
)
def test_imports_go_on_while_agents_die(
    backing: Path,
    tmp_path: Path,
    storage: CountingFS,
    cluster: holdfast.LocalCluster,
    fault: Callable[[holdfast.LocalCluster], object],
) -> None:
    with contextlib.ExitStack() as stack:
        views = [
            stack.enter_context(through(cluster, tmp_path / f"mnt-{n}", storage.at, node=n))
            for n in range(4)
        ]
        programs = [(view, importing(view)) for view in views for _ in range(3)]
        try:
            while sum(storage.opens().values()) < 10:  # they are in the middle of it
                assert programs[0][1].poll() is None
            fault(cluster)
            for view, program in programs:
                printed, _ = program.communicate(timeout=WITHIN)
                assert printed == f"{view.top}/{PACKAGE}/__init__.py 1.4142135623731\n"
                assert program.returncode == 0
        finally:
            for _, program in programs:
                program.kill()
                program.communicate()
