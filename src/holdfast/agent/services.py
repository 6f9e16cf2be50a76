"""Services on the Python side of an agent: a name, methods, messages in MessagePack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Protocol

from .. import _core
from ..errors import BadInput, HoldfastError
from ..membership.view import UNREADABLE, Member
from .trouble import Trouble

#: Services that lie above the agent: module and class, made with the core and the agent's member.
_OFFERED = (("holdfast.files.service", "FilesService"),)


#: What takes long is done by a thread of its own, since the loop must not wait, and answers then.
Later = Callable[[], bytes]


class Service(Protocol):
    """What answers the control calls under one name."""

    name: str

    def handle(self, method: str, message: bytes) -> bytes | Later:
        """Answer one call, at once or later; raise a HoldfastError to refuse it."""
        ...


def offered(core: _core.Agent, member: Member) -> Iterator[Service]:
    """Make the services that every agent offers."""
    for module, name in _OFFERED:
        yield getattr(import_module(module), name)(core, member)


class Services:
    """The services of an agent, and the loop's work of answering calls."""

    def __init__(self, trouble: Trouble) -> None:
        self._services: dict[str, Service] = {}
        self._trouble = trouble

    def register(self, service: Service) -> None:
        """Offer `service` under its name."""
        self._services[service.name] = service

    def answer_waiting(self, core: _core.Agent, due: Callable[[], bool]) -> None:
        """Answer calls that wait, until something else is `due`: callers may come without end.

        A failure of one is its caller's, not the agent's.
        """
        while (call := core.next_call()) is not None:
            number, name, method, message = call
            self._answer(
                core, number, f"{name}.{method}", partial(self._handle, name, method, message)
            )
            if due():
                return  # the core stays readable

    def _handle(self, name: str, method: str, message: bytes) -> bytes | Later:
        service = self._services.get(name)
        if service is None:
            raise BadInput(f"this agent has no service {name!r}")
        return service.handle(method, message)

    def _answer(
        self, core: _core.Agent, number: int, what: str, work: Callable[[], bytes | Later]
    ) -> None:
        try:
            answer = work()
            if isinstance(answer, bytes):
                core.answer(number, answer)
                return
            from threading import Thread  # noqa: PLC0415 - slow to import, and rarely needed

            Thread(target=self._answer, args=(core, number, what, answer), daemon=True).start()
        except HoldfastError as error:
            _refuse(core, number, type(error).__name__, str(error))
        except UNREADABLE as error:
            self._trouble.ill_formed(f"a message to {what}", error)
            _refuse(
                core,
                number,
                "BadInput",
                f"cannot decode the message to {what} ({error}); the sender may run "
                "another version of Holdfast",
            )
        except Exception as error:
            self._trouble.failure(what, error)
            _refuse(core, number, "HoldfastError", f"{what} failed: {error!r}")


def _refuse(core: _core.Agent, number: int, kind: str, reason: str) -> None:
    core.fail(number, kind, reason.encode(errors="backslashreplace").decode())
