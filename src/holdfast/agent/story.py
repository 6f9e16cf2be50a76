"""What an agent remembers of what happened and what it decided, for those who ask why."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..client.events import Event, Kind

#: How many of the last events are kept.
MOST = 4096
#: How many characters of a key, a path or a cause are kept.
_LONGEST = 300

#: Seconds since the epoch, and by a clock that nobody sets and that goes on while the host sleeps.
Now = Callable[[], tuple[float, float]]


class Story:
    """The last events of one node, in the order in which it heard of them."""

    def __init__(self, node: str, now: Now) -> None:
        self._node = node
        self._now = now
        self._events: deque[Event] = deque(maxlen=MOST)

    def record(
        self,
        kind: Kind,
        *,
        member: str = "",
        about: str = "",
        what: str = "",
        cause: str = "",
        seconds: float = 0.0,
        deadline: float = 0.0,
        count: int = 0,
        at: float | None = None,
        since: Event | None = None,
    ) -> Event:
        """Keep an event.

        `at` is when it was, by the second clock, if not at this moment; one that began with another
        event, `since`, took as long as that is past.
        """
        time, boot = self._now()
        if since is not None:
            seconds = boot - since.boot
        if at is not None:
            time, boot = time - (boot - at), at
        event = Event(
            time=time,
            boot=boot,
            node=self._node,
            kind=kind,
            member=member,
            about=about[:_LONGEST],
            what=what,
            cause=cause[:_LONGEST],
            seconds=seconds,
            deadline=deadline,
            count=count,
        )
        self._events.append(event)
        return event

    def about(self, *names: str) -> list[Event]:
        """Return what is about one of these keys, paths or nodes; all without any."""
        wanted = {name[:_LONGEST] for name in names}
        return [event for event in self._events if not wanted or wanted & event.names]
