"""Carries out the steps of one client over its connection; what `Objects` and spaces share."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import _core
from ..client.connection import Connection
from ..errors import Damaged, Full, HoldfastError, KeyExists, TryAgain
from .steps import (
    DoubtStep,
    LookStep,
    MergeStep,
    ObjectSteps,
    PutStep,
    RefreshStep,
    SleepStep,
    Steps,
    VerifyStep,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")
#: How many owners are asked for the story of an object that an error is about.
_TOLD_BY = 2


class ObjectRequests:
    """ObjectRequests about objects by their keys, any keys. Safe for threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.steps = ObjectSteps(
            connection.routing, time.monotonic, random.Random(), connection.put_retry_for
        )

    def put(
        self,
        key: bytes,
        data: Buffer,
        copies: int,
        *,
        tier: _core.Tier = _core.Tier.MEMORY,
        header: bytes = b"",
        or_fewer: bool = False,
    ) -> None:
        """Store a contiguous buffer at all owners of its key."""
        connection = self._connection
        address = connection.routing.address

        def put(step: PutStep) -> None:
            connection.client.put(
                [address(step.chain[0]), *(member.address for member in step.chain[1:])],
                step.owners,
                key,
                data,
                tier=tier,
                deadline=connection.deadline,
                header=header,
                up_to=step.up_to,
                hand=connection.hand,
            )

        self.drive(key, self.steps.put(key, copies, or_fewer), put)

    def get(self, key: bytes) -> bytes:
        """Return the bytes of an object."""
        client, deadline = self._connection.client, self._connection.deadline
        return self.find(
            key, lambda at, member: client.get(at, key, member=member, deadline=deadline)
        )

    def find(self, key: bytes, ask: Callable[[str, int], T], local_first: bool = False) -> T:
        """Let `ask` try one member after the other: its address, and its number."""
        address = self._connection.routing.address

        def act(step: LookStep | VerifyStep) -> T | None:
            if isinstance(step, LookStep):
                return ask(address(step.member), step.member.number)
            with contextlib.suppress(HoldfastError):
                self._connection.client.verify(
                    address(step.member), key, deadline=self._connection.deadline
                )
            return None

        return cast(T, self.drive(key, self.steps.find(key, local_first), act))

    def drive(self, key: bytes, steps: Steps, act: Callable[[Any], object]) -> object:
        """Carry out steps about an object; an error carries what agents remember of it."""
        try:
            return self.walk(steps, act)
        except (KeyExists, TryAgain, Full, Damaged) as error:
            owners = self._connection.routing.owners.of(key, _TOLD_BY)
            self._connection.with_story(error, _shown(key), owners)
            raise

    def walk(self, steps: Generator[Any, Any, Any], act: Callable[[Any], object]) -> object:
        """Carry out steps; `act` does those that are not the same whatever is asked for."""
        try:
            step = next(steps)
            while True:
                try:
                    result = self._carry_out(step, act)
                except HoldfastError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return cast(object, end.value)

    def _carry_out(self, step: object, act: Callable[[Any], object]) -> object:
        match step:
            case RefreshStep():
                return self._connection.refresh()
            case MergeStep(member):
                return self._connection.merge(member)
            case DoubtStep(member, key, cause):
                self._connection.doubt(member, _shown(key), cause)
            case SleepStep(seconds):
                time.sleep(seconds)
            case _:
                return act(step)
        return None


def _shown(key: bytes) -> str:
    """Return a key as agents call it in their stories."""
    return key.decode(errors="backslashreplace")
