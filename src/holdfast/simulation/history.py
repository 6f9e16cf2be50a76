"""What happened to a simulated cluster, as seen from outside: calls, answers, copies, faults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ..errors import HoldfastError


class Violation(AssertionError):
    """A promise was broken."""


class Call(msgspec.Struct, kw_only=True):
    """One call of a client and what it was answered."""

    client: str
    kind: Literal["put", "get", "drop", "drop up to", "read", "refresh"]
    key: bytes
    began: float
    node: str  # of the client
    view: int  # identity of the client's view when it called
    local: bool = False  # there was a copy on its own node
    content: bytes = b""  # to be put, and the header
    copies: int = 0  # likewise
    or_fewer: bool = False  # likewise
    nodes: int = 0  # that may own the object, when it ended, if fewer copies will do
    refreshed: int = 0  # what is read of a file must be no older version
    live: frozenset[int] = frozenset()  # members in the client's view, when it had dropped up to it
    ended: float | None = None
    error: HoldfastError | None = None
    result: bytes | None = None

    def __str__(self) -> str:
        outcome = "runs" if self.ended is None else f"{self.ended:.3f}: "
        if self.ended is not None:
            outcome += type(self.error).__name__ if self.error else repr(self.result)
        what = f"{self.kind} {self.key.decode()}".replace("\0", "@")
        return f"{self.began:.3f} {self.client} {what} {self.content!r} -> {outcome}"


class Record(msgspec.Struct, kw_only=True):
    """The story of one key."""

    key: bytes
    copies: int  # that were acknowledged, or else those that the first put wants
    size: int
    has_source: bool = False  # a file, of which copies may be evicted
    most_copies: int = 0  # that a put ever wanted
    first_copies: int = 0  # that the first one wants
    least_copies: int = 0  # that a put ever wanted
    strict_copies: int = 0  # the most that one ever wanted which fewer would not do
    wanted: int = 0  # the most that one wanted which was acknowledged
    or_fewer: bool = False  # will do for the first put
    began: dict[bytes, float] = {}  # when the first put of each content began
    acknowledged: dict[bytes, float] = {}  # when
    drop_began: float | None = None
    drop_acknowledged: float | None = None
    holders: dict[int, bytes] = {}  # content by member, of those who live
    aside: dict[bytes, dict[int, bytes]] = {}  # likewise by the keys of versions that were moved
    gone: set[bytes] = set()  # contents of which no copy was left at some moment
    buried: set[int] = set()  # live members that know of the drop
    rotten: set[int] = set()  # live members that have not noticed that their copy is bad
    failures: list[float] = []  # when a holder died or a rotten copy was found
    whole: float = 0.0  # when there were last as many copies as wanted
    lost: bool = False  # no copy was left at some moment
    rotted: bool = False
    remembered: bool = False  # a member has ever known of the drop
    forgotten: bool = False  # no live member knew of the drop at some moment after it

    def __post_init__(self) -> None:
        self.first_copies = self.least_copies = self.copies
        self.most_copies = max(self.most_copies, self.copies)

    @property
    def name(self) -> bytes:
        """Of the file, of which this is a version."""
        return self.key.partition(b"\0")[0]

    @property
    def contested(self) -> bool:
        """Whether different bytes were put."""
        return len(self.began) > 1

    @property
    def safe(self) -> bool:
        """Whether the object is promised to be there."""
        return bool(self.acknowledged) and self.drop_began is None and not self.lost

    def contents(self) -> set[bytes]:
        """Return all versions that somebody holds, under whatever key."""
        places = (self.holders, *self.aside.values())
        return {content for holders in places for content in holders.values()}

    def good(self) -> int:
        """Count the copies that hold what was acknowledged."""
        return sum(content in self.acknowledged for content in self.holders.values())


def series(key: bytes) -> tuple[bytes, int]:
    """Return of which series of versions an object is, and which one."""
    prefix, slash, version = key.rpartition(b"/")
    return prefix + slash, int(version)


def up_to(key: bytes, keys: Iterable[bytes]) -> list[bytes]:
    """Return those of the same series whose versions are no greater."""
    prefix, version = series(key)
    return [one for one in keys if one.startswith(prefix) and series(one)[1] <= version]


def named_by(notice: bytes, keys: Iterable[bytes]) -> list[bytes]:
    """Return those of which a notice says that they were dropped."""
    topic, text = notice[:1], notice[1:]
    if topic == b"t":
        return [text]
    prefix, version = watermark(notice)
    return up_to(prefix + b"%d" % (version - 1), keys)


def watermark(notice: bytes) -> tuple[bytes, int]:
    """Return the prefix of a notice that versions were dropped, and below which one."""
    return notice[9:], int.from_bytes(notice[1:9], "little")
