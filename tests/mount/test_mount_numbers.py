"""A mount of several file systems: no two files of it have the same number."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounted import View, bare


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two file systems, and a third below the first, that number their files alike."""
    first, second = tmp_path / "first", tmp_path / "second"
    with contextlib.ExitStack() as mounted:
        for place in (first, second, first / "below"):
            place.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
            mounted.callback(subprocess.run, ["umount", str(place)], check=True)
            (place / "inner").mkdir()
            for number in range(5):
                (place / f"{number}").write_text(f"{number} of {place}")
            os.link(place / "3", place / "inner/link")
        yield first, second


@pytest.fixture
def tops(roots: tuple[Path, Path], tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Where both are shown."""
    with both(roots, tmp_path) as view:
        yield view.top, Path(f"{view.point}{roots[1]}")


@contextlib.contextmanager
def both(roots: tuple[Path, Path], tmp_path: Path) -> Iterator[View]:
    with bare(roots[0], tmp_path, f"broadcast={roots[1]}") as view:
        yield view


def numbers(point: Path) -> dict[str, int]:
    """The number of each file and directory."""
    found = {}
    for where, _, names in os.walk(point):
        for name in ("", *names):
            path = os.path.join(where, name)
            found[os.path.relpath(path, point)] = os.stat(path).st_ino
    return found


def test_files_of_different_file_systems_are_different_files(
    roots: tuple[Path, Path], tops: tuple[Path, Path], tmp_path: Path
) -> None:
    places = (tops[0], tops[1], tops[0] / "below")
    assert len({os.stat(place / "3").st_ino for place in places}) == 3
    assert not os.path.samefile(tops[0] / "3", tops[1] / "3")
    assert subprocess.run(["cmp", "-s", tops[0] / "3", tops[1] / "3"]).returncode == 1
    assert subprocess.run(["diff", "-rq", *tops], stdout=subprocess.DEVNULL).returncode == 1
    for place in places:  # other names of one file still are
        assert os.path.samefile(place / "3", place / "inner/link")
    point = tops[0].parents[len(roots[0].parts) - 2]
    packed, unpacked = tmp_path / "packed.tar", tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "cf", packed, "-C", point, "."], check=True)
    subprocess.run(["tar", "xf", packed, "-C", unpacked], check=True)
    for root in (*roots, roots[0] / "below"):
        for number in range(5):
            copy = Path(f"{unpacked}{root}/{number}")
            assert copy.read_text() == (root / f"{number}").read_text()
        assert os.path.samefile(f"{unpacked}{root}/3", f"{unpacked}{root}/inner/link")


def test_numbers_are_the_original_s_on_the_first_file_system_and_stay_the_same_everywhere(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    seen = []
    for _ in range(2):  # as after its process died
        with both(roots, tmp_path) as view:
            seen.append(numbers(view.point))
            for root in roots:
                for where, _, _ in os.walk(f"{view.point}{root}"):
                    with os.scandir(where) as entries:
                        listed = {entry.path: entry.inode() for entry in entries}
                    assert listed == {path: os.stat(path).st_ino for path in listed}
            for name, number in numbers(view.top).items():
                if not name.startswith("below"):
                    assert number == os.stat(roots[0] / name).st_ino
    assert seen[0] == seen[1]
    # A link has the number of the file, and there are three.
    assert len(set(seen[0].values())) == len(seen[0]) - 3


def test_roots_on_one_file_system_share_its_numbers(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (first / "file").write_text("one file")
    os.link(first / "file", second / "name")
    with both((first, second), tmp_path) as view:
        shown = Path(f"{view.point}{second}") / "name"
        assert os.path.samefile(view / "file", shown)
        assert os.stat(shown).st_ino == os.stat(second / "name").st_ino
