"""The simulated network: what it promises to those who simulate on it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.simulation.network import Network, NetworkCall


class Ping:
    """A message."""


class Echo:
    """A process that notes when it was asked, and answers."""

    def __init__(self, network: Network, address: str, answer_after: float = 0.0) -> None:
        self.network = network
        self.process = network.start(address)
        self.process.serves[Ping] = self.serve
        self.asked: list[float] = []
        self.replies: list[tuple[float, Any]] = []
        self.answer_after = answer_after

    def serve(self, call: NetworkCall) -> None:
        self.asked.append(self.network.now)
        if self.answer_after:
            when = self.network.now + self.answer_after
            self.network.at(when, self.process, call.answer, "late")
        else:
            call.answer("here")

    def ask(self, address: str, deadline: float = 1.0) -> None:
        self.network.request(self.process, address, Ping(), deadline, self.settle)

    def settle(self, reply: Any, _: Any) -> None:
        self.replies.append((self.network.now, reply))


def pair(**settings: Any) -> tuple[Network, Echo, Echo]:
    network = Network(1, **settings)
    return network, Echo(network, "a"), Echo(network, "b")


def test_a_request_takes_its_time_and_is_answered() -> None:
    network, a, b = pair(delay=(0.1, 0.2))
    a.ask("b")
    network.run(5.0)
    ((when, reply),) = a.replies
    assert reply == "here"
    assert 0.1 <= b.asked[0] <= 0.2
    assert 0.1 <= when - b.asked[0] <= 0.2
    assert network.sent == 2
    assert network.now == 5.0


@pytest.mark.parametrize("fault", ["dead", "paused", "cut there", "cut back", "lost", "slow"])
def test_whatever_keeps_an_answer_away_fails_the_request_once_at_its_deadline(fault: str) -> None:
    network, a, b = pair()
    if fault == "dead":
        network.kill("b")
    elif fault == "paused":
        network.pause("b")
    elif fault == "cut there":
        network.cut(["a"], ["b"])
    elif fault == "cut back":
        network.cut(["b"], ["a"])
    elif fault == "lost":
        network.loss = 1.0
    else:
        network.delay = (2.0, 2.0)
    a.ask("b")
    network.run(0.99)
    assert a.replies == []
    network.run(9.0)
    assert a.replies == [(1.0, None)]
    assert len(b.asked) == (fault in {"cut back", "slow"})


def test_an_answer_may_come_later_and_too_late() -> None:
    network, a, b = pair(delay=(0.0, 0.0))
    b.answer_after = 0.5
    a.ask("b", deadline=0.6)
    a.ask("b", deadline=0.4)
    network.run(9.0)
    assert a.replies == [(0.4, None), (0.5, "late")]


def test_a_pause_keeps_what_comes_and_a_kill_does_not() -> None:
    network, a, b = pair()
    network.pause("b")
    a.ask("b", deadline=9.0)
    network.run(2.0)
    assert b.asked == []
    network.resume("b")
    network.run(3.0)
    assert b.asked == [2.0]
    assert a.replies[0][1] == "here"
    b.ask("a")
    network.kill("b")
    new = Echo(network, "b")
    network.run(9.0)
    assert b.replies == new.replies == []


def test_doubled_requests_are_answered_once() -> None:
    network, a, b = pair(duplication=1.0)
    a.ask("b")
    network.run(9.0)
    assert len(b.asked) == 2
    assert len(a.replies) == 1


def test_cuts_are_one_way_until_healed() -> None:
    network, a, b = pair(delay=(0.0, 0.0))
    network.cut(["a"], ["b"])
    network.send(b.process, "a", Ping())
    network.send(a.process, "b", Ping())
    network.run(1.0)
    assert (len(a.asked), len(b.asked)) == (1, 0)
    network.heal()
    a.ask("b")
    network.run(2.0)
    assert a.replies == [(1.0, "here")]


def test_one_seed_is_one_course() -> None:
    def course(seed: int) -> list[tuple[float, Any]]:
        network = Network(seed, loss=0.2, duplication=0.2)
        a, _ = Echo(network, "a"), Echo(network, "b")
        for _ in range(50):
            a.ask("b")
        network.run(5.0)
        return a.replies

    assert course(1) == course(1) != course(2)
