"""A network of simulated processes that delays, loses and doubles messages; one seed, one course.

Nothing here knows what the messages mean. A process serves requests by their type; each request
is answered, at once or later, or it fails at its deadline. Time passes only from event to event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

#: How many bytes travel in the time of one message.
PIECE = 10

Action = Callable[[Any], None]
#: Called once with the answer, or None at the deadline, and with what the asker wants back.
Then = Callable[[Any, Any], None]


class SimulatedProcess:
    """One life of a simulated program; killed, it never comes back."""

    __slots__ = ("address", "alive", "held", "serves", "stopped")

    def __init__(self, address: str) -> None:
        self.address = address
        self.alive = True
        self.stopped = False  # dead, or paused
        self.held: list[tuple[Action, Any]] = []  # what waits for the end of a pause
        self.serves: dict[type, Action] = {}  # called with the call, by type of the message


class NetworkCall:
    """A request on its way; its server may answer it, now or later."""

    __slots__ = (
        "_context",
        "_network",
        "_then",
        "address",
        "answered",
        "expires",
        "message",
        "open",
        "source",
    )

    def __init__(
        self,
        network: Network,
        source: SimulatedProcess,
        address: str,
        message: Any,
        expires: float,
        then: Then | None,
        context: Any,
    ) -> None:
        self._network = network
        self.source = source
        self.address = address
        self.message = message
        self.expires = expires
        self.open = then is not None  # the asker waits
        self.answered = False  # an answer is on its way and will be in time
        self._then = then
        self._context = context

    def answer(self, reply: Any) -> None:
        """Send `reply` back; only the first that arrives in time counts."""
        network = self._network
        if not self.open or network.is_lost(self.address, self.source.address):
            return
        network.sent += 1
        when = network.now + network.travel()
        if when <= self.expires:
            self.answered = True
            network.at(when, self.source, self._settle, reply)

    def expire(self, _: object = None) -> None:
        """Let the call fail if it still waits."""
        self._settle(None)

    def _settle(self, reply: Any) -> None:
        if self.open and self._then is not None:
            self.open = False
            self._then(reply, self._context)


class Network:
    """Processes by address, and everything that happens between them."""

    def __init__(
        self,
        seed: int,
        delay: tuple[float, float] = (0.001, 0.01),
        loss: float = 0.0,
        duplication: float = 0.0,
    ) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.sent = 0  # messages, answers too
        self.delay = delay
        self.loss = loss
        self.duplication = duplication
        self._processes: dict[str, SimulatedProcess] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._events: list[tuple[float, int, SimulatedProcess | None, Action, Any]] = []
        self._order = count()

    # Processes and their faults

    def start(self, address: str) -> SimulatedProcess:
        """Start a process; one that has this address is killed."""
        self.kill(address)
        process = self._processes[address] = SimulatedProcess(address)
        return process

    def kill(self, address: str) -> None:
        """End a process without a word; requests to it fail at their deadline."""
        process = self._processes.pop(address, None)
        if process is not None:
            process.alive = False
            process.stopped = True
            process.held.clear()

    def pause(self, address: str) -> None:
        """Stop a process: what happens to it waits, its clock goes on."""
        self._processes[address].stopped = True

    def resume(self, address: str) -> None:
        """Let a paused process go on, with all that waits for it."""
        process = self._processes[address]
        process.stopped = False
        held, process.held = process.held, []
        for action, argument in held:
            self.at(self.now, process, action, argument)

    def cut(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Lose everything from `sources` to `targets`; the way back stays open."""
        targets = list(targets)
        self._cuts.update((source, target) for source in sources for target in targets)

    def part(self, side: Iterable[str], other: Iterable[str]) -> None:
        """Cut both ways."""
        side, other = list(side), list(other)
        self.cut(side, other)
        self.cut(other, side)

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    # Events

    def at(
        self, when: float, process: SimulatedProcess | None, action: Action, argument: Any
    ) -> None:
        """Call `action(argument)` at a time, in `process`: not if it is dead, later if paused."""
        heappush(self._events, (when, next(self._order), process, action, argument))

    def request(
        self,
        source: SimulatedProcess,
        address: str,
        message: Any,
        deadline: float,
        then: Then,
        context: Any = None,
    ) -> None:
        """Ask; `then(reply, context)` follows, with None for the reply if there is none in time."""
        call = NetworkCall(self, source, address, message, self.now + deadline, then, context)
        self._carry(call)

    def send(self, source: SimulatedProcess, address: str, message: Any) -> None:
        """Send a message that needs no answer."""
        self._carry(NetworkCall(self, source, address, message, 0.0, None, None))

    def run(self, until: float) -> None:
        """Let everything happen up to the time `until`."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, process, action, argument = heappop(events)
            if process is None or not process.stopped:
                action(argument)
            elif process.alive:
                process.held.append((action, argument))
        self.now = until

    def is_lost(self, source: str, target: str) -> bool:
        """Decide whether a message between two addresses is lost."""
        if self._cuts and (source, target) in self._cuts:
            return True
        return self.rng.random() < self.loss

    def travel(self) -> float:
        """Draw the time that a message takes."""
        low, high = self.delay
        return low + (high - low) * self.rng.random()

    def _carry(self, call: NetworkCall) -> None:
        self.sent += 1
        if self.is_lost(call.source.address, call.address):
            self._fail_later(call)
            return
        when = self.now + self.travel()
        heappush(self._events, (when, next(self._order), None, self._arrive, call))
        if when > call.expires:
            self._fail_later(call)
        if self.duplication and self.rng.random() < self.duplication:
            self.at(self.now + self.travel(), None, self._arrive, call)

    def _arrive(self, call: NetworkCall) -> None:
        process = self._processes.get(call.address)
        if process is not None:
            serve = process.serves[type(call.message)]
            if process.stopped:
                process.held.append((serve, call))
            else:
                serve(call)
        if not call.answered:
            self._fail_later(call)

    def _fail_later(self, call: NetworkCall) -> None:
        if call.open:
            self.at(max(call.expires, self.now), call.source, call.expire, None)


class NodeNetwork(Network):
    """Addresses are `node/process`; cuts are between nodes, and nothing is lost within one."""

    def is_lost(self, source: str, target: str) -> bool:
        """Decide whether a message between two addresses is lost."""
        here, _, _ = source.partition("/")
        there, _, _ = target.partition("/")
        return here != there and super().is_lost(here, there)

    def reaches(self, source: str, target: str) -> bool:
        """Whether messages may pass from one node to another and back."""
        return (source, target) not in self._cuts and (target, source) not in self._cuts
