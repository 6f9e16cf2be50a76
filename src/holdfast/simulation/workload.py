"""What the clients of a simulated cluster do while it is in trouble."""

from __future__ import annotations

from .clients import HEADER, Client
from .cluster import Cluster
from .history import Call, Record

#: Calls of a client are up to this far apart, in seconds.
_PAUSE = 2.0
#: So often they are about a file, where there are any.
_FILES = 0.4
#: Of these, so often it changes and is refreshed, and so often it is refreshed only.
_CHANGES, _REFRESHES = 0.2, 0.05
#: So often they are about one of the first two files.
_HOT_FILES = 0.6
#: Objects are versions of this many things.
_SERIES = 5
#: No put wants more copies.
_MOST_COPIES = 4
#: Of this many keys fewer copies will do for one ...
_OR_FEWER = 7
#: ... and of this many one has versions that differ in their headers.
_HEADERS = 3
#: As many copies as there are nodes, in any scenario.
_EVERYWHERE = 16
#: So often one copy remains one where all owners of it may be left out, and the put is refused.
_TOO_FEW = 0.5
#: So often they are about one of the last two keys, so that clients get in each other's way.
_HOT = 0.4


class Workload:
    """Lets every thread of every client call, one call after the other, until it is to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.rng
        self._records = cluster.checkers.records
        self._stopped = False
        self._number = 0
        self._objects: list[Record] = []
        self._files: list[Record] = []
        for number in range(cluster.scenario.files):
            copies, size = self._rng.choice((1, 2, 2, 3)), self._rng.randint(1, 40)
            file = cluster.file(b"f%d" % number, copies, size)
            self._records[file.key] = file
            self._files.append(file)
        self.running = 0
        for client in cluster.clients * cluster.scenario.threads:
            self._next(client)

    @property
    def files(self) -> list[Record]:
        """All files, as they are now."""
        return self._files

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True

    def record(self) -> Record:
        """Return a key that was never used."""
        self._number += 1
        copies = self._rng.choice((1, 2, 2, 2, 3, 3))
        or_fewer = self._number % _OR_FEWER == 0
        if or_fewer:
            copies = _EVERYWHERE if copies < 3 else 5
        key = b"s%d/%d" % (self._number % _SERIES, self._number)
        if spaces := self._cluster.key_spaces:
            space = self._rng.choice((None, *spaces))
            if space is not None:
                key = space.prefix + key
                if copies <= space.may_leave_out and self._rng.random() >= _TOO_FEW:
                    copies = space.may_leave_out + 1
        size = self._rng.randint(1, 40)
        record = Record(key=key, copies=copies, size=size, or_fewer=or_fewer)
        self._records[key] = record
        self._objects.append(record)
        return record

    def _next(self, client: Client) -> None:
        wire = self._cluster.wire
        wire.at(wire.now + self._rng.random() * _PAUSE, client.process, self._call, client)

    def _call(self, client: Client) -> None:
        if self._stopped:
            return
        self.running += 1
        cluster, rng = self._cluster, self._rng
        if self._files and rng.random() < _FILES:
            self._call_file(client)
            return
        choice = rng.random()
        if choice < 0.4 or not self._objects:
            record = self.record()
            cluster.put(client, record, _version(record, 0), self._ended)
            return
        hot = rng.random() < _HOT
        record = rng.choice(self._objects[-2:] if hot else self._objects)
        if choice < 0.75:
            cluster.get(client, record, self._ended)
        elif choice < 0.86:
            cluster.drop(client, record, self._dropped)
        elif choice < 0.88:
            older = self._objects[: len(self._objects) // 2 + 1]
            cluster.drop_up_to(client, rng.choice(older), self._dropped)
        elif choice < 0.95:
            copies = rng.randint(min(record.first_copies, _MOST_COPIES), _MOST_COPIES)
            cluster.put(client, record, _version(record, 0), self._ended, copies)
        else:
            cluster.put(client, record, _version(record, 1), self._ended)

    def _call_file(self, client: Client) -> None:
        cluster, rng = self._cluster, self._rng
        hot = rng.random() < _HOT_FILES
        number, choice = rng.randrange(2 if hot else len(self._files)), rng.random()
        if choice < _CHANGES:
            self._files[number] = cluster.change(self._files[number])
        file = self._files[number]
        if choice < _CHANGES + _REFRESHES:
            cluster.refresh(client, file, self._ended)
        else:
            cluster.read(client, file, self._ended)

    def _ended(self, call: Call) -> None:
        self.running -= 1
        client = next(c for c in self._cluster.clients if c.name == call.client)
        self._next(client)

    def _dropped(self, call: Call) -> None:
        """Somebody who has just come looks at once whether it is gone."""
        self._ended(call)
        cluster = self._cluster
        running = [node for node in cluster.agents if node not in cluster.paused]
        if call.error is None and running:
            self._number += 1
            reader = cluster.connect(f"reader{self._number}", self._rng.choice(running))
            self.running += 1
            cluster.get(reader, self._records[call.key], self._looked)

    def _looked(self, _: Call) -> None:
        self.running -= 1


def _version(record: Record, number: int) -> bytes:
    """Return one of the versions that are put under a key."""
    in_header = int(record.key.rpartition(b"/")[2]) % _HEADERS == 0
    return record.key + (HEADER if in_header else b"/") + b"%d" % number
