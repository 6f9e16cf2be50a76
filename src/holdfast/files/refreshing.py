"""Telling all nodes that files may have changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..cluster.contacts import at_once
from ..cluster.peers import Peers
from ..errors import BadInput, HoldfastError
from ..membership.view import Member
from . import paths


class Refreshed(msgspec.Struct, frozen=True):
    """How far a refresh came."""

    nodes: list[str]
    missed: list[str]  # nodes that did not answer; they look again before they serve when back


def refresh(peers: Peers, names: Sequence[bytes]) -> Refreshed:
    """Let all nodes look again at these paths and all below them; names are absolute."""
    spelled = [paths.spelling(name) for name in names]
    if None in spelled:
        raise BadInput("refresh takes no paths with '..' in them; write them without")
    message = msgspec.msgpack.encode(spelled)
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
