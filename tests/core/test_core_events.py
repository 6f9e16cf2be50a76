"""The core's agents as their Python side sees them: requests that come back as events."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cores import core_in
from support.waits import wait_for

from holdfast import _core, errors

KEY = bytes(range(32))
WITHIN = 20.0


class Node:
    """An agent in this process; nothing but the test itself plays its Python side."""

    def __init__(self, place: Path, number: int) -> None:
        place.mkdir()
        self.name = f"node{number}"
        self.number = number
        self.core = core_in(place, KEY, 1 << 26)
        self.address = self.core.listen("tcp:127.0.0.1:0")
        self.core.set_self(number)
        self.core.start()

    def events(self, count: int) -> list[Any]:
        """Wait for so many events."""
        found: list[Any] = []
        poll = select.poll()
        poll.register(self.core.fileno(), select.POLLIN)

        def came() -> bool:
            poll.poll(100)
            while event := self.core.next_event():
                if not isinstance(event, _core.IncidentEvent):  # on a busy machine requests wait
                    found.append(event)
            return len(found) >= count

        wait_for(came, lambda: f"only {found} came")
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
    addresses = [node.address for node in nodes]
    for node in nodes:
        numbers = [one.number for one in nodes]
        node.core.set_placement(_core.Placement(ring, numbers, addresses, identity=identity))


def ask(node: Node, ticket: int, other: Node, message: bytes, deadline: float) -> None:
    node.core.ask(
        ticket,
        other.address,
        service="service",
        method="method",
        message=message,
        deadline=deadline,
    )


def heard(node: Node) -> tuple[int, int, bytes]:
    event = node.event()
    assert isinstance(event, _core.HeardEvent)
    return event.identity, event.sender, event.news


def test_a_probe_is_answered_without_python(start: Callable[[int], list[Node]]) -> None:
    a, b = start(2)
    b.core.set_news(b"news of b")
    b.core.beat()
    a.core.probe(11, b.address, via="", news=b"", deadline=WITHIN)
    answered = a.event()
    assert isinstance(answered, _core.AnsweredEvent)
    assert (answered.ticket, answered.identity, answered.news) == (11, 7, b"news of b")
    assert 0 <= answered.age < 10
    assert b.core.next_event() is None
    assert not select.select([b.core.fileno()], [], [], 0)[0]
    assert b.core.counters()["probes"] == 1


def test_a_probe_tells_how_long_the_python_loop_has_stood_still(
    start: Callable[[int], list[Node]],
) -> None:
    a, b = start(2)

    def age() -> float:
        a.core.probe(1, b.address, via="", news=b"", deadline=WITHIN)
        answered = a.event()
        assert isinstance(answered, _core.AnsweredEvent)
        return answered.age

    b.core.beat()
    time.sleep(0.1)
    assert age() >= 0.1
    before = time.monotonic()
    b.core.beat()
    assert age() <= time.monotonic() - before + 0.001  # it is rounded to milliseconds


def test_news_are_heard_also_through_a_helper(start: Callable[[int], list[Node]]) -> None:
    a, b, c = start(3)
    a.core.probe(1, c.address, via=b.address, news=b"gossip", deadline=WITHIN, member=c.number)
    assert isinstance(a.event(), _core.AnsweredEvent)
    assert heard(c) == (7, a.number, b"gossip")
    agree([a], identity=8)
    a.core.probe(2, c.address, via="", news=b"", deadline=WITHIN)
    assert heard(c) == (8, a.number, b"")
    a.core.probe(3, c.address, via="", news=b"", deadline=WITHIN, member=99)
    failures = [event for event in a.events(2) if isinstance(event, _core.FailedEvent)]
    assert [(event.ticket, event.code) for event in failures] == [(3, "Unavailable")]


def test_calls_and_pulls_come_back_as_events(start: Callable[[int], list[Node]]) -> None:
    a, b = start(2)
    ask(a, 5, b, b"message", WITHIN)
    while (call := b.core.next_call()) is None:
        select.select([b.core.fileno()], [], [], WITHIN)
    told = (call.service, call.method, call.message, call.within)
    assert told == ("service", "method", b"message", None)
    b.core.answer(call.id, b"answer")
    reply = a.event()
    assert isinstance(reply, _core.ReplyEvent)
    assert (reply.ticket, reply.message) == (5, b"answer")

    a.core.pull(6, b"absent \xff", b.address, _core.Tier.MEMORY, WITHIN)
    failed = a.event()
    assert isinstance(failed, _core.FailedEvent)
    assert (failed.ticket, failed.code) == (6, "NotFound")
    assert issubclass(getattr(errors, failed.code), errors.HoldfastError)
    assert "\\xff" in failed.message


def test_stopping_ends_what_waits(start: Callable[[int], list[Node]]) -> None:
    a, b = start(2)
    for ticket in range(50):
        ask(a, ticket, b, b"", 3600)
    a.core.stop()
    assert sorted(event.ticket for event in a.events(50)) == list(range(50))


def test_what_is_too_long_is_refused_at_once(start: Callable[[int], list[Node]]) -> None:
    (a,) = start(1)
    with pytest.raises(errors.BadInput, match="news of"):
        a.core.set_news(os.urandom(40_000))
    with pytest.raises(errors.BadInput, match="news of"):
        a.core.probe(1, a.address, via="", news=os.urandom(40_000), deadline=WITHIN)
    ring = _core.Ring(["a", "b"], 5)
    with pytest.raises(errors.BadInput, match=r"1 members .* give one for each"):
        _core.Placement(ring, [1], ["tcp:127.0.0.1:1", "tcp:127.0.0.1:2"], identity=1)
    with pytest.raises(errors.BadInput, match=r"1 members .* give one for each"):
        _core.Placement(ring, [1, 2], ["tcp:127.0.0.1:1"], identity=1)


def owners(nodes: list[Node], key: bytes, copies: int) -> list[Node]:
    names = _core.Ring([node.name for node in nodes], 50).owners(key, copies)
    return [next(node for node in nodes if node.name == name) for name in names]


def put(client: _core.AgentClient, chain: list[Node], key: bytes, data: bytes) -> None:
    client.put([node.address for node in chain], [node.number for node in chain], key, data)


def test_rule_4_a_put_is_refused_by_whoever_sees_other_owners(
    start: Callable[[int], list[Node]],
) -> None:
    nodes = start(3)
    client = _core.AgentClient(KEY)
    chain = owners(nodes, b"key", 3)
    put(client, chain, b"key", b"bytes")
    assert [client.get(node.address, b"key") for node in nodes] == [b"bytes"] * 3
    agree(nodes[:2], identity=8)
    chain = owners(nodes, b"other", 3)
    with pytest.raises(errors.StaleView, match="other owners") as caught:
        put(client, chain, b"other", b"bytes")
    assert isinstance(caught.value, errors.TryAgain)
    assert all(node.core.tiers()["memory"]["objects"] == 1 for node in nodes)
    # Gets are never refused, whoever owns what.
    assert [client.get(node.address, b"key") for node in nodes] == [b"bytes"] * 3
    with pytest.raises(errors.BadInput, match="the address of each"):
        client.put([nodes[0].address], [], b"key", b"bytes")
    with pytest.raises(errors.BadInput, match="owners"):
        client.drop(nodes[0].address, b"key", [])
    client.close()


def test_rule_9_tombstones_are_compared_and_merged(start: Callable[[int], list[Node]]) -> None:
    a, b = nodes = start(2)
    client = _core.AgentClient(KEY)
    keys = [b"key%d" % i for i in range(300)]
    for key in keys:
        chain = owners(nodes, key, 2)
        put(client, chain, key, b"bytes")
        client.drop(a.address, key, [node.number for node in chain])
    assert a.core.notice_digest()[0] == 300
    assert b.core.notice_digest() == (0, 0)
    differ = [
        bucket
        for bucket, (ours, theirs) in enumerate(
            zip(a.core.notice_buckets(), b.core.notice_buckets(), strict=True)
        )
        if ours != theirs
    ]
    expected = 0
    for key in keys:
        notice = _core.xxh3_64(_core.tombstone(key))
        expected ^= notice
        assert notice >> 56 in differ
    assert a.core.notice_digest()[1] == expected
    assert b.core.learn(a.core.notices_in(differ)) == 300
    assert b.core.learn(a.core.notices_in(differ)) == 0
    assert a.core.notice_digest() == b.core.notice_digest()
    assert b.core.tiers()["memory"]["objects"] == 0
    assert b.core.counters()["notices"] == 300
    for node in nodes:
        with pytest.raises(errors.Dropped) as caught:
            client.get(node.address, keys[0])
        assert isinstance(caught.value, errors.NotFound)
    with pytest.raises(errors.KeyExists, match="was dropped"):
        put(client, owners(nodes, keys[0], 2), keys[0], b"bytes")
    assert a.core.learn([b"nonsense", b""]) == 0
    b.core.pull(1, keys[0], a.address, _core.Tier.MEMORY, WITHIN)
    failed = b.event()
    assert isinstance(failed, _core.FailedEvent)
    assert (failed.ticket, failed.code) == (1, "Dropped")
    client.close()


def test_rule_8_surveys_find_what_a_co_owner_lacks(start: Callable[[int], list[Node]]) -> None:
    a, b, _ = nodes = start(3)
    client = _core.AgentClient(KEY)
    keys = [b"key%d" % i for i in range(200)]
    for key in keys:
        put(client, owners(nodes, key, 2), key, key)
    assert a.core.survey()[b.number] == b.core.survey()[a.number]
    assert (
        sum(count for count, _ in a.core.survey().values()) == a.core.tiers()["memory"]["objects"]
    )

    # c is gone: a and b own everything, and each lacks what only c and the other had.
    agree([a, b], identity=8)
    assert a.core.survey()[b.number] != b.core.survey()[a.number]
    for node, other in ((a, b), (b, a)):
        mine = {one.key for one in node.core.held_with(other.number, list(range(64)))}
        theirs = {one.key for one in other.core.held_with(node.number, list(range(64)))}
        for ticket, key in enumerate(sorted(theirs - mine)):
            node.core.pull(ticket, key, other.address, _core.Tier.MEMORY, WITHIN)
        pulled = node.events(len(theirs - mine))
        assert {type(event) for event in pulled} == {_core.PulledEvent}
    assert a.core.survey() == {b.number: b.core.survey()[a.number]}
    assert a.core.survey()[b.number][0] == 200
    assert a.core.buckets_with(b.number) == b.core.buckets_with(a.number)
    assert len(a.core.buckets_with(b.number)) == 64
    assert a.core.counters()["pulled_bytes"] > 0

    # c is back: what is not owned any more is a stray, and only strays are trimmed.
    agree(nodes, identity=9)
    strays = a.core.strays(1000, b"")
    assert [one.key for one in strays] == sorted(
        key for key in keys if a not in owners(nodes, key, 2)
    )
    assert a.core.strays(3, strays[0].key)[0].key == strays[1].key
    kept = next(key for key in keys if a in owners(nodes, key, 2))
    held = a.core.held(kept)
    assert held is not None
    assert (held.key, held.size, held.copies) == (kept, len(kept), 2)
    assert (held.crc32c, held.tier) == (_core.crc32c(kept), _core.Tier.MEMORY)
    assert not a.core.trim(kept, held.size, held.crc32c)
    a.core.raise_copies(kept, held.size + 1, held.crc32c, held.copies + 1)  # another object
    a.core.raise_copies(kept, held.size, held.crc32c, held.copies - 1)  # fewer change nothing
    assert [one.copies for one in (a.core.held(kept),) if one] == [held.copies]
    a.core.raise_copies(kept, held.size, held.crc32c, held.copies + 1)
    assert [one.copies for one in (a.core.held(kept),) if one] == [held.copies + 1]
    assert all(a.core.trim(one.key, one.size, one.crc32c) for one in strays)
    assert a.core.held(strays[0].key) is None
    assert a.core.strays(1000, b"") == []
    assert a.core.counters()["trimmed"] == len(strays)
    client.close()
