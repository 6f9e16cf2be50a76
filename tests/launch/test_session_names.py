"""A session's directory is made by Holdfast and removed by it; nobody else's ever is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from programs import holdfast

from holdfast import config
from holdfast.errors import BadInput
from holdfast.session import node


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of the user's that serves as run_dir, with data in it and beside it."""
    path = tmp_path / "home"
    (path / "train").mkdir(parents=True)
    path.chmod(0o700)
    (path / "train/data").write_text("years of work")
    (tmp_path / "beside").write_text("years of work")
    return path


def up(home: Path, session: str, code: int = 0) -> str:
    return holdfast(
        "up", "--nodes", "1", "--session", session, "--set", f"run_dir={home}", code=code
    )


def down(home: Path, session: str) -> str:
    return holdfast("down", "--session", session, "--set", f"run_dir={home}")


def test_a_name_is_no_way_out_of_the_run_dir(home: Path) -> None:
    home.parent.chmod(0o700)
    assert "is not a valid name; use up to 40 letters" in up(home, "..", code=2)
    assert (home / "train/data").read_text() == "years of work"
    assert (home.parent / "beside").read_text() == "years of work"
    for name in ("..", ".", ".hidden", "-", "", "a/b", "x" * 41):
        with pytest.raises(BadInput, match="is not a valid name"):
            config.load(environment={"HOLDFAST_SESSION": name})


def test_a_directory_of_the_users_is_left_alone(home: Path) -> None:
    said = up(home, "train", code=2)
    assert f"{home}/train exists but does not belong to a session, so it is left alone" in said
    assert (home / "train/data").read_text() == "years of work"


@pytest.mark.parametrize("name", ["key", "session.json", "networks.json", "keys"])
def test_nor_is_one_with_a_file_that_is_named_like_ours(home: Path, name: str) -> None:
    (home / "train/data").rename(home / "train" / name)
    (home / "train" / name).chmod(0o600)
    refused(home / "train")
    assert (home / "train" / name).read_text() == "years of work"


def test_nor_is_a_key_beside_data(home: Path) -> None:
    (home / "train/key").write_text("ab" * 32)
    (home / "train/key").chmod(0o600)
    refused(home / "train")
    assert sorted(os.listdir(home / "train")) == ["data", "key"]


def refused(directory: Path) -> None:
    """As an agent does it that finds the directory on its own host."""
    with pytest.raises(BadInput, match="does not belong to a session, so it is left alone"):
        node.clear_stale(str(directory))


def test_nor_is_a_file_or_a_link(home: Path) -> None:
    (home / "notes").write_text("years of work")
    (home / "link").symlink_to("train")
    (home / "nowhere").symlink_to("missing")
    up(home, "notes", code=2)
    for name in ("notes", "link", "nowhere"):
        refused(home / name)
    assert (home / "notes").read_text() == "years of work"
    assert (home / "link/data").read_text() == "years of work"


def test_what_a_start_left_that_was_cut_off_is_removed(home: Path) -> None:
    left: list[tuple[str, ...]] = [(), ("key",), ("key", "networks.json", "session.json.4711")]
    for early in left:
        directory = home / "cut"
        directory.mkdir(mode=0o700)
        for name in early:
            (directory / name).write_text("ab" * 32 if name == "key" else "{}")
            (directory / name).chmod(0o600)
        if early != left[-1]:
            assert node.clear_stale(str(directory))
            assert not directory.exists()
    assert "Removed what session 'cut' left" in up(home, "cut")
    down(home, "cut")
    assert not directory.exists()
