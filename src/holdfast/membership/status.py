"""What an agent tells of its membership."""

from __future__ import annotations

import msgspec


class MembershipStatus(msgspec.Struct, frozen=True):
    """What a member believes of the others."""

    identity: int  # of its view: equal views, equal owners
    members: dict[str, int]  # of its view: how many are alive, suspect, or lost
    incarnation: int
    detection: float  # how long a death goes unnoticed as a rule, in seconds
