"""`job.objects`: put, get, view, stat, list and drop over the agents of a session."""

from __future__ import annotations

import operator
import os
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from .. import _core
from ..client.connection import Connection
from ..config import TIERS, TierName
from ..errors import BadInput
from ..placement.windows import PREFIX as SPACE_PREFIX
from .requests import ObjectRequests
from .steps import FAILURES, DropBelowStep, DropStep, LookStep

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_KEY = 4096
MAX_COPIES = 16
MAX_HEADER = 1024
_LAST_VERSION = 2**64 - 1
#: How keys begin that are not for `job.objects`, and what they are for.
_RESERVED = {_core.FILE_PREFIX: "files", SPACE_PREFIX: "spaces"}


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an object: `copies` is how many its writer asked for.

    `header` is what its writer said of it, `crc32c` is of its bytes without that.
    """

    key: str
    size: int
    crc32c: int
    tier: str
    copies: int
    header: bytes = b""


class Listing(list[ObjectInfo]):
    """Objects in the order of their keys; `missing` names the nodes that did not answer."""

    missing: tuple[str, ...] = ()


class Objects:
    """Objects of a job. All methods may be used from several threads at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._requests = ObjectRequests(connection)

    def put(
        self,
        key: str | bytes,
        data: Buffer,
        copies: int = 2,
        tier: TierName = "memory",
        *,
        header: bytes = b"",
        or_fewer: bool = False,
    ) -> None:
        """Store `data` under `key` on `copies` nodes; when this returns, all have it.

        Other nodes have verified it. A large copy on the program's own node is written by the
        program, and verified whenever it is sent and by the scrub: with one copy, bytes that change
        during the put are `Damaged` at a later get.

        With `or_fewer` all nodes will do while there are fewer than that; those that come later
        get their copies by themselves. `header` is up to 1 KiB that `stat` and `list` give back.

        A key is written once: the same bytes and header again are fine, others raise `KeyExists`,
        and so does a key that was dropped.
        """
        name = encode_key(key)
        if tier not in TIERS:
            raise BadInput(f"there is no tier {tier!r}; use 'memory' or 'disk'")
        if not isinstance(copies, int) or not 1 <= copies <= MAX_COPIES:
            raise BadInput(f"copies is {copies!r}; use a whole number from 1 to {MAX_COPIES}")
        if not isinstance(header, bytes):
            raise BadInput(f"the header must be bytes, not {type(header).__name__}")
        if len(header) > MAX_HEADER:
            raise BadInput(
                f"the header has {len(header)} bytes, but at most {MAX_HEADER}; put more into the "
                "data, or under a key of its own"
            )
        try:
            self._requests.put(
                name, data, copies, tier=TIERS[tier], header=header, or_fewer=or_fewer
            )
        except (TypeError, BufferError) as error:
            raise BadInput(f"the data of {key!r} must be a contiguous buffer: {error}") from None

    def get(self, key: str | bytes) -> bytes:
        """Return the bytes of an object."""
        name = encode_key(key)
        return self._requests.get(name)

    def get_into(self, key: str | bytes, out: Buffer) -> int:
        """Receive an object into a writable buffer of at least its size; return its size."""
        name = encode_key(key)
        client, deadline = self._connection.client, self._connection.deadline
        try:
            return self._requests.find(
                name,
                lambda at, member: client.get_into(at, name, out, member=member, deadline=deadline),
            )
        except (TypeError, BufferError) as error:
            raise BadInput(f"`out` must be a writable, contiguous buffer: {error}") from None

    def view(self, key: str | bytes) -> memoryview:
        """Return the bytes of an object read-only, mapped without a copy where they lie here."""
        name = encode_key(key)
        client, deadline = self._connection.client, self._connection.deadline
        found = self._requests.find(
            name,
            lambda at, member: client.open(at, name, member=member, deadline=deadline),
            local_first=True,
        )
        if found[0] is None:
            return memoryview(found[1])
        return _map(*found)

    def stat(self, key: str | bytes) -> ObjectInfo:
        """Return what is known of an object."""
        name = encode_key(key)
        return _public(self._requests.find(name, partial(self._stat, name)))

    def list(self, prefix: str | bytes = "") -> Listing:
        """List the objects whose keys start with `prefix`, on all nodes that answer."""
        start = _encode(prefix)
        routing = self._connection.routing
        found: dict[bytes, _core.ObjectInfo] = {}
        missing = []
        for member in routing.live:
            try:
                after, more = b"", True
                while more:
                    page, more = self._connection.client.list_page(
                        routing.address(member), start, after, deadline=self._connection.deadline
                    )
                    objects = (one for one in page if _reserved(one.key) is None)
                    found.update((info.key, info) for info in objects)
                    after = page[-1].key if page else after
                    if reserved := _reserved(after):  # these are not listed: skip them
                        after = reserved + b"\xff"
            except FAILURES:
                routing.avoid(member, time.monotonic())
                missing.append(member.node)
        listing = Listing(_public(found[key]) for key in sorted(found))
        listing.missing = tuple(missing)
        return listing

    def drop(self, key: str | bytes) -> None:
        """Remove an object for ever; its key cannot be written again.

        When this returns, its owners have dropped it, and nobody gets it any more while one of
        them lives; copies elsewhere go as their nodes hear of it.
        """
        name = encode_key(key)
        client, deadline = self._connection.client, self._connection.deadline
        copies = self.stat(key).copies

        def drop(step: LookStep | DropStep) -> int | None:
            address = self._connection.routing.address(step.member)
            if isinstance(step, LookStep):
                return self._stat(name, address, step.member.number).copies
            client.drop(address, name, step.owners, deadline=deadline, copies=step.copies)
            return None

        self._requests.drive(name, self._requests.steps.drop(name, copies), drop)

    def drop_below(self, prefix: str | bytes, version: int) -> None:
        """Remove all versions below `version` for ever; their keys cannot be written again.

        An object's version is the whole number that follows `prefix` in its key, up to a slash or
        the end: `drop_below("run/T/", 12)` removes `run/T/11` and `run/T/0003/block`, but not
        `run/T/12` or `run/T/notes`. However many objects that are, every node remembers it in a
        few bytes, so it is the way to forget old steps of a long run.

        When this returns, every node that lives has taken note, so that nobody gets them or writes
        them any more; their room is given back bit by bit. If some nodes do not answer, and are
        not found to be dead meanwhile, `Unavailable` names them; repeating it is safe.
        """
        name = encode_key(prefix)
        try:
            bound = operator.index(version)
        except TypeError:
            raise BadInput(f"the version is {version!r}; use a whole number") from None
        if bound > _LAST_VERSION:
            raise BadInput(f"the version is {bound}; the greatest is {_LAST_VERSION}")
        _core.watermark(name, max(bound, 0))  # raises if the prefix will not do
        if bound <= 0:
            return
        client, deadline = self._connection.client, self._connection.deadline

        def drop(step: DropBelowStep) -> None:
            address = self._connection.routing.address(step.member)
            client.drop_below(address, name, bound, deadline=deadline)

        self._requests.drive(name, self._requests.steps.drop_below(name), drop)

    def _stat(self, name: bytes, address: str, member: int) -> _core.ObjectInfo:
        client, deadline = self._connection.client, self._connection.deadline
        return client.stat(address, name, member=member, deadline=deadline)


def encode_key(key: str | bytes) -> bytes:
    """Return a key as it travels."""
    name = _encode(key)
    if reserved := _reserved(name):
        raise BadInput(
            f"keys that begin with {reserved.decode()} are reserved for {_RESERVED[reserved]}; "
            "choose another"
        )
    if not 1 <= len(name) <= MAX_KEY:
        raise BadInput(f"a key must have 1 to {MAX_KEY} bytes, not {len(name)}")
    return name


def _reserved(key: bytes) -> bytes | None:
    """Return the reserved prefix of a key; None: it has none."""
    return next((prefix for prefix in _RESERVED if key.startswith(prefix)), None)


def _encode(text: str | bytes) -> bytes:
    """Return a key or its beginning as bytes: text is UTF-8, bytes that are not are escaped."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise BadInput(f"a key must be a str or bytes, not {type(text).__name__}")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadInput(
            f"the key {text!r} has a lone surrogate at {error.start}, so it is not valid "
            "text; use valid text, or bytes"
        ) from None


def _public(info: _core.ObjectInfo) -> ObjectInfo:
    return ObjectInfo(
        key=info.key.decode("utf-8", "surrogateescape"),
        size=info.size,
        crc32c=info.crc32c,
        tier=info.tier.name.lower(),
        copies=info.copies,
        header=info.header,
    )


def _map(descriptor: int, size: int) -> memoryview:
    from mmap import ACCESS_READ, mmap  # noqa: PLC0415 - few programs map objects

    try:
        return memoryview(mmap(descriptor, size, access=ACCESS_READ) if size else b"")
    finally:
        os.close(descriptor)
