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


class Refresh(msgspec.Struct, frozen=True, array_like=True):
    """What agents are told; the number, drawn at random, is that of this refresh."""

    paths: list[bytes]
    number: int


class Refreshed(msgspec.Struct, frozen=True):
    """How far a refresh came."""

    nodes: list[str]
    missed: list[str]  # nodes that did not answer; they look again before they serve when back


def refresh(peers: Peers, names: Sequence[bytes]) -> Refreshed:
    """Let all nodes look again at these paths and all below them; names are absolute."""
    spelled = [name for name in map(paths.spelling, names) if name is not None]
    if len(spelled) < len(names):
        raise BadInput("refresh takes no paths with '..' in them; write them without")
    number = int.from_bytes(os.urandom(8), "big") >> 1
    message = msgspec.msgpack.encode(Refresh(spelled, number))
    peers.refresh()

    def tell(member: Member) -> bool:
        address = peers.routing.address(member)
        try:
            peers.client.call(address, "files", "refresh", message, deadline=peers.deadline)
        except HoldfastError:
            return False
        return True

    told = at_once(tell, peers.routing.live)
    return Refreshed(
        [member.node for member, reached in told if reached],
        [member.node for member, reached in told if not reached],
    )
