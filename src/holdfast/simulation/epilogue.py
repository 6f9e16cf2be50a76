"""Calls to a cluster that is quiet again: all of them must succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ..errors import BadInput, Dropped, Full, TryAgain, Unavailable
from .clients import Client
from .cluster import Cluster
from .history import Call, Record, Violation

#: A client may still avoid whom it could not reach before; so often it tries again.
_TRIES = 3

Then = Callable[[Call], None]


class Epilogue:
    """Reads every key and every file, and puts, drops and reads new ones."""

    def __init__(
        self, cluster: Cluster, record: Callable[[], Record], files: Iterable[Record]
    ) -> None:
        self._cluster = cluster
        self._clients = [self._in_touch(client) for client in cluster.clients]
        cluster.rng.shuffle(self._clients)
        self.running = 0
        objects = [one for one in cluster.checkers.records.values() if not one.has_source]
        for old in objects:
            client = cluster.rng.choice(self._clients)
            self._try(partial(cluster.get, client, old), partial(self._read, old))
        for file in files:
            client = cluster.rng.choice(self._clients)
            self._try(partial(cluster.read, client, file), lambda _: None)
        expected = cluster.expected()
        for _ in self._clients:
            new = record()
            if new.or_fewer or new.copies <= expected.most(new.key):
                put = partial(cluster.put, self._clients[0], new, new.key)
                self._try(put, partial(self._put, new))

    def _in_touch(self, client: Client) -> Client:
        """Return a client, or a new one in its place if it knows nobody who still runs."""
        cluster = self._cluster
        known = {entry.member.number for entry in client.routing.entries()}
        running = {agent.member.number for agent in cluster.agents.values()}
        if known & running or client.node in cluster.agents:
            return client
        return cluster.connect(f"{client.name}again", cluster.rng.choice(list(cluster.agents)))

    def _try(self, begin: Callable[[Then], None], then: Then, tries: int = _TRIES) -> None:
        """Call, and again after a while if that might help."""
        wire = self._cluster.wire
        self.running += 1

        def ended(call: Call) -> None:
            self.running -= 1
            if isinstance(call.error, TryAgain) and tries > 1:
                self.running += 1
                wire.at(wire.now + self._clients[0].settings.avoid, None, again, None)
            else:
                then(call)

        def again(_: object) -> None:
            self.running -= 1
            self._try(begin, then, tries - 1)

        begin(ended)

    def _read(self, record: Record, call: Call) -> None:
        if record.drop_acknowledged is not None and not record.forgotten:
            self._expect(isinstance(call.error, Dropped), "dropping is final", call)
        elif record.safe:
            self._expect(call.result is not None, "durable", call)
        elif record.lost and not record.rotted and record.drop_began is None:
            found = call.result is not None or isinstance(call.error, Unavailable)
            self._expect(found, "finding", call)

    def _put(self, record: Record, call: Call) -> None:
        if not self._cluster.checkers.in_common(call):
            self._expect(type(call.error) is BadInput, "fencing", call)
            return
        self._expect(call.error is None or isinstance(call.error, Full), "healing", call)
        if call.error is None:
            drop = partial(self._cluster.drop, self._clients[-1], record)
            self._try(drop, partial(self._drop, record))

    def _drop(self, record: Record, call: Call) -> None:
        self._expect(call.error is None or isinstance(call.error, Dropped), "healing", call)
        get = partial(self._cluster.get, self._clients[0], record)
        self._try(get, partial(self._read, record))

    def _expect(self, good: bool, promise: str, call: Call) -> None:
        if not good:
            raise Violation(f"{promise}: {call}, in a quiet cluster")
