"""Which member is asked for which cells next: a generator without I/O, like objects/steps.py.

It yields rounds and is sent what came of each question: for each part whether it is here now, or
the error. The steps of objects that it yields besides are carried out as ever.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from typing import Any

import msgspec

from ..client.routing import Routing
from ..errors import Busy, Damaged, HoldfastError, NotYet, Unavailable
from ..membership.view import Member
from ..objects.steps import FAILURES, DoubtStep, RefreshStep
from .description import Variable
from .layout import CellPart
from .selection import show

#: What comes instead of an answer if a member fails.
FAILED = (*FAILURES, Damaged)
#: What one question asks for at most; what is more is asked for beside it.
_MOST_PARTS = 1024
_MOST_BYTES = 16 << 20
#: How many owners are asked again before a box counts as not put: what moved while we asked around
#: is with them by now.
_AGAIN = 2
#: How many nodes are named.
_NAMED = 8


class Question(msgspec.Struct, frozen=True):
    """Parts that one member is asked for."""

    member: Member
    parts: list[CellPart]


class RoundStep(msgspec.Struct, frozen=True):
    """Ask several members at once; sent back: an answer for each question."""

    questions: list[Question]


#: What a member says of a part that it has not whole: nothing of it is there, or something of it
#: went bad; any other number is the same wherever the same is there (store/boxes_message.hpp).
NOTHING, BAD = 0, 2
#: For each of the parts True, if it is here now, or what the member said; or why it could not be
#: asked.
Answer = Sequence[bool | int] | HoldfastError
ReadStep = RoundStep | RefreshStep | DoubtStep
_Candidates = Callable[[Variable, CellPart], Sequence[Member]]


class _Evidence:
    """What members said, or did not, while we looked for parts."""

    def __init__(self) -> None:
        self.failed: dict[int, Member] = {}
        #: Where something went bad.
        self.damaged: dict[int, Member] = {}
        self._told: dict[tuple[object, ...], set[int]] = {}

    def tells(self, member: Member, part: CellPart, told: int) -> None:
        """Take note of what a member has of a part that it has not whole."""
        if told == BAD:
            self.damaged[member.number] = member
        elif told != NOTHING:
            self._told.setdefault(_what(part), set()).add(told)

    def is_scattered(self, parts: Sequence[CellPart]) -> bool:
        """Whether members have different things of one of these parts."""
        return any(len(self._told.get(_what(part), ())) > 1 for part in parts)


def _what(part: CellPart) -> tuple[object, ...]:
    return part.head, part.starts, part.counts, part.steps


class _Sought:
    """A part, and whom to ask for it."""

    def __init__(self, part: CellPart, candidates: Sequence[Member]) -> None:
        self.part = part
        self.queue = deque(candidates)


def _grouped(
    sought: Sequence[_Sought], failed: Container[int]
) -> tuple[dict[int, list[_Sought]], list[CellPart]]:
    """Group parts by the member to be asked next; also returns those that nobody is left for."""
    asked: dict[int, list[_Sought]] = {}
    done = []
    for one in sought:
        while one.queue and one.queue[0].number in failed:
            one.queue.popleft()
        if one.queue:
            asked.setdefault(one.queue[0].number, []).append(one)
        else:
            done.append(one.part)
    return asked, done


def _batches(variable: Variable, group: list[_Sought]) -> Iterator[list[_Sought]]:
    """Divide what one member is asked for into questions of a fair size."""
    batch, size = list[_Sought](), 0
    for one in group:
        needs = math.prod(one.part.counts) * variable.dtype.itemsize
        if batch and (len(batch) == _MOST_PARTS or size + needs > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += needs
    yield batch


class ReadSteps:
    """The steps of one client that reads boxes."""

    def __init__(self, routing: Routing, clock: Callable[[], float]) -> None:
        self._routing = routing
        self._clock = clock

    def find(
        self, variable: Variable, version: int, parts: Sequence[CellPart]
    ) -> Generator[ReadStep, Any, None]:
        """Ask for parts where they should be, then everywhere (rule 7)."""
        left = list(parts)
        while left:
            view, evidence = self._routing.owners.identity, _Evidence()
            left = yield from self._ask(variable, left, self.owners, evidence)
            if not left:
                return
            yield RefreshStep()
            if self._routing.owners.identity != view:
                continue
            if evidence.failed or evidence.damaged or self._moved(variable):
                left = yield from self._ask(variable, left, self._others, evidence)
                yield RefreshStep()
            if left and self._routing.owners.identity == view:
                raise self._missing(variable, version, left, evidence)

    def owners(self, variable: Variable, part: CellPart) -> list[Member]:
        """Return who should have a cell: our own node first, those to avoid last."""
        now, routing = self._clock(), self._routing
        return sorted(
            routing.owners.of(part.head, variable.copies),
            key=lambda member: (routing.avoids(member, now), member.node != routing.node),
        )

    def _others(self, variable: Variable, part: CellPart) -> list[Member]:
        owners = self.owners(variable, part)
        numbers = {member.number for member in owners}
        others = (member for member in self._routing.live if member.number not in numbers)
        return [*others, *owners[:_AGAIN]]

    def _ask(
        self,
        variable: Variable,
        parts: Sequence[CellPart],
        candidates: _Candidates,
        evidence: _Evidence,
    ) -> Generator[ReadStep, Any, list[CellPart]]:
        """Ask the candidates of each part in turn; returns the parts that nobody had."""
        sought = [_Sought(part, candidates(variable, part)) for part in parts]
        nobody: list[CellPart] = []
        broken: set[int] = set()
        while True:
            asked, done = _grouped(sought, evidence.failed)
            nobody += done
            if not asked:
                return nobody
            batches = [batch for group in asked.values() for batch in _batches(variable, group)]
            answers: list[Answer] = yield RoundStep(
                [Question(batch[0].queue[0], [one.part for one in batch]) for batch in batches]
            )
            sought, errors = [], dict[int, tuple[_Sought, HoldfastError]]()
            for batch, answer in zip(batches, answers, strict=True):
                if isinstance(answer, HoldfastError):
                    sought += batch
                    errors[batch[0].queue[0].number] = batch[0], answer
                    continue
                for one, told in zip(batch, answer, strict=True):
                    member = one.queue.popleft()
                    if told is not True:
                        evidence.tells(member, one.part, told)
                        sought.append(one)
            for number, (one, error) in errors.items():
                if isinstance(error, Unavailable | Busy) and number not in broken:
                    # A connection that broke says little of the agent behind it: once more.
                    broken.add(number)
                else:
                    evidence.failed[number] = one.queue[0]
                    yield from self._blame(one, error)

    def _blame(self, one: _Sought, error: HoldfastError) -> Generator[ReadStep, Any, None]:
        if not isinstance(error, Damaged | Busy):  # else its agent is well
            member = one.queue[0]
            self._routing.avoid(member, self._clock())
            yield DoubtStep(member, one.part.head, f"{type(error).__name__}: {error}")

    def _moved(self, variable: Variable) -> bool:
        """Whether others than the owners may hold what was acknowledged.

        A member that refuted a suspicion may have been taken for dead, and others owned meanwhile
        what it owns again.
        """
        nodes = set(variable.roster.nodes)
        refuted = any(
            entry.incarnation > 0 and entry.member.node in nodes
            for entry in self._routing.entries()
        )
        return refuted or bool(self._lost(variable))

    def _lost(self, variable: Variable) -> list[str]:
        """Return the nodes of the roster on which a member was lost, or none lives."""
        lost = {member.node for member in self._routing.lost}
        live = {member.node for member in self._routing.live}
        return [node for node in variable.roster.nodes if node in lost or node not in live]

    def _missing(
        self, variable: Variable, version: int, left: list[CellPart], evidence: _Evidence
    ) -> HoldfastError:
        """Say what was not found, and who may have held it."""
        bounds = zip(*(part.box for part in left), strict=True)
        box = show(tuple((min(a for a, _ in one), max(b for _, b in one)) for one in bounds))
        lost = self._lost(variable)
        failed = [*evidence.failed.values()]
        damaged = [
            member for number, member in evidence.damaged.items() if number not in evidence.failed
        ]
        if not failed and not damaged and len(lost) <= variable.description.survive:
            if evidence.is_scattered(left):
                return Unavailable(
                    f"version {version} of `{variable.name}` has not been put in all of the box "
                    f"{box}, or its parts lie on different nodes until copies are restored; try "
                    "again"
                )
            return NotYet(
                f"version {version} of `{variable.name}` has not been put, or not all of it, in "
                f"the box {box}; try again when it has been"
            )
        names = [
            *(member.node for member in failed),
            *(f"{member.node} (a copy was damaged)" for member in damaged),
            *(f"{node} (lost)" for node in lost),
        ]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return Unavailable(
            f"version {version} of `{variable.name}` was not found in the box {box}, or not all "
            f"of it, but {', '.join(names[:_NAMED])}{more} may have held it"
        )
