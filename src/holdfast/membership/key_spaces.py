"""What a key space is: keys that begin alike, and who owns them other than the ring says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from .view import Member


class KeySpace(Protocol):
    """Says where the keys with one prefix lie; all agents and clients of a session have the same.

    Of several that fit a key the one with the longest prefix counts. A `RestoringKeySpace`
    (restoration/events.py) says besides how a lost object comes back.
    """

    prefix: bytes
    #: How many seconds after the change of view that made an owner lack an object it is restored at
    #: the earliest; later changes that leave it an owner do not begin the time anew.
    restore_after: float
    #: How many owners of an object a put or a drop may leave out, if their receivers suspect them,
    #: too; the next ones of the slot take their place. Every object needs more copies than that:
    #: only then have two lists of owners one in common.
    may_leave_out: int

    def slots(self, members: Sequence[Member]) -> Sequence[Sequence[Member]]:
        """Return the owners of each slot, first to last; the hash of a key says which is its.

        `members` are all that live, by node, spares too. Nothing else may count: whoever has the
        same view has the same slots.
        """
        ...


def fitting(spaces: Iterable[KeySpace], key: bytes) -> KeySpace | None:
    """Return the key space in which `key` lies; None: it lies on the ring."""
    here = [space for space in spaces if key.startswith(space.prefix)]
    return max(here, key=lambda space: len(space.prefix), default=None)
