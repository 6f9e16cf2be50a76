"""Another key space in real agents: put, get, a death, restoring, drop, and who is left out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from healing import Inside
from support import trio
from support.waits import wait_for

import holdfast
from holdfast import errors, services
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey
from holdfast.launch.launchers import local
from holdfast.membership.owners import Owners
from holdfast.membership.view import Member, State

KEYS = [f"@trio/{number}" for number in range(60)]
SPACES = (trio.TRIO,)


@pytest.fixture(autouse=True)
def _trio(monkeypatch: pytest.MonkeyPatch, _short_periods: None) -> None:
    """Let agents and programs have the key space."""
    tests = str(Path(trio.__file__).parents[1])
    start = (
        f"import sys; sys.path.insert(0, {tests!r}); from holdfast import services; "
        "from support.trio import TRIO; services.KEY_SPACES = (TRIO,); services.main()"
    )
    monkeypatch.setattr(local, "AGENT", [sys.executable, "-c", start])
    monkeypatch.setattr(services, "KEY_SPACES", SPACES)


@pytest.fixture
def six() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=6, memory="64 MiB", disk="64 MiB") as cluster:
        yield cluster


@pytest.fixture
def inside(six: holdfast.LocalCluster) -> Iterator[Inside]:
    with Inside(six) as looking:
        yield looking


def owners(six: holdfast.LocalCluster, inside: Inside, key: str, copies: int = 3) -> list[Member]:
    """Return the owners of a key as the agent of node 0 sees them."""
    seen = Owners(inside.view(0), six.config.virtual_nodes, SPACES)
    return seen.of(key.encode(), copies)


def nodes(members: list[Member]) -> list[str]:
    return sorted(member.node for member in members)


def in_place(six: holdfast.LocalCluster, inside: Inside) -> bool:
    held = inside.all_holders(KEYS)
    return all(held[key] == nodes(owners(six, inside, key)) for key in KEYS)


def test_objects_lie_in_their_group_and_come_back_to_it(
    six: holdfast.LocalCluster, inside: Inside
) -> None:
    contacts = Contacts(six.directory, 5.0)
    with contextlib.closing(contacts.client), six.connect() as job:
        for key in KEYS:
            job.objects.put(key, key.encode() * 1000, copies=3)
        job.objects.put("plain", b"bytes", copies=2)
        assert in_place(six, inside)
        six.kill(5)
        wait_for(lambda: survey(contacts).under_replicated > 0)  # while they are waited for
        lost = {key for key in KEYS if "node-5" not in inside.holders(key)}
        for key in KEYS:  # before they are restored
            assert job.objects.get(key) == key.encode() * 1000
        assert lost
        wait_for(lambda: inside.settled(list(range(5))))
        assert in_place(six, inside)
        assert survey(contacts).under_replicated == 0
        assert sum(inside.restoring(node).restored for node in range(5)) > 5
        job.objects.put("@trio/later", b"later", copies=3)
        assert inside.holders("@trio/later") == nodes(owners(six, inside, "@trio/later"))
        job.objects.drop(KEYS[0])
        with pytest.raises(errors.Dropped):
            job.objects.get(KEYS[0])
        assert inside.holders(KEYS[0]) == []


def test_a_suspect_is_left_out_where_all_suspect_it_and_nowhere_else(
    six: holdfast.LocalCluster, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = next(
        key
        for key in KEYS
        if "node-0" not in (names := nodes(owners(six, inside, key, 4))) and "node-5" in names[:4]
    )
    order = owners(six, inside, key, 6)
    victim = next(member for member in order if member.node == "node-5")
    around = [member for member in order if member is not victim][:3]
    everybody = order[:3]

    def put(chain: list[Member], *without: Member) -> None:
        inside.client.put(
            [member.address for member in chain],
            [member.number for member in chain],
            key.encode(),
            b"bytes",
            without=[member.number for member in without],
        )

    with pytest.raises(errors.StaleView, match="considers alive"):
        put(around, victim)
    with pytest.raises(errors.BadInput, match="a writer may skip at most 1"):
        put(around, victim, order[-1])
    six.stop(5)
    wait_for(lambda: all(inside.state(victim, node) is not State.ALIVE for node in range(5)))
    put(around, victim)
    assert inside.holders(key) == nodes(around)
    six.resume(5)
    wait_for(lambda: all(inside.state(victim, node) is State.ALIVE for node in range(5)))
    with pytest.raises(errors.StaleView, match="considers alive"):
        put(around, victim)
    # What it missed comes to it, and leaves who stood in.
    wait_for(lambda: inside.holders(key) == nodes(everybody))
