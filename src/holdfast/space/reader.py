"""Reading boxes: asks members for what lies in cells, and puts it together."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import cast

from ..client.connection import Connection
from ..membership.view import Member
from ..objects.requests import ObjectRequests
from .description import Variable
from .elements import Array, FilePiece, raw, scatter, view_of
from .layout import CellPart
from .selection import Ranges, Region
from .steps import FAILED, Answer, Question, ReadSteps, RoundStep
from .streams import side_by_side

#: What a member has of each part: its elements, pieces in files of this host, or as in steps.py.
Found = list[memoryview | list[FilePiece] | int]


class Reader:
    """Reads versions of variables into arrays. Safe for threads."""

    def __init__(self, connection: Connection, requests: ObjectRequests) -> None:
        self._connection = connection
        self._requests = requests
        self._steps = ReadSteps(connection.routing, time.monotonic)

    def fill(self, variable: Variable, version: int, out: Array, regions: Sequence[Region]) -> None:
        """Read regions into an array; if it raises, that may hold anything."""
        parts = [part for region in regions for part in variable.layout.parts(*region)]
        ask = partial(self._ask, variable, version, raw(out))

        def act(step: RoundStep) -> list[Answer]:
            return side_by_side(ask, step.questions)

        self._requests.walk(self._steps.find(variable, version, parts), act)

    def view(self, variable: Variable, version: int, ranges: Ranges) -> Array | None:
        """Map a box without a copy; None: no piece on our own node has all of it."""
        routing = self._connection.routing
        parts = list(variable.layout.parts(ranges))
        if len(parts) != 1:
            return None
        member = next(iter(self._steps.owners(variable, parts[0])), None)
        if member is None or routing.address(member) != member.socket:
            return None
        try:
            (found,) = answer = self._boxes(variable, version, member, parts, local=True)
        except FAILED:
            return None
        try:
            return view_of(parts[0], found, variable.dtype) if isinstance(found, list) else None
        except OSError:  # too many files are open, or mapped: it is copied then
            return None
        finally:
            _close(answer)

    def _ask(self, variable: Variable, version: int, out: Array, question: Question) -> Answer:
        try:
            answer = self._boxes(variable, version, question.member, question.parts)
        except FAILED as error:
            return error.with_traceback(None)
        told: list[bool | int] = []
        for part, found in zip(question.parts, answer, strict=True):
            if isinstance(found, memoryview):
                scatter(out, part, found)
            told.append(found if isinstance(found, int) else True)
        return told

    def _boxes(
        self,
        variable: Variable,
        version: int,
        member: Member,
        parts: Sequence[CellPart],
        local: bool = False,
    ) -> Found:
        """Ask for bytes, which the agent verifies, or for files, which nobody does."""
        address = self._connection.routing.address(member)
        answer = self._connection.client.boxes(
            address,
            variable.dtype.itemsize,
            [(part.head, version, part.starts, part.counts, part.steps) for part in parts],
            local=local,
            member=member.number,
            deadline=self._connection.deadline,
        )
        return cast(Found, answer)


def _close(answer: Found) -> None:
    for found in answer:
        if isinstance(found, list):
            for _, _, descriptor, _ in found:
                os.close(descriptor)
