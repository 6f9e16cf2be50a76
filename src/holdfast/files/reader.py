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

    def __init__(self, connection: Connection, config: Config, on_failure: _core.OnFailure) -> None:
        self._connection = connection
        self._on_failure = on_failure
        self._trust = _core.Trust(
            config.file_strikes, config.avoid, config.file_deadline, config.deadline
        )
        self._own = 0  # the agent of our node, by its number
        self._backoff = _core.Backoff()  # from that one
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
                break  # Damaged: its copy was bad, or the shared file system failed it
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
        member = self._own_agent()
        try:
            if member is not None:
                return self._retried(member, ask)
        except (NotCached, Damaged):
            self._backoff.answered()
        except TryAgain as error:
            at = self._connection.routing.member_at(error)
            if member is not None and member == at and self._silent(member):
                self._backoff.failed(time.monotonic())
                self._blame(member, name, error)
            if self._on_failure == _core.OnFailure.ABORT:
                raise
        else:  # nobody asks the owners for us, but one that failed is a reason to give up
            walk, _ = self._walk(name)
            if walk.next(self._trust, time.monotonic()) is None and walk.aborts:
                raise self._unavailable(walk, name)
        self.count(shared=1)
        return source()

    def _own_agent(self) -> Member | None:
        """Return the agent of our own node, if it is to be asked now."""
        live = self._connection.routing.live
        member = next((one for one in live if one.node == self._connection.node), None)
        if member is None or not self._lives(member):
            return None
        if member.number != self._own:  # started again: it has not failed yet
            self._own, self._backoff = member.number, _core.Backoff()
        return None if self._backoff.backs_off(time.monotonic()) else member

    def _retried(self, member: Member, ask: Ask[T]) -> T:
        """Ask our own agent, which answers when it has the whole file: again while it lives."""
        left = _core.FILE_DEADLINES
        while True:
            try:
                result = self._try(member, ask, deadline=self._connection.deadline)
                self._backoff.answered()
                return result
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
        key = _core.FILE_PREFIX + name
        return _core.OwnerWalk(owners.placement, key, self._on_failure), owners.members

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
