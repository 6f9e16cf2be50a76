"""Reaching the agents of a session from outside: whom do we know, and calls to many at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from .._core import AgentClient
from ..errors import HoldfastError, TryAgain
from ..membership.view import Entry, Member, State, View, decode
from ..session import session as sessions
from .messages import ViewReply, ViewRequest

T = TypeVar("T")
_ASK_VIEW = msgspec.msgpack.encode(ViewRequest())
#: Calls at once.
_THREADS = 64
_LOOK_EVERY = 0.01
_TELL_WITHIN = 1.0


class Contacts:
    """A session as its directory on this host shows it, and its agents by way of that."""

    def __init__(self, directory: Path, deadline: float) -> None:
        self.session = sessions.read(directory)
        self.client = AgentClient(sessions.read_key(directory))
        known = sessions.agents(directory)
        self.agents = [agent for agent in known if agent.process.here]
        self.deadline = deadline
        self._here = {agent.member.number for agent in self.agents}
        # Of other hosts that share the directory: no socket of theirs leads anywhere from here.
        self._elsewhere = [agent.member.address for agent in known if not agent.process.here]

    def view(self, own: str = "") -> View:
        """Return the members that the agents of this host and the first that answers know."""
        here = sorted((agent.member for agent in self.agents), key=lambda m: m.node != own)
        view = View(Entry(member, 0, State.ALIVE) for member in here)
        seeds = self.session.home.seeds if self.session.home else ()
        for address in (*(member.socket for member in here), *self._elsewhere, *seeds):
            try:
                answer = self.client.call(
                    address, "membership", "view", _ASK_VIEW, deadline=self.deadline
                )
            except TryAgain:
                continue
            view.merge(msgspec.msgpack.decode(answer, type=ViewReply).entries)
            break
        return view

    def address(self, member: Member) -> str:
        """Return how to reach a member from this host."""
        return member.socket if member.number in self._here else member.address

    def stop(self, members: Sequence[Member], within: float) -> list[Member]:
        """Tell agents to end and wait until they have; returns those that did not answer."""

        def stop(member: Member) -> bool:
            end = time.monotonic() + within
            told = False
            while time.monotonic() < end:
                try:
                    if told:
                        self._call(member, "membership", "view", _ASK_VIEW)
                    else:
                        self._call(member, "agent", "stop", b"")
                except TimeoutError:
                    if not told:
                        return False
                except TryAgain:  # nobody listens any more
                    return True
                told = True
                time.sleep(_LOOK_EVERY)
            return False

        return [member for member, ended in at_once(stop, members) if not ended]

    def answering(self, members: Sequence[Member]) -> list[Member]:
        """Return the members whose agents answer."""

        def answers(member: Member) -> bool:
            try:
                self._call(member, "membership", "view", _ASK_VIEW)
            except HoldfastError:
                return False
            return True

        return [member for member, there in at_once(answers, members) if there]

    def _call(self, member: Member, service: str, method: str, message: bytes) -> bytes:
        address = self.address(member)
        return self.client.call(address, service, method, message, deadline=self.deadline)


def join(client: AgentClient, members: Sequence[Member], news: View, deadline: float) -> View:
    """Tell agents who else is there; returns what they know, raises if one cannot be told in time.

    Who closes the connection is asked again: on a busy machine that says nothing about the agent,
    and to hear the same news twice does no harm.
    """
    message = news.encode()
    end = time.monotonic() + deadline

    def tell(member: Member) -> bytes:
        while True:
            left = end - time.monotonic()
            try:
                return client.call(member.address, "membership", "join", message, deadline=left)
            except TryAgain:
                if time.monotonic() + _LOOK_EVERY > end:
                    raise
                time.sleep(_LOOK_EVERY)

    known = View()
    for _, answer in at_once(tell, members):
        known.merge(decode(answer))
    return known


def tell(client: AgentClient, members: Sequence[Member], news: View) -> View:
    """Tell those of `members` who listen; the others are avoided anyway."""
    message = news.encode()

    def try_it(member: Member) -> bytes | None:
        try:
            return client.call(member.address, "membership", "join", message, deadline=_TELL_WITHIN)
        except TryAgain:
            return None

    known = View()
    for _, answer in at_once(try_it, members):
        if answer is not None:
            known.merge(decode(answer))
    return known


def at_once(work: Callable[[Member], T], members: Sequence[Member]) -> list[tuple[Member, T]]:
    """Do something with many members at a time; the first error is raised when all are done.

    So is a Ctrl-C: one that comes while Python starts a thread or waits for it can leave a lock
    that is never released, and one in the callback of a weak reference, as threads have them, is
    ignored.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return _in_threads(work, members)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_threads(work: Callable[[Member], T], members: Sequence[Member]) -> list[tuple[Member, T]]:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - clients need no threads

    with ThreadPoolExecutor(min(_THREADS, max(len(members), 1))) as pool:
        return list(zip(members, pool.map(work, members), strict=True))
