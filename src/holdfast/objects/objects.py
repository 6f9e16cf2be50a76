"""`job.objects`: put, get, view, stat, list and drop over the agents of a session."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from .. import _core
from ..cluster.peers import Peers
from ..errors import (
    BadInput,
    Busy,
    Damaged,
    Full,
    HoldfastError,
    NotFound,
    TryAgain,
    Unavailable,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")
TierName = Literal["memory", "disk"]
_TIERS = {"memory": _core.Tier.MEMORY, "disk": _core.Tier.DISK}
MAX_KEY = 4096


class ObjectInfo(msgspec.Struct, frozen=True):
    """What is known of an object: `copies` is how many its writer asked for."""

    key: str
    size: int
    crc32c: int
    tier: str
    copies: int


class Listing(list[ObjectInfo]):
    """Objects in the order of their keys; `missing` names the nodes that did not answer."""

    missing: tuple[str, ...] = ()


class Objects:
    """Objects of a job. All methods may be used from several threads at once."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def put(
        self, key: str | bytes, data: Buffer, copies: int = 2, tier: TierName = "memory"
    ) -> None:
        """Store `data` under `key` on `copies` nodes; when this returns, all have verified it.

        A key is written once: the same bytes again are fine, other bytes raise `KeyExists`.
        """
        name = encode_key(key)
        if tier not in _TIERS:
            raise BadInput(f"there is no tier {tier!r}; use 'memory' or 'disk'")
        if not isinstance(copies, int) or copies < 1:
            raise BadInput(f"{copies!r} copies; ask for a whole number, at least 1")
        failed: dict[str, HoldfastError] = {}
        damaged = False
        patience = time.monotonic() + self._peers.deadline * copies
        while True:
            first, *others = self._peers.choose(name, copies, failed)
            addresses = [self._peers.address(first), *(other.address for other in others)]
            try:
                self._peers.client.put(
                    addresses, name, data, _TIERS[tier], deadline=self._peers.deadline
                )
            except Busy:
                # Two writers of one key: each lets go at once, so one of them gets through.
                if time.monotonic() > patience:
                    raise
                time.sleep(random.uniform(0.001, 0.02))
            except TryAgain as error:
                member = self._peers.failed(error)
                if member is None:
                    raise
                failed[member.node] = error
                self._peers.refresh()
            except (Full, Damaged) as error:
                # A copy from before that went bad has been dropped by now: once more is enough.
                if isinstance(error, Full) or damaged:
                    error.args = (f"{self._peers.node_at(error)}: {error}",)
                    raise
                damaged = True
            except (TypeError, BufferError) as error:
                raise BadInput(
                    f"the data of {key!r} must be a contiguous buffer: {error}"
                ) from None
            else:
                return

    def get(self, key: str | bytes) -> bytes:
        """Return the bytes of an object."""
        name = encode_key(key)
        client, deadline = self._peers.client, self._peers.deadline
        return self._find(name, lambda at: client.get(at, name, deadline=deadline))

    def get_into(self, key: str | bytes, out: Buffer) -> int:
        """Receive an object into a writable buffer of at least its size; return its size."""
        name = encode_key(key)
        client, deadline = self._peers.client, self._peers.deadline
        try:
            return self._find(name, lambda at: client.get_into(at, name, out, deadline=deadline))
        except (TypeError, BufferError) as error:
            raise BadInput(f"`out` must be a writable, contiguous buffer: {error}") from None

    def view(self, key: str | bytes) -> memoryview:
        """Return the bytes of an object read-only, mapped without a copy where they lie here."""
        name = encode_key(key)
        client, deadline = self._peers.client, self._peers.deadline
        found = self._find(
            name, lambda at: client.open(at, name, deadline=deadline), local_first=True
        )
        if found[0] is None:
            return memoryview(found[1])
        return _map(*found)

    def stat(self, key: str | bytes) -> ObjectInfo:
        """Return what is known of an object."""
        name = encode_key(key)
        client, deadline = self._peers.client, self._peers.deadline
        return _public(self._find(name, lambda at: client.stat(at, name, deadline=deadline)))

    def list(self, prefix: str | bytes = "") -> Listing:
        """List the objects whose keys start with `prefix`, on all nodes that answer."""
        start = prefix.encode() if isinstance(prefix, str) else prefix
        found: dict[bytes, _core.ObjectInfo] = {}
        missing = []
        for member in self._peers.view.live():
            try:
                after, more = b"", True
                while more:
                    page, more = self._peers.client.list_page(
                        self._peers.address(member), start, after, deadline=self._peers.deadline
                    )
                    found.update((info.key, info) for info in page)
                    after = page[-1].key if page else after
            except TryAgain as error:
                self._peers.failed(error)
                missing.append(member.node)
        listing = Listing(_public(found[key]) for key in sorted(found))
        listing.missing = tuple(missing)
        return listing

    def drop(self, key: str | bytes) -> None:
        """Remove an object from all nodes; `Unavailable` names nodes that may still hold it."""
        name = encode_key(key)
        dropped, missing = False, []
        for member in self._peers.view.live():
            try:
                self._peers.client.drop(
                    self._peers.address(member), name, deadline=self._peers.deadline
                )
                dropped = True
            except NotFound:
                continue
            except Unavailable as error:
                self._peers.failed(error)  # the agent is gone, and its copies with it
            except TryAgain as error:
                self._peers.failed(error)
                missing.append(member.node)
        if missing:
            raise Unavailable(f"{key!r} may still be on {_names(missing)}, which did not answer")
        if not dropped:
            raise NotFound(f"{key!r} is on no node")

    def _find(self, name: bytes, ask: Callable[[str], T], local_first: bool = False) -> T:
        """Ask for an object where it should be, then everywhere (rule 7 of the design)."""
        missing: list[str] = []
        for member in self._peers.candidates(name, local_first):
            address = self._peers.address(member)
            try:
                return ask(address)
            except NotFound:
                continue
            except TryAgain as error:
                self._peers.failed(error)
                missing.append(member.node)
            except Damaged:
                # On its way or at rest? Its agent looks again, and drops a copy that is bad.
                self._verify(address, name)
                missing.append(member.node)
        if self._peers.refresh(now_or_never=True):
            return self._find(name, ask, local_first)  # members that we did not know
        lost = [f"{member.node} (lost)" for member in self._peers.view.lost()]
        key = name.decode(errors="replace")
        if missing or lost:
            raise Unavailable(
                f"'{key}' was not found, but {_names(missing + lost)} may have held it"
            )
        raise NotFound(f"'{key}' is on no node")

    def _verify(self, address: str, name: bytes) -> None:
        try:
            self._peers.client.verify(address, name, deadline=self._peers.deadline)
        except HoldfastError:
            return


def encode_key(key: str | bytes) -> bytes:
    """Return a key as it travels; text is UTF-8."""
    if not isinstance(key, (str, bytes)):
        raise BadInput(f"a key is a str or bytes, not {type(key).__name__}")
    name = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    if not 1 <= len(name) <= MAX_KEY:
        raise BadInput(f"a key has 1 to {MAX_KEY} bytes, this one {len(name)}")
    return name


def _public(info: _core.ObjectInfo) -> ObjectInfo:
    key = info.key.decode("utf-8", "surrogateescape")
    return ObjectInfo(key, info.size, info.crc32c, info.tier.name.lower(), info.copies)


def _map(descriptor: int, size: int) -> memoryview:
    from mmap import ACCESS_READ, mmap  # noqa: PLC0415 - few programs map objects

    try:
        return memoryview(mmap(descriptor, size, access=ACCESS_READ) if size else b"")
    finally:
        os.close(descriptor)


def _names(nodes: list[str]) -> str:
    return ", ".join(nodes)
