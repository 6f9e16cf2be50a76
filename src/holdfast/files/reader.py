"""How a program asks for a file; whom, and what then when an owner fails, the core decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from .. import _core
from ..client.connection import Connection
from ..client.fork_lock import fork_lock
from ..config import Config
from ..errors import Damaged, DeadlineMissed, NotCached, StaleView, TryAgain, Unavailable
from ..membership.view import Member

T = TypeVar("T")
#: How to ask a member: its address, how long to wait, and whether it stands in for one that failed.
Ask = Callable[[str, float, bool], T]
#: What to do when an owner fails; the core knows them by their places.
POLICIES = ("abort", "redirect", "recache")
_ABORT = POLICIES.index("abort")
#: An agent that lives and reads a large file may take so many deadlines; the shim has the same.
_MOST_DEADLINES = 10
#: How often the view is asked for while files are read, in seconds.
_LOOK_EVERY = 1.0


class FileStats(msgspec.Struct):
    """What a program has read so far, and from where."""

    local: int = 0  # from the agent of its own node
    remote: int = 0  # from other agents
    shared: int = 0  # from the shared file system, by the program itself
    failures: int = 0  # requests that an agent failed
    bytes: int = 0


class FileReader:
    """Turns to the owner of a file, and elsewhere if it fails. Safe for threads."""

    def __init__(self, connection: Connection, config: Config, on_failure: str) -> None:
        self._connection = connection
        self._policy = POLICIES.index(on_failure)
        self._trust = _core.Trust(
            config.file_strikes, config.avoid, config.file_deadline, config.deadline
        )
        self._look_at = 0.0
        self._counting = fork_lock()
        self._stats = FileStats()

    def owner(self, name: bytes, ask: Ask[T], source: Callable[[], T], deadline: float = 0.0) -> T:
        """Ask the owners of a file in turn; else `source`.

        `deadline` is borne instead of what an owner is trusted with, if it is given.
        """
        self._look()
        stale = False
        failure: TryAgain | None = None
        walk, members = self._walk(name)
        while (number := walk.next(self._trust, time.monotonic())) is not None:
            member = members[number]
            try:
                return self._try(member, ask, walk.stands_in, deadline)
            except (NotCached, Damaged):
                break  # Damaged: its copy was bad, or the storage failed it
            except StaleView:
                if stale:
                    break
                # It sees another owner and has no copy: one of us has old news.
                stale = True
                self._connection.merge(member)
                walk, members = self._walk(name)
            except TryAgain as error:
                failure = error
                self._blame(member, name, error)
                walk.failed()
        if walk.aborts:
            raise self._unavailable(walk, name) from failure
        self.count(shared=1)
        return source()

    def own_agent(self, name: bytes, ask: Ask[T], source: Callable[[], T]) -> T:
        """Ask the agent of our own node, which asks the owners; else `source`."""
        self._look()
        routing = self._connection.routing
        member = next((one for one in routing.live if one.node == self._connection.node), None)
        try:
            if member is not None and self._trusts(member):
                return self._patiently(member, ask)
        except (NotCached, Damaged):
            pass
        except TryAgain as error:
            if member is not None and member == routing.member_at(error) and self._silent(member):
                self._blame(member, name, error)
            if self._policy == _ABORT:
                raise
        else:  # nobody asks the owners for us, but one that failed is a reason to give up
            walk, _ = self._walk(name)
            if walk.next(self._trust, time.monotonic()) is None and walk.aborts:
                raise self._unavailable(walk, name)
        self.count(shared=1)
        return source()

    def _patiently(self, member: Member, ask: Ask[T]) -> T:
        """Ask our own agent, which answers when it has the whole file: again while it lives."""
        left = _MOST_DEADLINES
        while True:
            try:
                return self._try(member, ask, deadline=self._connection.deadline)
            except DeadlineMissed:
                left -= 1
                if not left or self._silent(member):
                    raise

    def _silent(self, member: Member) -> bool:
        """Whether an agent does not even tell its view; then it is avoided for a while."""
        self._connection.refresh()
        return self._connection.routing.avoids(member, time.monotonic())

    def _walk(self, name: bytes) -> tuple[_core.OwnerWalk, Mapping[int, Member]]:
        """Begin to ask the owners of a file; returns the members by number as well."""
        owners = self._connection.routing.owners
        return owners.files.walk(_core.FILE_PREFIX + name, self._policy), owners.members

    def count(self, **more: int) -> None:
        """Count what was read."""
        with self._counting:
            for name, number in more.items():
                setattr(self._stats, name, getattr(self._stats, name) + number)

    def stats(self) -> FileStats:
        """Return what was counted."""
        with self._counting:
            return msgspec.structs.replace(self._stats)

    def _lives(self, member: Member) -> bool:
        return member.number in self._connection.routing.owners.members

    def _trusts(self, member: Member) -> bool:
        return self._lives(member) and self._trust.trusts(member.number, time.monotonic())

    def _try(
        self, member: Member, ask: Ask[T], stands_in: bool = False, deadline: float = 0.0
    ) -> T:
        start = time.monotonic()
        wait = deadline or self._trust.deadline(member.number)
        result = ask(self._connection.routing.address(member), wait, stands_in)
        if not deadline:
            self._trust.answered(member.number, time.monotonic() - start)
        self.count(**{"local" if member.node == self._connection.node else "remote": 1})
        return result

    def _unavailable(self, walk: _core.OwnerWalk, name: bytes) -> Unavailable:
        error = Unavailable(walk.reason)
        self._connection.with_story(error, name.decode(errors="backslashreplace"), ())
        return error

    def _blame(self, member: Member, name: bytes, error: TryAgain) -> None:
        if not self._trusts(member):
            return  # it was blamed before
        self.count(failures=1)
        self._trust.failed(member.number, isinstance(error, DeadlineMissed), time.monotonic())
        cause = f"{type(error).__name__}: {error}"
        self._connection.doubt(member, name.decode(errors="backslashreplace"), cause)
        self._look_at = 0.0

    def _look(self) -> None:
        """Learn now and then who died and who joined: their share has other owners."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._connection.refresh()
