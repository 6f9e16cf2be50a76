"""Telling all nodes that files may have changed."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from ..cluster.contacts import at_once
from ..cluster.peers import Peers
from ..errors import BadInput, HoldfastError
from ..membership.view import Member
from . import paths

#: A mount that has not looked again by then is stuck; it is not waited for.
MOUNTS_WITHIN = 1.0


class Refresh(msgspec.Struct, frozen=True, array_like=True):
    """What agents are told; the number, drawn at random, is that of this refresh."""

    paths: list[bytes]
    number: int


class Refreshed(msgspec.Struct, frozen=True):
    """How far a refresh came."""

    nodes: list[str]
    missed: list[str]  # nodes that did not answer; they look again before they serve when back
    mounts: list[str] = []  # that did not answer, and may show what was: "NODE:POINT"


def refresh(peers: Peers, names: Sequence[bytes]) -> Refreshed:
    """Let all nodes look again at these paths and all below them; names are absolute."""
    spelled = [name for name in map(paths.spelling, names) if name is not None]
    if len(spelled) < len(names):
        raise BadInput("refresh takes no paths with '..' in them; write them without")
    number = int.from_bytes(os.urandom(8), "big") >> 1
    message = msgspec.msgpack.encode(Refresh(spelled, number))
    peers.refresh()

    def tell(member: Member) -> list[str] | None:
        """Return the mounts of the node that were not reached; None if it was not itself."""
        address = peers.routing.address(member)
        within = peers.deadline + MOUNTS_WITHIN
        try:
            answer = peers.client.call(address, "files", "refresh", message, deadline=within)
        except HoldfastError:
            return None
        return msgspec.msgpack.decode(answer, type=list[str])

    told = at_once(tell, peers.routing.live)
    return Refreshed(
        [member.node for member, stuck in told if stuck == []],
        [member.node for member, stuck in told if stuck != []],
        [f"{member.node}:{point}" for member, stuck in told for point in stuck or ()],
    )
