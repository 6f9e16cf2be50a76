"""The promises of the design, checked from outside.

All that counts is what clients called and were answered, and what the stores hold. Nothing here
knows how it is done.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from ..errors import BadInput, Dropped, Full, KeyExists, NotEnoughNodes, NotFound, TryAgain
from ..membership.key_spaces import KeySpace, fitting
from ..membership.owners import Owners
from ..restoration.holdings import ASIDE
from .file_owner import copy_key, version_in
from .history import Call, Record, Violation, named_by, series, up_to, watermark
from .scenario import Scenario

#: A confirmation that is this old may still let a copy be trimmed, so a death counts as long.
_CONFIRMED = 6.0


class Checkers:
    """Follows all that happens and raises `Violation` at once where a promise is broken."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Callable[[], float],
        key_spaces: tuple[KeySpace, ...] = (),
    ) -> None:
        self._scenario = scenario
        self._clock = clock
        self._key_spaces = key_spaces
        self._owners: dict[int, Owners] = {}  # as a member sees them
        #: Since when a member owns a key that it did not own before, and has no copy.
        self._lacking: dict[tuple[int, bytes], float] = {}
        self._nodes: dict[int, str] = {}  # by member
        self._started: dict[int, float] = {}
        self._running: set[int] = set()
        self._marks: dict[tuple[int, bytes], int] = {}  # by member and prefix
        self._pulled: Counter[int] = Counter()  # bytes
        self.records: dict[bytes, Record] = {}
        self.calm_since = 0.0  # since when there was no fault; infinite while there is one
        self.stable_since = 0.0  # since when all agents have the same view
        self.identity = 0  # that view

    # ---- what clients call and are answered ----------------------------------------------------

    def began(self, call: Call) -> None:
        """Take note of a call."""
        record = self.records[call.key]
        call.local = any(self._nodes[member] == call.node for member in record.holders)
        if call.kind == "put":
            record.began.setdefault(call.content, call.began)
            record.most_copies = max(record.most_copies, call.copies)
            record.least_copies = min(record.least_copies, call.copies)
            if not call.or_fewer:
                record.strict_copies = max(record.strict_copies, call.copies)
        for dropped in self._dropped_by(call):
            dropped.drop_began = dropped.drop_began or call.began

    def ended(self, call: Call) -> None:
        """Check the answer to a call."""
        assert call.ended is not None
        if call.ended - call.began > self._scenario.deadlines[call.kind]:
            raise Violation(f"deadlines: {call} took {call.ended - call.began:.1f} s")
        record = self.records[call.key]
        match call.kind:
            case "put":
                self._put(call, record)
            case "get":
                self._got(call, record)
            case "read":
                self._read(call)
            case "drop" | "drop up to" if call.error is None:
                self._told(call)
                for dropped in self._dropped_by(call):
                    self._dropped(call, dropped)
        if call.error is not None:
            self._refused(call, record)

    def _put(self, call: Call, record: Record) -> None:
        now = self._clock()
        if call.error is not None:
            return
        if not self.in_common(call):
            raise Violation(f"fencing: {call}, though all of its owners might be left out")
        others = [at for content, at in record.acknowledged.items() if content != call.content]
        first = min(record.began.values())
        if others and record.drop_began is None and self._undisturbed(first):
            raise Violation(f"written once: {call} though other bytes were acknowledged")
        is_first = not record.acknowledged
        record.acknowledged.setdefault(call.content, now)
        record.lost |= record.good() == 0
        if record.contested or record.drop_began is not None:
            return
        failed = sum(at >= call.began for at in record.failures) + len(record.rotten)
        promised = call.copies
        if call.or_fewer:  # who else lived in the view of the owners nobody knows from outside
            promised = min(promised, call.nodes) if self._undisturbed(call.began) else 1
        if record.good() + failed < promised:
            raise Violation(
                f"acknowledged: {call} has {record.good()} of {promised} copies, "
                f"and {failed} holders died"
            )
        record.wanted = max(record.wanted, call.copies)
        if is_first or promised >= record.copies:
            record.copies = promised
            record.whole = now if record.good() >= record.copies else call.began

    def _got(self, call: Call, record: Record) -> None:
        if call.error is not None:
            return
        if call.result not in record.began:
            raise Violation(f"right bytes: {call}, which nobody has put")
        dropped = record.drop_acknowledged
        if dropped is None or dropped > call.began or record.drop_began is None:
            return
        # Who has an old view, or a copy at hand that has not heard of the drop, may still read it.
        current = call.view == self.identity and not call.local
        if current and self._undisturbed(record.drop_began):
            raise Violation(f"dropping is final: {call} though dropped at {dropped:.3f}")

    def _read(self, call: Call) -> None:
        assert call.result is not None
        name = call.key.partition(b"\0")[0]
        version = version_in(call.result)
        record = self.records.get(copy_key(name, version))
        if record is None or call.result not in record.began:
            raise Violation(f"right bytes: {call}, which the file never had in it")
        if version < call.refreshed:
            raise Violation(f"refresh: {call}, though version {call.refreshed} was to be seen")

    def changed(self, old: bytes, new: Record) -> None:
        """Take note that a file has changed: copies of the old version may be dropped."""
        record = self.records[old]
        record.drop_began = self._clock()
        self.records[new.key] = new

    def _dropped_by(self, call: Call) -> list[Record]:
        if call.kind == "drop":
            return [self.records[call.key]]
        if call.kind == "drop up to":
            return [self.records[key] for key in up_to(call.key, self.records)]
        return []

    def _told(self, call: Call) -> None:
        """Check that all know of dropped versions who live in the view of the client.

        So as many have to die before it is forgotten as were to hold an object.
        """
        prefix, version = series(call.key)
        for member in call.live & self._running:
            if self._marks.get((member, prefix), 0) <= version:
                raise Violation(
                    f"dropping is final: {call}, of which {self._nodes[member]} knows nothing"
                )

    def _dropped(self, call: Call, record: Record) -> None:
        if record.drop_acknowledged is not None:
            return
        record.drop_acknowledged = self._clock()
        if not record.remembered:
            raise Violation(f"dropping is final: {call}, and nobody remembers it")
        record.forgotten = not record.buried

    def _refused(self, call: Call, record: Record) -> None:
        began, now = call.began, self._clock()
        error = call.error
        if isinstance(error, Dropped) and record.drop_began is None:
            raise Violation(f"right answer: {call}, but nobody dropped it")
        if isinstance(error, KeyExists) and not record.contested and record.drop_began is None:
            raise Violation(f"right answer: {call}, but nobody put other bytes")
        total = sum(record.size * len(record.began) for record in self.records.values())
        if type(error) is BadInput and (call.kind != "put" or self.in_common(call)):
            raise Violation(f"right answer: {call}, but nothing is wrong with it")
        if isinstance(error, Full) and total <= self._scenario.capacity:
            raise Violation(f"right answer: {call}, but all objects fit one store")
        undisturbed = self.calm_since == self.stable_since == 0
        if undisturbed and isinstance(error, TryAgain) and not isinstance(error, NotEnoughNodes):
            raise Violation(f"right answer: {call}, but nothing ever failed")
        if isinstance(error, NotFound) and not isinstance(error, Dropped):
            acknowledged = min(record.acknowledged.values(), default=math.inf)
            promised = acknowledged <= began and record.drop_began is None
            if promised:
                raise Violation(f"finding: {call}, but it was acknowledged at {now:.3f}")

    def in_common(self, call: Call) -> bool:
        """Whether any two lists of owners of a put have one in common, so that it may succeed."""
        space = fitting(self._key_spaces, call.key)
        return space is None or call.copies > space.may_leave_out

    def _undisturbed(self, since: float) -> bool:
        """Whether since then nothing failed and all agents had the same view."""
        return self.calm_since <= since and self.stable_since <= since

    # ---- what the stores hold ------------------------------------------------------------------

    def stored(self, member: int, key: bytes, content: bytes) -> None:
        """Take note that a member has a copy now, and check that it has room for it."""
        record = self.record(key)
        moved = key != record.key
        if content not in record.began:
            if moved:  # it went bad before
                return
            raise Violation(f"right bytes: a store holds {content!r} for {key!r}")
        (record.aside.setdefault(key, {}) if moved else record.holders)[member] = content
        self._lacking.pop((member, key), None)
        held = sum(
            one.size * sum(member in held for held in (one.holders, *one.aside.values()))
            for one in self.records.values()
        )
        if held > self._scenario.capacity:
            raise Violation(
                f"capacity: {self._nodes[member]} holds {held} of {self._scenario.capacity} bytes"
            )

    def removed(self, member: int, key: bytes, why: str) -> None:
        """Take note that a member has no good copy any more, and check that it may."""
        record, now = self.record(key), self._clock()
        if why == "evicted" and not record.has_source:
            raise Violation(f"eviction: {key.decode()} was evicted and can be had nowhere else")
        if key != record.key:
            self._forget(record, record.aside.get(key, {}), member, why)
            return
        if member in record.rotten and why != "rotted":
            record.rotten.remove(member)
            record.failures.append(now)
        if member not in record.holders:
            return
        if record.good() >= record.copies:
            record.whole = now
        self._forget(record, record.holders, member, why)
        if why == "killed":
            record.failures.append(now)
        elif why == "rotted":
            record.rotten.add(member)
            record.rotted = True
        if not record.safe:
            return
        good = record.good()
        since = min(record.whole, now - _CONFIRMED)
        failed = sum(at >= since for at in record.failures) + len(record.rotten)
        if good + failed < record.copies and not record.contested:
            raise Violation(
                f"durable: a copy of {key.decode()} was {why}, leaving {good} of {record.copies} "
                f"though only {failed} holders died since {since:.3f}"
            )
        record.lost = good == 0
        if why == "trimmed" and good < record.copies:
            record.whole = since  # whoever confirmed and died still counts until copies are back

    def record(self, key: bytes) -> Record:
        """Return the story of a key, or of the one that a version under this key has lost."""
        if key.startswith(ASIDE):
            key = key.removeprefix(ASIDE).partition(b"/")[2]
        return self.records[key]

    @staticmethod
    def _forget(record: Record, holders: dict[int, bytes], member: int, why: str) -> None:
        content = holders.pop(member, None)
        # What is moved or trimmed must not be the last, unless a bad copy was taken for another.
        if content is not None and (why not in ("moved", "trimmed") or record.rotten):
            record.gone |= {content} - record.contents()

    def learnt(self, member: int, notice: bytes) -> None:
        """Take note that a member has learnt of a drop."""
        if notice.startswith(b"w"):
            prefix, version = watermark(notice)
            self._marks[member, prefix] = version
        for key in named_by(notice, self.records):
            record = self.record(key)
            if record.drop_began is None:
                raise Violation(f"dropping: {key.decode()} counts as dropped; nobody dropped it")
            record.buried.add(member)
            record.remembered = True

    def started(self, member: int, node: str) -> None:
        """Take note that a member has started; it holds nothing."""
        self._nodes[member] = node
        self._running.add(member)
        self._started[member] = self._clock()

    def viewed(self, member: int, owners: Owners) -> None:
        """Take note that other members own objects, as a member sees it."""
        before = self._owners.get(member)
        self._owners[member] = owners
        for key, record in self.records.items():
            if fitting(self._key_spaces, key) is None:
                continue
            seen = [
                under is not None and member in under.placement.owners(key, record.most_copies)
                for under in (before, owners)
            ]
            if seen == [False, True] and member not in record.holders:
                self._lacking[member, key] = self._clock()
            elif not seen[1]:
                self._lacking.pop((member, key), None)

    def pulls(self, member: int, key: bytes) -> None:
        """Check that a member begins to fetch what it lacks no sooner than its key space says.

        Changes of view that leave it an owner neither shorten nor lengthen the delay.
        """
        space = fitting(self._key_spaces, key)
        if space is None or (member, key) not in self._lacking:
            return
        since = self._clock() - self._lacking[member, key]
        if since < space.restore_after:
            raise Violation(
                f"delay: {key.decode()} is fetched {since:.1f} s after a change of view, "
                f"not {space.restore_after} s"
            )

    def pulled(self, member: int, key: bytes) -> None:
        """Check that a member does not fetch faster than it may."""
        self._pulled[member] += self.record(key).size
        seconds = self._clock() - self._started[member]
        # A second's worth may have been saved up, and the last one is begun with the least rest.
        largest = max(record.size for record in self.records.values())
        if self._pulled[member] > self._scenario.restore_rate * (seconds + 1) + largest:
            raise Violation(f"rate: {self._pulled[member]} bytes fetched in {seconds:.1f} s")

    def killed(self, member: int) -> None:
        """Take note that a member has died, with all that it held."""
        self._running.remove(member)
        for record in self.records.values():
            for key in (record.key, *record.aside):
                self.removed(member, key, "killed")
            if member in record.buried:
                record.buried.remove(member)
                record.forgotten |= record.drop_acknowledged is not None and not record.buried

    # ---- faults and views ----------------------------------------------------------------------

    def faults(self, any_now: bool) -> None:
        """Something failed or was mended."""
        self.calm_since = math.inf if any_now else self._clock()

    def views(self, identities: set[int]) -> None:
        """Take note of the views that the agents have now."""
        if identities != {self.identity}:
            self.stable_since = self._clock() if len(identities) == 1 else math.inf
            self.identity = min(identities) if len(identities) == 1 else 0
