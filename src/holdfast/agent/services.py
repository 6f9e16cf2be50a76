"""The services of one agent: calls reach them by name, the rest by what each is able to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from .. import _core
from ..config import Config
from ..errors import BadInput, HoldfastError
from ..membership.owners import Owners
from ..membership.view import UNREADABLE, Member
from .metrics import Family
from .parked import Parked, ParkedCalls, refuse
from .service import Configured, Reporting, Returning, Service, Ticking, Viewing
from .trouble import Trouble

#: Seconds after which a tick that failed is tried again.
_TRY_AGAIN = 1.0


class Services:
    """All services of an agent, each under its name."""

    def __init__(self, core: _core.Agent, trouble: Trouble, config: Config) -> None:
        self._core = core
        self._trouble = trouble
        self._config = config
        self._services: dict[str, Service] = {}
        self._ticking: list[Ticking] = []
        self._parked = ParkedCalls()

    def add(self, service: Service) -> None:
        """Offer `service` under its name, with all that it is able to do."""
        assert service.name not in self._services
        self._services[service.name] = service
        if isinstance(service, Configured):
            service.configure(self._config)
        if isinstance(service, Ticking):
            self._ticking.append(service)

    # ---- calls ----------------------------------------------------------------------------

    def answer_waiting(self, due: Callable[[], bool]) -> None:
        """Answer calls that wait, until something else is `due`: callers may come without end.

        A failure of one is its caller's, not the agent's.
        """
        for number in self._core.take_cancelled():
            self._give_up(partial(self._parked.cancel, number))
        while (call := self._core.next_call()) is not None:
            work = partial(self._handle, call.service, call.method, call.message)
            self._answer(call.id, f"{call.service}.{call.method}", call.within, work)
            if due():
                return  # the core stays readable

    def _give_up(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # of a service that was told
            self._trouble.failure("giving up a parked call", error)

    def _handle(self, name: str, method: str, message: bytes) -> bytes | Parked:
        service = self._services.get(name)
        if service is None:
            raise BadInput(f"this agent has no service {name!r}")
        return service.handle(method, message)

    def _answer(
        self,
        number: int,
        what: str,
        within: float | None,
        work: Callable[[], bytes | Parked],
    ) -> None:
        try:
            answer = work()
            if isinstance(answer, bytes):
                self._core.answer(number, answer)
            elif within is None:
                self._give_up(answer.give_up)
                raise BadInput(f"{what} replies later: use a waiting call")
            else:
                self._parked.add(self._core, number, answer, time.monotonic() + within)
        except HoldfastError as error:
            refuse(self._core, number, type(error).__name__, str(error))
        except UNREADABLE as error:
            self._trouble.ill_formed(f"a message to {what}", error)
            refuse(
                self._core,
                number,
                "BadInput",
                f"cannot decode the message to {what} ({error}); the sender may run "
                "another version of Holdfast",
            )
        except Exception as error:
            self._trouble.failure(what, error)
            refuse(self._core, number, "HoldfastError", f"{what} failed: {error!r}")

    # ---- what happens to all --------------------------------------------------------------

    def until_tick(self) -> float:
        """Return the seconds until `tick` is to be called."""
        now = time.monotonic()
        due = min((service.due for service in self._ticking), default=float("inf"))
        return min(max(0.0, due - now), self._parked.until_due(now))

    def tick(self) -> None:
        """Let those tick that are due, and end the parked calls whose time is over."""
        now = time.monotonic()
        self._give_up(partial(self._parked.expire, now))
        for service in self._ticking:
            if service.due > now:
                continue
            try:
                service.tick(now)
            except Exception as error:
                self._trouble.failure("the periodic work", error)
                service.due = max(service.due, now + _TRY_AGAIN)

    def viewed(self, owners: Owners, live: Sequence[Member], lost: Sequence[Member]) -> None:
        """Tell those who want to know that other members own objects."""
        for service in self._services.values():
            if isinstance(service, Viewing):
                service.viewed(owners, live, lost)

    def was_away(self) -> None:
        """Tell those who must know that others took us for dead."""
        for service in self._services.values():
            if isinstance(service, Returning):
                service.was_away()

    def statuses(self) -> dict[str, msgspec.Struct]:
        """Return what each service reports."""
        return {name: service.status() for name, service in self._reporting()}

    def metrics(self) -> Iterator[Family]:
        """Return what each service measures."""
        for _, service in self._reporting():
            yield from service.metrics()

    def _reporting(self) -> Iterator[tuple[str, Reporting]]:
        for name, service in self._services.items():
            if isinstance(service, Reporting):
                yield name, service
