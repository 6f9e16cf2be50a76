"""Rosters in real agents: who never heard of one is told, and what lies in windows is restored."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator

import pytest
from support.pieces import piece_keys
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.membership.rosters import roster_of
from holdfast.membership.view import Member
from holdfast.objects.steps import ObjectSteps, PutStep
from holdfast.placement.windows import Roster


class Program:
    """A program that puts pieces where their keys say."""

    def __init__(self, job: holdfast.Job) -> None:
        self.connection = job._connection
        self.routing = self.connection.routing
        self._objects = job.objects

    def members(self) -> list[Member]:
        self.connection.refresh()
        return self.routing.live

    def roster(self) -> Roster:
        return roster_of(self.members())

    def owners(self, key: bytes) -> list[Member]:
        return self.routing.owners.of(key, 2)

    def put_at(self, chain: list[Member], key: bytes, data: bytes) -> None:
        """Without trying again."""
        self.connection.client.put(
            [member.address for member in chain], [member.number for member in chain], key, data
        )

    def put(self, key: bytes, data: bytes) -> None:
        steps = ObjectSteps(self.routing, time.monotonic, random.Random(), 20.0)

        def put(step: PutStep) -> None:
            assert {member.number for member in step.chain} == set(step.owners)
            addresses = [member.address for member in step.chain]
            self.connection.client.put(addresses, step.owners, key, data)

        self._objects._requests.drive(key, steps.put(key, 2), put)

    def copies(self, key: bytes) -> dict[str, bytes]:
        """Return the bytes that each node holds."""
        found = {}
        for member in self.members():
            with contextlib.suppress(errors.NotFound, errors.TryAgain):
                found[member.node] = self.connection.client.get(
                    member.address, key, member=member.number, deadline=1.0
                )
        return found

    def in_place(self, contents: dict[bytes, bytes]) -> bool:
        """Whether owners, and nobody else, hold all of these, and just these bytes."""
        self.members()
        return all(
            self.copies(key) == {owner.node: content for owner in self.owners(key)}
            for key, content in contents.items()
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.LocalCluster]:
    """Five nodes that notice a death in a second."""
    monkeypatch.setenv("HOLDFAST_PROBE_PERIOD", "0.1 s")
    with holdfast.local_cluster(nodes=5, memory="64 MiB", disk="64 MiB") as started:
        yield started


@pytest.fixture
def program(cluster: holdfast.LocalCluster) -> Iterator[Program]:
    with cluster.connect() as job:
        yield Program(job)


def bytes_for(key: bytes) -> bytes:
    return random.Random(key).randbytes(4 * 1000)


def test_who_never_heard_of_a_roster_refuses_and_is_told(program: Program) -> None:
    roster = program.roster()
    key = piece_keys(roster)[0]
    assert program.owners(key) == []
    program.connection.know(roster)
    first, second = chain = program.owners(key)
    with pytest.raises(errors.StaleView):
        program.put_at(chain, key, b"four")
    for member in chain:
        program.connection.merge(member)
    program.put_at(chain, key, b"four")
    assert program.copies(key) == {first.node: b"four", second.node: b"four"}


def test_an_agent_refuses_what_is_no_roster(program: Program) -> None:
    [member, *_] = program.members()
    call = program.connection.client.call
    for message in (b"\xc1", b"\x91\xc4\x01\xc1"):
        with pytest.raises(errors.BadInput, match="another version"):
            call(member.address, "space", "learn", message)
    with pytest.raises(errors.BadInput, match="no method 'forget'"):
        call(member.address, "space", "forget", b"")


def test_pieces_lie_in_their_windows_and_come_back_to_them(
    cluster: holdfast.LocalCluster, program: Program
) -> None:
    roster = program.roster()
    program.connection.know(roster)
    contents = {key: bytes_for(key) for key in piece_keys(roster)}
    for key, content in contents.items():
        program.put(key, content)
    assert program.in_place(contents)
    before = {key: [owner.node for owner in program.owners(key)] for key in contents}
    cluster.kill(2)
    wait_for(lambda: len(program.members()) == 4)
    wait_for(lambda: program.in_place(contents), "lost copies did not come back")
    for key, owners in before.items():  # nothing else has moved
        stays = {owner for owner in owners if owner != "node-2"}
        assert stays <= set(program.copies(key))
    cluster.restart(2)
    wait_for(lambda: len(program.members()) == 5)
    wait_for(lambda: program.in_place(contents), "they did not move back")
    assert before == {key: [owner.node for owner in program.owners(key)] for key in contents}
    # The new agent has heard of the roster by itself.
    for key in piece_keys(roster, version=1):
        program.put_at(program.owners(key), key, bytes_for(key))


def test_a_program_that_knows_no_roster_finds_pieces_all_the_same(
    cluster: holdfast.LocalCluster, program: Program
) -> None:
    roster = program.roster()
    program.connection.know(roster)
    key = piece_keys(roster)[4]
    program.put(key, b"four")
    with cluster.connect() as job:
        other = Program(job)
        assert other.owners(key) == []
        get = job._connection.client.get
        found = job.objects._requests.find(key, lambda at, number: get(at, key, member=number))
        assert found == b"four"
