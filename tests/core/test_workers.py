"""The threads of an agent for what takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from support.waits import wait_for

from holdfast import _core, errors
from holdfast.agent.parked import Parked, ParkedCalls
from holdfast.agent.trouble import Trouble
from holdfast.agent.workers import Workers


class Core:
    """Takes answers."""

    def __init__(self) -> None:
        self.answers: dict[int, str] = {}

    def answer(self, call: int, message: bytes) -> None:
        self.answers[call] = message.decode()

    def fail(self, call: int, code: str, message: str) -> None:
        self.answers[call] = f"{code}: {message}"


def test_what_hangs_has_some_threads_and_the_rest_waits_for_them() -> None:
    workers, core, calls = Workers(Trouble(), most=2), Core(), ParkedCalls()
    go_on = threading.Event()
    before = threading.active_count()

    def slow() -> bytes:
        assert go_on.wait(60)
        return b"at last"

    for number in range(5):
        calls.add(core, number, workers.answer("slow", slow), 1e9)
    assert threading.active_count() == before + 2
    go_on.set()
    wait_for(lambda: core.answers == dict.fromkeys(range(5), "at last"))
    wait_for(lambda: threading.active_count() == before)
    calls.add(core, 5, workers.answer("slow", slow), 1e9)  # by a thread of its own again
    wait_for(lambda: 5 in core.answers)


def test_what_no_thread_can_be_started_for_waits_for_those_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers, core, calls = Workers(Trouble()), Core(), ParkedCalls()
    go_on = threading.Event()

    def slow() -> bytes:
        assert go_on.wait(60)
        return b"at last"

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls.add(core, 0, workers.answer("slow", slow), 1e9)
    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", no_thread)
        calls.add(core, 1, workers.answer("slow", slow), 1e9)
    go_on.set()
    wait_for(lambda: core.answers == {0: "at last", 1: "at last"})
    wait_for(lambda: workers._threads == 0)
    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            workers.answer("slow", slow)
    calls.add(core, 2, workers.answer("slow", slow), 1e9)
    wait_for(lambda: 2 in core.answers)


def test_what_only_its_caller_wants_is_not_begun_without_it() -> None:
    workers, core, calls = Workers(Trouble(), most=1), Core(), ParkedCalls()
    go_on, done = threading.Event(), list[str]()

    def slow() -> bytes:
        assert go_on.wait(60)
        return b""

    def work() -> bytes:
        done.append("work")
        return b""

    calls.add(core, 0, workers.answer("slow", slow), 1e9)
    calls.add(core, 1, workers.answer("mount", work, only_for_caller=True), 1e9)
    calls.add(core, 2, workers.answer("refresh", work), 1e9)
    calls.cancel(1)
    calls.cancel(2)
    go_on.set()
    wait_for(lambda: workers._threads == 0)
    assert done == ["work"]


def test_what_fails_is_refused_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(_core, "log_warning", told.append)
    trouble, core, calls = Trouble(), Core(), ParkedCalls()
    workers = Workers(trouble)

    def fails(error: Exception) -> Callable[[], bytes]:
        def work() -> bytes:
            raise error

        return work

    parked: list[Parked] = [
        workers.answer("files.mount", fails(error))
        for error in (errors.Busy("it is in use"), ZeroDivisionError("once"))
    ]
    for number, one in enumerate(parked):
        calls.add(core, number, one, 1e9)
    wait_for(lambda: len(core.answers) == 2)
    assert core.answers[0] == "Busy: it is in use"
    assert core.answers[1] == "HoldfastError: files.mount failed: ZeroDivisionError('once')"
    workers.run("telling", fails(ZeroDivisionError("again")))
    wait_for(lambda: trouble.counters["failures"] == 2)
    assert "files.mount failed at test_workers.py" in told[0]
