"""The core's agents as their Python side sees them: requests that come back as events."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import _core, errors

KEY = bytes(range(32))
PATIENCE = 20.0


class Node:
    """An agent in this process; nothing but the test itself plays its Python side."""

    def __init__(self, place: Path, number: int) -> None:
        place.mkdir()
        self.name = f"node{number}"
        self.number = number
        self.core = _core.Agent(KEY, f"{place}/mem", 1 << 26, f"{place}/disk", 1 << 26)
        self.address = self.core.listen("tcp:127.0.0.1:0")
        self.core.set_self(number)
        self.core.start()

    def events(self, count: int) -> list[Any]:
        """Wait for so many events."""
        found: list[Any] = []
        poll = select.poll()
        poll.register(self.core.fileno(), select.POLLIN)
        end = time.monotonic() + PATIENCE
        while len(found) < count:
            assert time.monotonic() < end, f"only {found} came"
            poll.poll(100)
            while event := self.core.next_event():
                found.append(event)
        return found

    def event(self) -> Any:
        [event] = self.events(1)
        return event


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], list[Node]]]:
    """Start agents that know each other as one view."""
    nodes: list[Node] = []

    def start(count: int) -> list[Node]:
        nodes.extend(Node(tmp_path / str(number), number) for number in range(1, count + 1))
        agree(nodes)
        return list(nodes)

    yield start
    for node in nodes:
        node.core.stop()
        del node.core  # descriptors and tiers go with it, also when a failed test holds the node
    assert all(not list(place.iterdir()) for place in tmp_path.iterdir())


def agree(nodes: list[Node], identity: int = 7) -> None:
    ring = _core.Ring([node.name for node in nodes], 50)
    for node in nodes:
        node.core.set_placement(ring, [one.number for one in nodes], identity)


def test_a_probe_is_answered_without_python(start: Callable[[int], list[Node]]) -> None:
    a, b = start(2)
    b.core.set_news(b"news of b")
    b.core.beat()
    a.core.probe(11, b.address, "", b"", PATIENCE)
    kind, ticket, age, identity, news = a.event()
    assert (kind, ticket, identity, news) == ("answered", 11, 7, b"news of b")
    assert 0 <= age < 10_000
    assert b.core.next_event() is None
    assert not select.select([b.core.fileno()], [], [], 0)[0]
    assert b.core.counters()["probes"] == 1


def test_news_are_heard_also_through_a_helper(start: Callable[[int], list[Node]]) -> None:
    a, b, c = start(3)
    a.core.probe(1, c.address, b.address, b"gossip", PATIENCE, member=c.number)
    assert a.event()[:2] == ("answered", 1)
    assert c.event() == ("heard", 7, a.number, b"gossip")
    agree([a], identity=8)
    a.core.probe(2, c.address, "", b"", PATIENCE)
    assert c.event() == ("heard", 8, a.number, b"")
    a.core.probe(3, c.address, "", b"", PATIENCE, member=99)
    failures = [event for event in a.events(2) if event[0] == "failed"]
    assert [event[1:3] for event in failures] == [(3, "Unavailable")]


def test_calls_and_pulls_come_back_as_events(start: Callable[[int], list[Node]]) -> None:
    a, b = start(2)
    a.core.ask(5, b.address, "service", "method", b"message", PATIENCE)
    while (call := b.core.next_call()) is None:
        select.select([b.core.fileno()], [], [], PATIENCE)
    number, *rest = call
    assert rest == ["service", "method", b"message"]
    b.core.answer(number, b"answer")
    assert a.event() == ("reply", 5, b"answer")

    a.core.pull(6, b"absent \xff", b.address, _core.Tier.MEMORY, PATIENCE)
    kind, ticket, name, text = a.event()
    assert (kind, ticket, name) == ("failed", 6, "NotFound")
    assert issubclass(getattr(errors, name), errors.HoldfastError)
    assert "\\xff" in text


def test_stopping_ends_what_waits(start: Callable[[int], list[Node]]) -> None:
    a, b = start(2)
    for ticket in range(50):
        a.core.ask(ticket, b.address, "service", "method", b"", 3600)
    a.core.stop()
    assert sorted(event[1] for event in a.events(50)) == list(range(50))


def test_what_is_too_long_is_refused_at_once(start: Callable[[int], list[Node]]) -> None:
    (a,) = start(1)
    with pytest.raises(errors.BadInput, match="news of"):
        a.core.set_news(os.urandom(40_000))
    with pytest.raises(errors.BadInput, match="news of"):
        a.core.probe(1, a.address, "", os.urandom(40_000), PATIENCE)
    with pytest.raises(errors.BadInput, match="each has one"):
        a.core.set_placement(_core.Ring(["a", "b"], 5), [1], 1)


def owners(nodes: list[Node], key: bytes, copies: int) -> list[Node]:
    names = _core.Ring([node.name for node in nodes], 50).owners(key, copies)
    return [next(node for node in nodes if node.name == name) for name in names]


def put(client: _core.Client, chain: list[Node], key: bytes, data: bytes) -> None:
    client.put([node.address for node in chain], [node.number for node in chain], key, data)


def test_rule_4_a_put_is_refused_by_whoever_sees_other_owners(
    start: Callable[[int], list[Node]],
) -> None:
    nodes = start(3)
    client = _core.Client(KEY)
    chain = owners(nodes, b"key", 3)
    put(client, chain, b"key", b"bytes")
    assert [client.get(node.address, b"key") for node in nodes] == [b"bytes"] * 3
    agree(nodes[:2], identity=8)
    chain = owners(nodes, b"other", 3)
    with pytest.raises(errors.StaleView, match="other owners") as caught:
        put(client, chain, b"other", b"bytes")
    assert isinstance(caught.value, errors.TryAgain)
    assert all(node.core.tiers()["memory"]["objects"] == 1 for node in nodes)
    with pytest.raises(errors.BadInput, match="the address of each"):
        client.put([nodes[0].address], [], b"key", b"bytes")
    with pytest.raises(errors.BadInput, match="owners"):
        client.drop(nodes[0].address, b"key", [])
    client.close()
