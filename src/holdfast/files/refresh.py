"""Invalidation of cached files: telling all nodes that they may have changed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from ..client.connection import Connection
from ..client.contacts import at_once
from ..errors import BadInput, HoldfastError
from ..membership.view import Member
from . import paths

#: A mount that has not looked again by then is stuck; it is not waited for.
MOUNTS_WITHIN = 1.0
#: Of the paths that are told at once: a call that waits has room for twice as many.
_MOST_BYTES = 32 << 10
_BESIDE_A_PATH = 8
#: How many nodes try to tell one that did not answer, one after the other.
_MESSENGERS = 2


class Refresh(msgspec.Struct, frozen=True, array_like=True):
    """What agents are told; the number, drawn at random, is that of this refresh."""

    paths: list[bytes]
    number: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class PassOn(msgspec.Struct, frozen=True, array_like=True):
    """What an agent is to tell another one that the teller does not reach."""

    address: str
    refresh: bytes  # as it is told
    within: float


class Refreshed(msgspec.Struct, frozen=True):
    """How far a refresh came.

    Nodes that did not answer, neither us nor another node, may serve what was until they learn of
    it from any other, or are taken for dead and come back.
    """

    nodes: list[str]
    missed: list[str]
    mounts: list[str] = []  # that did not answer, and may show what was: "NODE:POINT"


def refresh(connection: Connection, names: Sequence[bytes]) -> Refreshed:
    """Make all nodes check these paths and all below them again; names are absolute."""
    spelled = [name for name in map(paths.spelling, names) if name is not None]
    if len(spelled) < len(names):
        raise BadInput("refresh does not take paths with '..' in them; write them without")
    connection.refresh()
    done = [_tell(connection, portion) for portion in _portions(spelled)]
    missed = {node for one in done for node in one.missed}
    return Refreshed(
        sorted({node for one in done for node in one.nodes} - missed),
        sorted(missed),
        sorted({mount for one in done for mount in one.mounts}),
    )


def _portions(names: Sequence[bytes]) -> Iterator[list[bytes]]:
    portion: list[bytes] = []
    size = 0
    for name in names:
        if portion and size + len(name) > _MOST_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(name)
        size += len(name) + _BESIDE_A_PATH
    yield portion


def _tell(connection: Connection, names: list[bytes]) -> Refreshed:
    number = int.from_bytes(os.urandom(8), "big") >> 1
    message = msgspec.msgpack.encode(Refresh(names, number))
    within = connection.deadline + MOUNTS_WITHIN

    def ask(member: Member, method: str, message: bytes, within: float) -> list[str] | None:
        """Return the mounts of the node that were not reached; None if it was not itself."""
        address, silence = connection.routing.address(member), connection.deadline
        try:
            call = connection.client.wait(
                address, "files", method, message, within=within, deadline=silence
            )
            answer = call.result()
        except HoldfastError:
            return None
        return msgspec.msgpack.decode(answer, type=list[str])

    told = at_once(lambda member: ask(member, "refresh", message, within), connection.routing.live)
    reached = [member for member, stuck in told if stuck is not None]

    def by_way_of_others(member: Member) -> list[str] | None:
        """Let others tell a node that we do not reach; perhaps only our own link to it is cut."""
        order = msgspec.msgpack.encode(PassOn(member.address, message, within))
        for other in random.sample(reached, min(len(reached), _MESSENGERS)):
            stuck = ask(other, "pass_on", order, within + connection.deadline)
            if stuck is not None:
                return stuck
        return None

    told = [(member, stuck) for member, stuck in told if stuck is not None] + at_once(
        by_way_of_others, [member for member, stuck in told if stuck is None]
    )
    return Refreshed(
        sorted(member.node for member, stuck in told if stuck == []),
        sorted(member.node for member, stuck in told if stuck != []),
        [f"{member.node}:{point}" for member, stuck in told for point in stuck or ()],
    )
