"""Mounts hear of each refresh that reaches their agent, whatever fails meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.waits import wait_for

from holdfast import _core
from holdfast.agent.trouble import Trouble
from holdfast.agent.workers import Workers
from holdfast.files.mount import control
from holdfast.files.service import FilesService


class Mounts:
    """The mounts of a node, and what they were told."""

    def __init__(self) -> None:
        self.told: list[list[bytes]] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def refresh(
        self, directory: str, node: str, names: Sequence[bytes], within: float
    ) -> list[str]:
        self.told.append(list(names))
        self.meanwhile()
        return []


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> Mounts:
    made = Mounts()
    monkeypatch.setattr(control, "refresh", made.refresh)
    monkeypatch.setattr(control, "of_session", lambda directory, node: {})
    monkeypatch.setattr(_core, "log_warning", lambda text: None)
    return made


@pytest.fixture
def service(tmp_path: Path) -> FilesService:
    (tmp_path / "node-0.mount-0").touch()
    member = SimpleNamespace(node="node-0", socket=f"unix:{tmp_path}/node-0")
    core = SimpleNamespace(trust_files=lambda seconds: None)
    shell: Any = SimpleNamespace(core=core, member=member, workers=Workers(Trouble()))
    return FilesService(shell)


def fail() -> None:
    raise MemoryError


def test_mounts_are_told_although_no_thread_could_be_started(
    mounts: Mounts, service: FilesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as none_left:

        def no_thread(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        none_left.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            service.handle("refreshed", b"/a")
    service.handle("refreshed", b"/b")
    wait_for(lambda: mounts.told == [[b"/a", b"/b"]])


def test_mounts_are_told_although_telling_them_failed(
    mounts: Mounts, service: FilesService
) -> None:
    mounts.meanwhile = fail
    service.handle("refreshed", b"/a")
    wait_for(lambda: mounts.told == [[b"/a"]] and not service._telling)
    mounts.meanwhile = lambda: None
    service.tick(time.monotonic())
    wait_for(lambda: mounts.told == [[b"/a"]] * 2 and not service._telling)
    service.tick(time.monotonic())  # nothing is left to be told
    assert not service._telling


def test_mounts_are_told_of_a_path_that_is_refreshed_again_meanwhile(
    mounts: Mounts, service: FilesService
) -> None:
    """They may have looked before it changed once more."""

    def again() -> None:
        mounts.meanwhile = lambda: None
        service.handle("refreshed", b"/a")

    mounts.meanwhile = again
    service.handle("refreshed", b"/a")
    wait_for(lambda: mounts.told == [[b"/a"]] * 2)
