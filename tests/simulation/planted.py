"""Agents with a bug planted in them, to see that the checkers find it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.membership.owners import Owners
from holdfast.restoring.restorer import Restorer
from holdfast.restoring.trimming import Trimming
from holdfast.simulation.agents import Agent
from holdfast.simulation.store import Store


class NoFence(Agent):
    """Takes puts and drops whatever owners their sender believes in."""

    fenced = False


class HastyTrimming(Trimming):
    def tick(self, owners: Owners, now: float) -> None:
        for held in self._holdings.strays(100, b""):
            self._holdings.trim(held.key, held.size, held.crc32c)


class HastyRestorer(Restorer):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._trimming = HastyTrimming(self._me, self._holdings, self._ask)


class UnconfirmedTrim(Agent):
    """Removes what it does not own without asking the owners."""

    restorer_class = HastyRestorer


class ForgetfulStore(Store):
    def drop(self, key: bytes) -> None:
        self._remove(key, "dropped")


class LostTombstone(Agent):
    """Drops objects and does not remember it."""

    store_class = ForgetfulStore


class DeafStore(Store):
    def bury(self, keys: Sequence[bytes]) -> int:
        return 0

    def drop(self, key: bytes) -> None:
        super().bury([key])


class UnmergedTombstones(Agent):
    """Remembers what was dropped here, and does not listen to others."""

    store_class = DeafStore
