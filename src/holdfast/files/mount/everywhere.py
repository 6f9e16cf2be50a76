"""Mounting on every host of a session: here by ourselves, elsewhere by an agent."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from ...client.connection import Connection
from ...client.contacts import at_once
from ...config import Config
from ...errors import HoldfastError, Unavailable
from ...membership.view import Member
from ...session import session as sessions
from ..service import MountOrder
from . import control

#: Longer than a mount that fails takes to say so.
_WITHIN = 30.0


def mount(
    config: Config,
    members: Sequence[Member],
    point: str,
    roots: Sequence[str],
) -> None:
    """Mount at the same place on each host that has one of the members, unless that is so."""
    here = os.uname().nodename
    if any(member.host == here for member in members):
        control.ensure(config, point, roots)
    elsewhere = {member.host: member for member in members if member.host != here}
    if not elsewhere:
        return
    # Agents have a working directory and an environment of their own.
    shown = [os.path.abspath(root) for root in roots or config.roots]
    order = MountOrder(os.path.abspath(point), shown, config)
    connection = Connection(sessions.directory(config), config)
    failed = [
        f"{member.host}: {why}"
        for member, why in at_once(
            lambda member: _mount_there(connection, member, order), list(elsewhere.values())
        )
        if why
    ]
    if failed:
        raise Unavailable(f"could not mount on every host; {'; '.join(failed)}")


def _mount_there(connection: Connection, member: Member, order: MountOrder) -> str:
    """Let an agent mount on its host; returns why it did not."""
    message = msgspec.msgpack.encode(order)
    try:
        connection.client.wait(
            connection.routing.address(member),
            "files",
            "mount",
            message,
            within=_WITHIN,
            deadline=connection.deadline,
        ).result()
    except HoldfastError as error:
        return str(error)
    return ""
