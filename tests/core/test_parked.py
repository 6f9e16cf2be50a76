"""Calls that wait, between real processes: silence, ends, deadlines, forks, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waits import wait_for

from holdfast import _core, errors
from holdfast.agent.parked import Parked, ParkedCalls

KEY = bytes(range(32))
#: Against hangs.
WITHIN = 30.0


class Room:
    """An agent in a process of its own, where callers wait."""

    def __init__(self, directory: Path) -> None:
        script = Path(__file__).with_name("waiting_room.py")
        self.process = subprocess.Popen(
            [sys.executable, script, str(directory), KEY.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.socket, self.tcp = self.process.stdout.readline().split()
        self.client = _core.AgentClient(KEY)

    def enter(
        self, name: bytes = b"", within: float = WITHIN, deadline: float = WITHIN
    ) -> _core.PendingCall:
        return self.client.wait(self.tcp, "room", "enter", name, within=within, deadline=deadline)

    def call(self, method: str, message: bytes = b"") -> bytes:
        return self.client.call(self.socket, "room", method, message, deadline=WITHIN)

    def count(self) -> tuple[int, int]:
        """How many wait, and how many left before they were let in."""
        inside, left = self.call("count").split()
        return int(inside), int(left)

    def close(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGCONT)
        self.process.communicate()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    opened = Room(tmp_path)
    yield opened
    opened.close()


def test_calls_are_answered_when_the_service_likes(room: Room) -> None:
    calls = {name: room.enter(name) for name in (b"a", b"b", b"unwelcome")}
    wait_for(lambda: room.count() == (3, 0))
    assert not any(call.done for call in calls.values())
    room.call("open")
    assert calls[b"a"].result() == b"welcome a"
    assert calls[b"b"].result() == calls[b"b"].result() == b"welcome b"
    with pytest.raises(errors.NotFound, match=r"no such guest \\udcff"):
        calls[b"unwelcome"].result()
    assert all(call.done for call in calls.values())


def test_what_takes_no_time_may_be_waited_for_as_well(room: Room) -> None:
    assert room.client.wait(room.socket, "room", "count", b"").result() == b"0 0"
    with pytest.raises(errors.BadInput, match="no service"):
        room.client.wait(room.socket, "nobody", "count", b"").result()


def test_what_answers_late_cannot_be_called(room: Room) -> None:
    """It would hold a thread of the agent meanwhile."""
    with pytest.raises(errors.BadInput, match=r"room\.enter replies later"):
        room.call("enter")
    assert room.count() == (0, 1)  # it was not kept for nobody


def test_a_call_ends_at_its_deadline(room: Room) -> None:
    short, long = room.enter(within=0.2), room.enter(b"patient")
    with pytest.raises(errors.DeadlineMissed, match="before the deadline"):
        short.result()
    assert room.count() == (1, 1)  # the service knows
    room.call("open")
    assert long.result() == b"welcome patient"


def test_a_call_that_is_dropped_or_cancelled_leaves(room: Room) -> None:
    first, second = room.enter(), room.enter()
    wait_for(lambda: room.count() == (2, 0))
    del first
    wait_for(lambda: room.count() == (1, 1))
    second.cancel()
    with pytest.raises(errors.HoldfastError, match="cancelled"):
        second.result()
    wait_for(lambda: room.count() == (0, 2))


def test_a_client_that_is_killed_leaves(room: Room) -> None:
    script = (
        "import sys; from holdfast import _core\n"
        "client = _core.AgentClient(bytes.fromhex(sys.argv[1]))\n"
        "calls = [client.wait(sys.argv[2], 'room', 'enter', b'') for _ in range(50)]\n"
        "calls[0].result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, KEY.hex(), room.tcp]) as process:
        wait_for(lambda: room.count() == (50, 0))
        process.kill()
    wait_for(lambda: room.count() == (0, 50))


def test_an_agent_that_is_stopped_is_given_up_after_the_deadline(room: Room) -> None:
    call, patient = room.enter(deadline=0.5), room.enter(b"patient")
    wait_for(lambda: room.count() == (2, 0))
    time.sleep(1)  # it lives: that is no silence, though nobody read what it says
    assert not call.done
    room.process.send_signal(signal.SIGSTOP)
    with pytest.raises(errors.DeadlineMissed) as caught:
        call.result()
    assert caught.value.at == room.tcp  # type: ignore[attr-defined]
    assert not patient.done
    room.process.send_signal(signal.SIGCONT)
    wait_for(lambda: room.count() == (1, 1))
    room.call("open")
    assert patient.result() == b"welcome patient"


def test_an_agent_whose_python_is_stuck_is_given_up(room: Room) -> None:
    call = room.enter(deadline=0.5)
    wait_for(lambda: room.count() == (1, 0))
    stuck = threading.Thread(target=room.call, args=("sleep", b"4"))
    stuck.start()
    with pytest.raises(errors.DeadlineMissed, match="no sign of life"):
        call.result()
    assert stuck.is_alive()
    stuck.join()
    wait_for(lambda: room.count() == (0, 1))


def test_an_agent_that_is_killed_fails_all_calls_at_once(room: Room) -> None:
    calls = [room.enter() for _ in range(10)]
    wait_for(lambda: room.count() == (10, 0))
    begin = time.monotonic()
    threading.Timer(0.2, room.process.kill).start()
    for call in calls:
        with pytest.raises(errors.Unavailable):
            call.result()
    assert time.monotonic() - begin < WITHIN / 3
    with pytest.raises(errors.Unavailable):
        room.enter()


def test_many_threads_wait_on_one_connection(room: Room) -> None:
    answers: dict[int, bytes] = {}
    calls = {number: room.enter(b"%d" % number) for number in range(64)}

    def wait(number: int) -> None:
        answers[number] = calls[number].result()

    threads = [threading.Thread(target=wait, args=(number,)) for number in calls]
    for thread in threads:
        thread.start()
    wait_for(lambda: room.count() == (64, 0))
    room.call("open")
    for thread in threads:
        thread.join()
    assert answers == {number: b"welcome %d" % number for number in calls}


def test_a_forked_child_makes_its_own_calls(room: Room) -> None:
    call = room.enter(b"parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(errors.Unavailable, match="forked"):
                call.result()
            assert call.done
            del call
            code = int(room.client.wait(room.tcp, "room", "count", b"").result() != b"1 0")
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert room.count() == (1, 0)
    room.call("open")
    assert call.result() == b"welcome parent"


#: A process of its own: who runs the tests in the background ignores the signal.
INTERRUPTED = """
import os, signal, sys, threading, time
from holdfast import _core

signal.signal(signal.SIGINT, signal.default_int_handler)
key, address, alone = sys.argv[1:]
client = _core.AgentClient(bytes.fromhex(key))
call, other = (client.wait(address, "room", "enter", name) for name in (b"again", b"other"))
thread = threading.Thread(target=other.result)
if alone == "no":  # another thread watches the socket
    thread.start()
    time.sleep(0.2)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
if alone == "elsewhere":  # another thread gets the signal: it does not wake this one
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
try:
    call.result()
except KeyboardInterrupt:
    print("interrupted")
client.call(address, "room", "open", b"")
print(call.result().decode())
if alone == "no":
    thread.join()
"""


@pytest.mark.parametrize("alone", ["yes", "no", "elsewhere"])
def test_ctrl_c_ends_the_wait_and_not_the_call(room: Room, alone: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, KEY.hex(), room.tcp, alone]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=True)
    assert done.stdout.splitlines() == ["interrupted", "welcome again"]


# ---- the agent's side, with a clock of its own ---------------------------------------------------


class Core:
    """Takes answers."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []

    def answer(self, call: int, message: bytes) -> None:
        self.answers.append((call, message.decode()))

    def fail(self, call: int, code: str, message: str) -> None:
        self.answers.append((call, code))


def test_parked_calls_expire_in_the_order_of_their_deadlines() -> None:
    core, calls = Core(), ParkedCalls()
    parked = [Parked() for _ in range(4)]
    assert calls.until_due(0.0) == float("inf")
    for number, (one, deadline) in enumerate(zip(parked, (5.0, 3.0, 4.0, 9.0), strict=True)):
        calls.add(core, number, one, deadline)
    assert calls.until_due(1.0) == 2.0
    parked[2].answer(b"two")
    calls.expire(2.9)
    assert core.answers == [(2, "two")]
    calls.expire(5.0)
    assert core.answers == [(2, "two"), (1, "DeadlineMissed"), (0, "DeadlineMissed")]
    assert [one.cancelled for one in parked] == [True, True, False, False]
    parked[0].answer(b"too late")
    parked[2].fail(errors.BadInput("twice"))
    assert len(core.answers) == 3
    assert len(calls) == 1
    assert calls.until_due(10.0) == 0.0


def test_a_service_learns_that_nobody_waits() -> None:
    core, calls, told = Core(), ParkedCalls(), list[str]()
    gone = Parked(on_cancel=lambda: told.append("gone"))
    late = Parked(on_cancel=lambda: told.append("late"))
    answered = Parked(on_cancel=lambda: told.append("answered"))
    for number, one in enumerate((gone, late, answered)):
        calls.add(core, number, one, 1.0)
    answered.answer(b"yes")
    calls.cancel(0)
    calls.cancel(0)
    calls.cancel(2)
    calls.cancel(77)
    calls.expire(2.0)
    assert told == ["gone", "late"]
    assert core.answers == [(2, "yes"), (1, "DeadlineMissed")]


def test_an_answer_may_come_before_the_call_is_parked() -> None:
    core, calls = Core(), ParkedCalls()
    early = Parked()
    early.fail(errors.NotFound("early"))
    calls.add(core, 1, early, 1.0)
    assert core.answers == [(1, "NotFound")]
    assert len(calls) == 0


def test_a_call_that_was_answered_early_is_not_given_up() -> None:
    told = list[str]()
    early = Parked(on_cancel=lambda: told.append("gone"))
    early.answer(b"early")
    early.give_up()
    assert not told


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nonsense", [None, "text", bytearray(b"bytes")])
def test_an_answer_that_is_not_bytes_is_refused(nonsense: Any, when: str) -> None:
    core, calls, parked = Core(), ParkedCalls(), Parked()
    if when == "before":
        parked.answer(nonsense)
    calls.add(core, 1, parked, 1.0)
    if when == "after":
        parked.answer(nonsense)
    assert core.answers == [(1, "HoldfastError")]
    assert len(calls) == 0


def test_calls_that_ended_are_not_kept_until_their_deadlines() -> None:
    core, calls = Core(), ParkedCalls()
    for number in range(10_000):
        parked = Parked()
        calls.add(core, number, parked, 1e9)
        parked.answer(b"")
    assert len(calls._deadlines) < 200
    assert len(calls) == 0
