"""Messages that make no sense, from somebody who may send them: each is answered, and survived."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cores import core_in
from support.waits import wait_for

import holdfast
from holdfast import _core, errors
from holdfast.client.messages import AgentStatus
from holdfast.membership.view import Entry, Member, MembershipStatus, State, encode

METHODS = [
    ("agent", "status"),
    ("membership", "view"),
    ("membership", "join"),
    ("membership", "doubt"),
    ("agent", "events"),
    ("restoring", "ask"),
    ("agent", "arm"),
    ("files", "refresh"),
    ("files", "broadcast"),
    ("files", "broadcasting"),
    ("files", "mount"),
    ("space", "learn"),
    ("agent", "nothing"),
    ("nobody", "status"),
    ("", ""),
]
CALL = 10
WITHIN = 30.0


@pytest.fixture
def agents() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=2, probe_period="0.1 s", deadline="5 s") as cluster:
        yield cluster


@pytest.fixture
def client(agents: holdfast.LocalCluster) -> Iterator[_core.AgentClient]:
    made = _core.AgentClient(bytes.fromhex((agents.directory / "key").read_text()))
    yield made
    made.close()


def status(client: _core.AgentClient, member: Member) -> AgentStatus:
    answer = client.call(member.socket, "agent", "status", b"", deadline=WITHIN)
    return msgspec.msgpack.decode(answer, type=AgentStatus)


class Stranger:
    """The native half of an agent: it speaks the protocol, and says what the test wants."""

    def __init__(self, agents: holdfast.LocalCluster, where: Path, number: int) -> None:
        key = bytes.fromhex((agents.directory / "key").read_text())
        self.core = core_in(where, key)
        address = self.core.listen("tcp:127.0.0.1:0")
        self.core.set_self(number)
        self.core.start()
        self.member = Member(
            node=f"stranger-{number}",
            number=number,
            started=time.time_ns(),
            address=address,
            socket="",
            pid=1,
        )

    def step(self, answer: bytes) -> None:
        """Answer all calls so, and forget what was heard."""
        self.core.beat()
        select.select([self.core.fileno()], [], [], 0.05)
        while (call := self.core.next_call()) is not None:
            self.core.answer(call.id, answer)
        while self.core.next_event() is not None:
            pass


@pytest.fixture
def stranger(agents: holdfast.LocalCluster, tmp_path: Path) -> Iterator[Callable[[int], Stranger]]:
    made: list[Stranger] = []

    def make(number: int) -> Stranger:
        made.append(Stranger(agents, tmp_path, number))
        return made[-1]

    yield make
    while made:
        made.pop().core.stop()


def test_news_of_a_probe_that_cannot_be_read(
    agents: holdfast.LocalCluster, client: _core.AgentClient, stranger: Callable[[int], Stranger]
) -> None:
    victim = agents.nodes[0].member
    before = status(client, victim).counters
    odd = stranger(11)
    odd.core.probe(1, victim.address, via="", news=b"not msgpack", deadline=5.0)
    wait_for(lambda: status(client, victim).counters["ill_formed"] > before["ill_formed"])
    assert agents.nodes[0].alive
    assert "cannot decode the gossip in a probe" in agents.nodes[0].log.read_text()


def raw_call(member: Member, service: bytes, method: bytes, body: bytes) -> tuple[int, bytes]:
    """Call with names that no str can have; give the status and the text of the reply."""
    meta = b"".join(struct.pack("<I", len(one)) + one for one in (service, method))
    crc = _core.crc32c(body)
    header = struct.pack(
        "<IBBHHHIQQII", 0x46444C48, 1, CALL, 0, 0, 0, len(meta), 1, len(body), crc, 9000
    )
    header += struct.pack("<II", _core.crc32c(meta, _core.crc32c(header)), 0)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WITHIN)
        connection.connect(member.socket.removeprefix("unix:"))
        connection.sendall(header + meta + body)
        reply = connection.makefile("rb")
        head = reply.read(48)
        return struct.unpack_from("<H", head, 8)[0], reply.read(
            struct.unpack_from("<I", head, 12)[0]
        )


def test_a_call_of_a_name_that_is_no_text_is_refused(
    agents: holdfast.LocalCluster, client: _core.AgentClient
) -> None:
    victim = agents.nodes[0].member
    for service, method in (
        (b"\xff\xfe", b"status"),
        (b"agent", b"\xc3\x28"),
        (b"\0", b"\xed\xb2\x80"),
    ):
        code, text = raw_call(victim, service, method, b"")
        assert code == _core.status_codes()["BadInput"]
        assert b"has no" in text
    assert status(client, victim).node == victim.node


UNREADABLE = [
    ("restoring", "ask", b"\xc1"),
    ("membership", "join", b"\x91\xa2\xff\xfe"),
    ("membership", "view", b"\x92\xa1x\x00"),
    ("agent", "arm", b"\xc1"),
    ("files", "refresh", b""),
    ("space", "learn", b"\xc1"),
    ("files", "broadcast", msgspec.msgpack.encode([b"/nowhere", 1 << 63])),
]


def test_a_message_that_cannot_be_read_is_refused_in_a_sentence(
    agents: holdfast.LocalCluster, client: _core.AgentClient
) -> None:
    victim = agents.nodes[0].member
    for count, (service, method, message) in enumerate(UNREADABLE):
        with pytest.raises(errors.BadInput, match="another version"):
            client.call(victim.socket, service, method, message)
        assert status(client, victim).counters["ill_formed"] == count + 1


def test_a_member_whose_answers_make_no_sense_counts_as_one_that_does_not_answer(
    agents: holdfast.LocalCluster, client: _core.AgentClient, stranger: Callable[[int], Stranger]
) -> None:
    member = agents.nodes[0].member
    odd = stranger(22)
    odd.core.set_news(b"nonsense")  # in answers to probes
    before = status(client, member).counters["ill_formed"]
    client.call(member.socket, "membership", "join", encode([Entry(odd.member, 0, State.ALIVE)]))

    def lost() -> bool:
        odd.step(b"\xc1")  # also to the exchange of views, and to restoring
        return status(client, member).of("membership", MembershipStatus).members["lost"] > 0

    wait_for(lost)
    assert status(client, member).counters["ill_formed"] >= before + 3
    wait_for(
        lambda: status(client, member).of("membership", MembershipStatus).members["alive"] == 2
    )
    assert all(node.alive for node in agents.nodes)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(METHODS),
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-(2**63), 2**64 - 1),
                st.floats(),
                st.text(max_size=8),
                st.binary(max_size=8),
                st.sampled_from(["Compare", "Exchange", "Confirm", "ExchangeDropped"]).map(
                    lambda tag: {
                        "type": tag,
                        "identity": 0,
                        "sender": 2**64 - 1,
                        "digest": [1, 2**64 - 1],
                        "buckets": [0, 2**40],
                        "held": [[b"", -1, 2**64 - 1, 9, 70_000]],
                        "keys": [b"", b"k" * 5000],
                    }
                ),
            ),
            lambda inner: (
                st.lists(inner, max_size=5)
                | st.dictionaries(st.text(max_size=8), inner, max_size=5)
            ),
            max_leaves=12,
        ).map(msgspec.msgpack.encode),
    ),
)
def test_no_message_ends_an_agent(
    agents: holdfast.LocalCluster,
    client: _core.AgentClient,
    method: tuple[str, str],
    message: bytes,
) -> None:
    victim = agents.nodes[1]
    refusal: errors.HoldfastError | None = None
    try:
        client.call(victim.member.socket, *method, message, deadline=WITHIN)
    except errors.HoldfastError as error:
        refusal = error
    assert not isinstance(refusal, errors.TryAgain), "it was not answered"
    assert status(client, victim.member).node == "node-1"
    assert victim.alive


def test_members_that_cannot_be_do_not_spoil_the_agent(
    agents: holdfast.LocalCluster, client: _core.AgentClient
) -> None:
    """Each is well-formed, and would raise where it is used."""
    victim = agents.nodes[0].member
    known = msgspec.to_builtins(victim)
    for changed in (
        {"node": ""}, {"node": "n" * 100_000}, {"address": "x" * 100_000}, {"rack": "r" * 100_000},
        {"socket": "s" * 100_000}, {"started": 2**64 - 1}, {"role": "o" * 100_000},
    ):  # fmt: skip
        other = known | {"number": 5, "node": "elsewhere"} | changed
        with pytest.raises(errors.BadInput):
            client.call(
                victim.socket, "membership", "join", msgspec.msgpack.encode([[other, 0, 0]])
            )
    entry = msgspec.msgpack.encode([[known, 2**64 - 1, 2]])  # it could not say anything greater
    with pytest.raises(errors.BadInput):
        client.call(victim.socket, "membership", "join", entry)
    wait_for(
        lambda: status(client, victim).of("membership", MembershipStatus).members["alive"] == 2
    )
    with agents.connect() as job:
        job.objects.put("after", b"all", copies=2)
        assert job.objects.get("after") == b"all"
