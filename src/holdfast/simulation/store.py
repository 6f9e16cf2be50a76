"""The store of one simulated member: what the core's does, in plain Python.

Objects have a size that counts and a few bytes of content that stand for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from .._core import crc32c, xxh3_64
from ..errors import Busy, Damaged, Dropped, Full, KeyExists, NotFound
from ..membership.owners import Owners
from ..restoration.holdings import BUCKETS, DROPPED_BUCKETS, Digest, Held


class Stored(msgspec.Struct, frozen=True):
    """An object with its content."""

    held: Held
    content: bytes
    digest: int
    bucket: int


class Writer:
    """An object on its way in: room and key are reserved until it is committed or given up."""

    def __init__(self, store: Store, held: Held, existing: Stored | None) -> None:
        self._store = store
        self._held = held
        self._existing = existing
        self._open = True

    def commit(self, content: bytes) -> None:
        """Publish the object, unless its key was dropped meanwhile."""
        self.abandon()
        self._store._commit(self._held, content, self._existing)

    def abandon(self) -> None:
        """Give room and key back."""
        if self._open and self._existing is None:
            self._store._release(self._held)
        self._open = False


class Store:
    """Objects and dropped keys of member `me`; implements `restoration.holdings.Holdings`.

    `watch` is told of every copy that comes or goes: "stored", "trimmed", "dropped", "rotted",
    "lost" (found to be rotten) or "moved" (to another key); and of keys that are "buried".
    """

    def __init__(
        self,
        me: int,
        capacity: int,
        watch: Callable[[str, bytes], None] = lambda _what, _key: None,
    ) -> None:
        self._me = me
        self._watch = watch
        self._owners: Owners | None = None
        self._owned_by: dict[tuple[bytes, int], list[int]] = {}
        self._shared: dict[int, list[Stored]] | None = None  # by co-owner; None: look again
        self._writing: dict[bytes, Held] = {}
        self.capacity = capacity
        self.used = 0  # by what is stored and by what is on its way in
        self.objects: dict[bytes, Stored] = {}
        self.dropped: dict[bytes, int] = {}  # hashes by key
        self._dropped_digest: Digest = (0, 0)

    # ---- owners --------------------------------------------------------------------------------

    def place(self, owners: Owners) -> None:
        """See all objects under other owners."""
        self._owners = owners
        self._owned_by.clear()
        self._shared = None

    def owners(self, key: bytes, copies: int) -> list[int]:
        """Return the numbers of the owners of `key`, first to last; none before the first view."""
        found = self._owned_by.get((key, copies))
        if found is None:
            members = self._owners.of(key, copies) if self._owners else ()
            found = self._owned_by[key, copies] = [member.number for member in members]
        return found

    # ---- clients -------------------------------------------------------------------------------

    def create(
        self,
        key: bytes,
        content: bytes,
        size: int,
        tier: int,
        copies: int,
        checksum: int | None = None,  # of the bytes that were sent, if these came from elsewhere
    ) -> Writer:
        """Reserve room and the key."""
        held = Held(key, size, crc32c(content) if checksum is None else checksum, tier, copies)
        if key in self.dropped:
            raise KeyExists("the key was dropped; a key is written once")
        if key in self._writing:
            raise Busy("another request is writing the key right now")
        existing = self.objects.get(key)
        if existing is not None:
            if (existing.held.size, existing.content) != (size, content):
                if self.verify(key):
                    raise KeyExists("the key has other contents")
                raise Damaged("the copy here was damaged and is gone; put it again")
        else:
            if size > self.capacity - self.used:
                raise Full(f"{self.capacity - self.used} of {self.capacity} bytes are left")
            self._writing[key] = held
            self.used += size
        return Writer(self, held, existing)

    def get(self, key: bytes) -> Stored:
        """Look for an object, for somebody who asked for it."""
        if key in self.dropped:
            raise Dropped("the key was dropped")
        stored = self.objects.get(key)
        if stored is None:
            raise NotFound("the object is not here")
        return stored

    def drop(self, key: bytes) -> None:
        """Remove an object and remember its key for ever."""
        self.bury([key])

    def verify(self, key: bytes) -> bool:
        """Read a copy again; one that went bad is not there from now on."""
        stored = self.objects.get(key)
        if stored is not None and crc32c(stored.content) != stored.held.crc32c:
            self._remove(key, "lost")
        return key in self.objects

    def rot(self, key: bytes) -> None:
        """Let a copy go bad without anybody's notice."""
        stored = self.objects[key]
        self.objects[key] = msgspec.structs.replace(stored, content=stored.content + b" rotten")
        self._shared = None
        self._watch("rotted", key)

    # ---- restoring -----------------------------------------------------------------------------

    def survey(self) -> dict[int, Digest]:
        """Digest, for every other member, the objects that we hold and that both of us own."""
        return {peer: _digest(shared) for peer, shared in self._with_peers().items()}

    def buckets_with(self, peer: int) -> list[int]:
        """Return the parts of the digest that we share with `peer`."""
        buckets = [0] * BUCKETS
        for stored in self._with_peers().get(peer, ()):
            buckets[stored.bucket] ^= stored.digest
        return buckets

    def held_with(self, peer: int, buckets: Sequence[int]) -> list[Held]:
        """List the objects in these parts."""
        wanted = frozenset(buckets)
        return [s.held for s in self._with_peers().get(peer, ()) if s.bucket in wanted]

    def held(self, key: bytes) -> Held | None:
        """Look for one object."""
        stored = self.objects.get(key)
        return stored.held if stored else None

    def strays(self, limit: int, after: bytes) -> list[Held]:
        """List objects that we hold and do not own, in the order of their keys."""
        strays = [s.held for key, s in self.objects.items() if key > after and self._stray(s.held)]
        return sorted(strays, key=lambda held: held.key)[:limit]

    def short(self) -> int:
        """Count the objects that we own first and that want more copies than nodes live."""
        wanting = ((self.owners(key, s.held.copies), s) for key, s in self.objects.items())
        return sum(o[:1] == [self._me] and len(o) < s.held.copies for o, s in wanting)

    def trim(self, key: bytes, size: int, crc32c: int) -> bool:
        """Remove a stray; tells whether it was still that object and still a stray."""
        held = self.held(key)
        if held is None or (held.size, held.crc32c) != (size, crc32c) or not self._stray(held):
            return False
        self._remove(key, "trimmed")
        return True

    def has_room(self, held: Held) -> bool:
        """Tell whether an object would find room here at this moment."""
        return held.size <= self.capacity - self.used

    def move_aside(self, key: bytes, size: int, crc32c: int, aside: bytes) -> bool:
        """Keep an object under another key; tells whether it was still that object."""
        stored = self.objects.get(key)
        if stored is None or (stored.held.size, stored.held.crc32c) != (size, crc32c):
            return False
        if aside in self._writing:
            return False
        self._remove(key, "moved")
        if aside not in self.objects and aside not in self.dropped:
            self._add(msgspec.structs.replace(stored.held, key=aside), stored.content)
        return True

    def keys(self, prefix: bytes, limit: int) -> list[bytes]:
        """List keys of objects that begin so, in order."""
        return sorted(key for key in self.objects if key.startswith(prefix))[:limit]

    def dropped_digest(self) -> Digest:
        """Digest the keys that were dropped."""
        return self._dropped_digest

    def dropped_buckets(self) -> list[int]:
        """Return the parts of that digest."""
        buckets = [0] * DROPPED_BUCKETS
        for hashed in self.dropped.values():
            buckets[hashed >> 56] ^= hashed
        return buckets

    def dropped_in(self, buckets: Sequence[int]) -> list[bytes]:
        """List the dropped keys in these parts."""
        wanted = frozenset(buckets)
        return [key for key, hashed in self.dropped.items() if hashed >> 56 in wanted]

    def bury(self, keys: Sequence[bytes]) -> int:
        """Remember these keys as dropped and remove their objects; tells how many were new."""
        new = [key for key in keys if key not in self.dropped]
        for key in new:
            hashed = self.dropped[key] = xxh3_64(key)
            count, parts = self._dropped_digest
            self._dropped_digest = count + 1, parts ^ hashed
            self._watch("buried", key)
            self._remove(key, "dropped")
        return len(new)

    # ---- inside --------------------------------------------------------------------------------

    def _stray(self, held: Held) -> bool:
        return self._owners is not None and self._me not in self.owners(held.key, held.copies)

    def _with_peers(self) -> dict[int, list[Stored]]:
        if self._shared is None:
            self._shared = {}
            for stored in self.objects.values():
                owners = self.owners(stored.held.key, stored.held.copies)
                if self._me in owners:
                    for peer in owners:
                        if peer != self._me:
                            self._shared.setdefault(peer, []).append(stored)
        return self._shared

    def _release(self, held: Held) -> None:
        del self._writing[held.key]
        self.used -= held.size

    def _commit(self, held: Held, content: bytes, existing: Stored | None) -> None:
        key = held.key
        if key in self.dropped:
            raise KeyExists("the key was dropped; a key is written once")
        if existing is not None:
            if self.objects.get(key) is not existing:
                raise Busy("the copy that was here has since gone; try again")
            return
        if crc32c(content) != held.crc32c:
            raise Damaged("the bytes do not match their checksum")
        self._add(held, content)

    def _add(self, held: Held, content: bytes) -> None:
        key = held.key
        digest = xxh3_64(b"%d %d " % (held.size, held.crc32c) + key)
        stored = Stored(held, content, digest, xxh3_64(key) >> 58)
        self.objects[key] = stored
        self.used += held.size
        self._shared = None
        self._watch("stored", key)

    def _remove(self, key: bytes, why: str) -> None:
        stored = self.objects.pop(key, None)
        if stored is not None:
            self.used -= stored.held.size
            self._shared = None
            self._watch(why, key)


def _digest(shared: list[Stored]) -> Digest:
    parts = 0
    for stored in shared:
        parts ^= stored.digest
    return len(shared), parts
