"""The store of one simulated member: the index of the core, and contents instead of files.

Objects have a size that counts and a few bytes of content that stand for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from .. import _core
from .._core import crc32c
from ..errors import Busy, Damaged, Dropped, Full, HoldfastError, KeyExists
from ..membership.owners import Owners
from ..restoration.holdings import ObjectSummary, held_of

#: As many copies as there are members.
_EVERYWHERE = 1 << 16


class Stored(msgspec.Struct, frozen=True):
    """An object with its content."""

    indexed: _core.IndexedObject
    held: ObjectSummary
    has_source: bool
    content: bytes
    header: bytes = b""

    @property
    def whole(self) -> bytes:
        """What tells it from other versions."""
        return self.content + self.header


class Writer:
    """An object on its way in: room and key are reserved until it is committed or given up."""

    def __init__(
        self,
        store: Store,
        held: ObjectSummary,
        header: bytes,
        has_source: bool,
        existing: _core.IndexedObject | None,
    ) -> None:
        self._store = store
        self._held = held
        self._header = header
        self._has_source = has_source
        self._existing = existing
        self._open = existing is None

    def commit(self, content: bytes) -> None:
        """Publish the object, unless its key was dropped meanwhile."""
        try:
            if self._existing is not None:
                self._store._raise_copies(self._existing, self._held.copies, self._held.least)
            elif crc32c(content + self._header) != self._held.crc32c:
                raise Damaged("the bytes do not match their checksum")
            else:
                self._store._publish(self._held, self._has_source, content, self._header)
                self._open = False
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give room and key back."""
        if self._open:
            self._store._abandon(self._held)
        self._open = False


class Store:
    """Objects and notices of member `me`; implements `restoration.holdings.Holdings`.

    `watch` is told of every copy that comes or goes: "stored", "trimmed", "dropped", "evicted",
    "rotted", "lost" (found to be rotten) or "moved" (to another key); of copies "raised" in number;
    and of notices that are "learnt".
    """

    def __init__(
        self,
        me: int,
        capacity: int,
        watch: Callable[[str, bytes], None] = lambda _what, _key: None,
    ) -> None:
        self.me = me
        self._watch = watch
        self._placement: _core.Placement | None = None
        self.capacity = capacity
        self.used = 0  # by what is stored and by what is on its way in
        self.objects: dict[bytes, Stored] = {}
        self._evictable: dict[bytes, int] = {}  # sizes, the oldest first
        index = self._index = _core.ObjectIndex()
        self.survey = index.survey
        self.short = index.short
        self.buckets_with = index.buckets_with
        self.keys = index.keys
        self.notice_digest = index.notice_digest
        self.notice_buckets = index.notice_buckets

    # ---- owners --------------------------------------------------------------------------------

    def place(self, owners: Owners) -> None:
        """See all objects under other owners."""
        self._placement = owners.placement
        self._index.place(owners.placement, self.me)

    def owners(self, key: bytes, copies: int, without: Sequence[int] = ()) -> list[int]:
        """Return the numbers of the owners of `key`, first to last; none before the first view."""
        return self._placement.owners(key, copies, without) if self._placement else []

    def owning(self, key: bytes) -> set[int]:
        """Return the numbers of all that own `key` if enough copies are wanted."""
        return set(self.owners(key, _EVERYWHERE))

    # ---- clients -------------------------------------------------------------------------------

    def create(
        self,
        key: bytes,
        content: bytes,
        size: int,
        tier: int,
        copies: int,
        checksum: int | None = None,  # of the bytes that were sent, if these came from elsewhere
        has_source: bool = False,
        header: bytes = b"",
        least: int | None = None,  # unless all copies
    ) -> Writer:
        """Reserve room and the key."""
        if checksum is None:
            checksum = crc32c(content + header)
        least = 0 if has_source else copies if least is None else least
        held = ObjectSummary(
            key=key, size=size, crc32c=checksum, tier=tier, copies=copies, least=least
        )
        existing = self._index.reserve(key, size)
        if existing is not None:
            stored = self.objects[key]
            if (stored.content, stored.header) != (content, header):
                if self.verify(key):
                    raise KeyExists("the key has other contents")
                raise Damaged("the copy here was damaged and is gone; put it again")
        else:
            try:
                self._make_room(size)
            except Full:
                self._index.abandon(key)
                raise
            self.used += size
        return Writer(self, held, header, has_source, existing)

    def get(self, key: bytes) -> Stored:
        """Look for an object, for somebody who asked for it."""
        stored = self.objects.get(key)
        if stored is None:
            self._index.missed(key)
            self._index.absent(key)
        return stored

    def drop(self, key: bytes) -> None:
        """Remove an object and remember its key for ever."""
        self.learn([_core.tombstone(key)])

    def drop_below(self, prefix: bytes, version: int) -> None:
        """Remove all versions below one, for ever."""
        self.learn([_core.watermark(prefix, version)])

    def verify(self, key: bytes) -> bool:
        """Read a copy again; one that went bad is not there from now on."""
        stored = self.objects.get(key)
        if stored is not None and crc32c(stored.whole) != stored.held.crc32c:
            self._index.lose(stored.indexed)
            self._removed(key, "lost")
        return key in self.objects

    def rot(self, key: bytes) -> None:
        """Let a copy go bad without anybody's notice."""
        stored = self.objects[key]
        if stored.header:
            stored = msgspec.structs.replace(stored, header=stored.header + b" rotten")
        else:
            stored = msgspec.structs.replace(stored, content=stored.content + b" rotten")
        self.objects[key] = stored
        self._watch("rotted", key)

    @property
    def room(self) -> int:
        """How many bytes find room here, if need be by evictions."""
        return self.capacity - self.used + sum(self._evictable.values())

    def was_dropped(self, key: bytes) -> bool:
        """Tell whether nobody may write a key any more."""
        try:
            self._index.absent(key)
        except Dropped:
            return True
        except HoldfastError:
            return False

    # ---- restoring -----------------------------------------------------------------------------

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[ObjectSummary]:
        """List the objects in these parts."""
        return [held_of(held) for held in self._index.held_with(peer, list(buckets))]

    def held(self, key: bytes) -> ObjectSummary | None:
        """Look for one object; what was evicted may still count."""
        stored = self.objects.get(key)
        if stored is not None:
            return stored.held
        ghost = self._index.held(key)
        return None if ghost is None else held_of(ghost)

    def strays(self, limit: int, after: bytes) -> list[ObjectSummary]:
        """List objects that we hold and do not own, in the order of their keys."""
        return [held_of(held) for held in self._index.strays(limit, after)]

    def trim(self, key: bytes, size: int, crc32c: int) -> bool:
        """Remove a stray; tells whether it was still that object and still a stray."""
        trimmed = self._index.trim(key, size, crc32c)
        if trimmed and key in self.objects:
            self._removed(key, "trimmed")
        return trimmed

    def has_room(self, held: ObjectSummary) -> bool:
        """Tell whether an object would find room here at this moment."""
        return held.size <= self.room

    def let_go(self, held: ObjectSummary) -> None:
        """Count an object that has a source and finds no room here as evicted."""
        tier = _core.Tier(held.tier)
        self._index.let_go(held.key, held.size, held.crc32c, tier, held.copies)

    def raise_copies(self, held: ObjectSummary, copies: int, least: int) -> None:
        """Want more copies of exactly that object, if it is here, or more nodes for it."""
        stored = self.objects.get(held.key)
        if stored is not None and stored.held == held:
            self._raise_copies(stored.indexed, copies, least)
        elif stored is None:
            self._index.raise_through(held.key, held.size, held.crc32c, copies, least)

    def move_aside(self, key: bytes, size: int, crc32c: int, aside: bytes) -> bool:
        """Keep an object under another key; tells whether it was still that object."""
        before, after = self._index.move_aside(key, size, crc32c, aside)
        if before is None:
            return False
        moved = self._removed(key, "moved")
        if after is not None:
            self._added(after, moved.content, moved.header)
        elif (there := self._index.find(aside)) is not None:  # perhaps it wants more copies now
            self._replaced(there)
        return True

    def notices_in(self, buckets: Sequence[int]) -> list[bytes]:
        """List the notices in these parts."""
        return self._index.notices_in(list(buckets))

    def learn(self, notices: Sequence[bytes]) -> int:
        """Remember these, and remove what they say was dropped; tells how many were new."""
        new = 0
        for notice in notices:
            is_new, gone = self._index.learn(notice)
            new += is_new
            if is_new:
                self._watch("learnt", notice)
            for indexed in gone:
                self._removed(indexed.key, "dropped")
        return new

    # ---- inside --------------------------------------------------------------------------------

    def _make_room(self, size: int) -> None:
        """Evict what has a source, the oldest first; nothing if that would not be enough."""
        if size > self.room:
            raise Full(f"{self.room} of {self.capacity} bytes are left")
        while size > self.capacity - self.used:
            self._evict(next(iter(self._evictable)))

    def _evict(self, key: bytes) -> None:
        self._index.evict(self.objects[key].indexed)
        self._removed(key, "evicted")

    def _publish(
        self, held: ObjectSummary, has_source: bool, content: bytes, header: bytes
    ) -> None:
        tier = _core.Tier(held.tier)
        indexed = self._index.publish(
            held.key,
            held.size,
            held.crc32c,
            tier=tier,
            copies=held.copies,
            has_source=has_source,
            least=held.least,
        )
        self.used -= held.size
        self._added(indexed, content, header)

    def _abandon(self, held: ObjectSummary) -> None:
        self._index.abandon(held.key)
        self.used -= held.size

    def _raise_copies(self, existing: _core.IndexedObject, copies: int, least: int) -> None:
        raised = self._index.raise_copies(existing, copies, least)
        if raised is None:
            try:
                self._index.absent(existing.key)
            except Dropped as error:
                raise KeyExists("the key was dropped meanwhile") from error
            except HoldfastError:
                raise Busy("the copy that was here has since gone; try again") from None
        self._replaced(raised)

    def _replaced(self, indexed: _core.IndexedObject) -> None:
        stored, held = self.objects[indexed.key], held_of(indexed.held)
        if stored.held != held:
            self.objects[held.key] = msgspec.structs.replace(stored, indexed=indexed, held=held)
            self._watch("raised", held.key)

    def _added(self, indexed: _core.IndexedObject, content: bytes, header: bytes) -> None:
        held = indexed.held
        stored = Stored(indexed, held_of(held), held.has_source, content, header)
        key = stored.held.key
        self.objects[key] = stored
        self.used += held.size
        if stored.has_source:
            self._evictable[key] = held.size
        self._watch("stored", key)

    def _removed(self, key: bytes, why: str) -> Stored:
        stored = self.objects.pop(key)
        self._evictable.pop(key, None)
        self.used -= stored.held.size
        self._watch(why, key)
        return stored
