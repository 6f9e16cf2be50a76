"""Mounts that an agent makes because a command on another host wants them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.settings import config_of
from support.waits import WITHIN

import holdfast
from holdfast.client.connection import Connection
from holdfast.config import load
from holdfast.errors import HoldfastError, Unavailable
from holdfast.files.mount import control, everywhere
from holdfast.files.service import MountOrder


@pytest.fixture
def connection(alone: holdfast.LocalCluster) -> Iterator[Connection]:
    reached = Connection(alone.directory, config_of(alone))
    yield reached
    reached.client.close()


def test_they_are_configured_as_the_command_is(
    root: Path,
    alone: holdfast.LocalCluster,
    connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the job's file, the environment and the directory of the command, none of which it has."""
    (tmp_path / "mnt").mkdir()
    monkeypatch.chdir(root.parent)
    settings = tmp_path / "job.toml"
    settings.write_text(f'spread_roots = "{root}"\n')
    monkeypatch.setenv("HOLDFAST_CONFIG", str(settings))
    monkeypatch.setenv("HOLDFAST_SESSION", alone.directory.name)
    monkeypatch.setenv("HOLDFAST_RUN_DIR", str(alone.directory.parent))
    members = [msgspec.structs.replace(one, host="elsewhere") for one in connection.routing.live]
    everywhere.mount(load().config, members, str(tmp_path / "mnt"), [root.name])
    [mount] = control.of_session(alone.directory).values()
    assert mount.roots == (control.Root(str(root), spread=True),)
    assert Path(f"{tmp_path}/mnt{root}/deep/er/still/file").read_text() == "down here"
    everywhere.mount(load().config, members, str(tmp_path / "mnt"), [root.name])
    assert list(control.of_session(alone.directory).values()) == [mount], "it mounted anew"
    (tmp_path / "other").mkdir()
    with pytest.raises(
        Unavailable, match=r"could not mount on every host; elsewhere: .* is already mounted"
    ):
        everywhere.mount(load().config, members, str(tmp_path / "mnt"), ["other"])


def test_whatever_goes_wrong_is_told(alone: holdfast.LocalCluster, connection: Connection) -> None:
    [member] = connection.routing.live
    order = MountOrder("/tmp/\0", ["/tmp"], config_of(alone))
    with pytest.raises(HoldfastError, match="null byte"):
        connection.client.wait(
            member.socket, "files", "mount", msgspec.msgpack.encode(order), within=WITHIN
        ).result()
