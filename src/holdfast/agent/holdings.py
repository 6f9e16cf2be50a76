"""The core's store, as restoring sees it."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from ..membership.owners import Owners
from ..restoration.holdings import ObjectSummary, held_of


class CoreHoldings:
    """Passes on to the core; objects come back as plain structs that can travel."""

    def __init__(self, core: _core.Agent) -> None:
        self._core = core
        self.survey = core.survey
        self.short = core.short
        self.buckets_with = core.buckets_with
        self.trim = core.trim
        self.move_aside = core.move_aside
        self.keys = core.keys
        self.notice_digest = core.notice_digest
        self.notice_buckets = core.notice_buckets
        self.notices_in = core.notices_in
        self.learn = core.learn

    def place(self, owners: Owners) -> None:
        """See all objects under other owners."""
        self._core.set_placement(owners.placement)

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[ObjectSummary]:
        """List the objects in these parts."""
        return [held_of(held) for held in self._core.held_with(peer, list(buckets))]

    def held(self, key: bytes) -> ObjectSummary | None:
        """Look for one object."""
        found = self._core.held(key)
        return None if found is None else held_of(found)

    def has_room(self, held: ObjectSummary) -> bool:
        """Tell whether an object would find room here at this moment."""
        return self._core.has_room(_core.Tier(held.tier), held.size)

    def strays(self, limit: int, after: bytes) -> list[ObjectSummary]:
        """List objects that we hold and do not own."""
        return [held_of(held) for held in self._core.strays(limit, after)]

    def raise_copies(self, held: ObjectSummary, copies: int, least: int) -> None:
        """Want more copies of exactly that object, if it is here, or more nodes for it."""
        self._core.raise_copies(held.key, held.size, held.crc32c, copies, least)
