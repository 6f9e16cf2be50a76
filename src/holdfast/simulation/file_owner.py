"""The owner's side of cached files in a simulated agent: native/files without the bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from .._core import crc32c, tombstone
from ..errors import HoldfastError, StaleView
from ..restoration.holdings import ObjectSummary
from .messages import FoundReply, ReadMessage
from .network import PIECE, Network, NetworkCall, SimulatedProcess
from .store import Store


def copy_key(name: bytes, version: int) -> bytes:
    """Return the key of the copies of a version; all versions of a file have the same owners."""
    return name + b"\0%d" % version


def content_of(name: bytes, version: int) -> bytes:
    """Return what a version has in it."""
    return name + b"/%d" % version


def version_in(content: bytes) -> int:
    """Return of which version this is the content."""
    return int(content.rpartition(b"/")[2])


class Originals:
    """The shared file system, whose files change; whoever looks sees the newest version."""

    def __init__(self) -> None:
        self._versions: dict[bytes, int] = {}

    def version(self, name: bytes) -> int:
        """Look at a file."""
        return self._versions.get(name, 0)

    def change(self, name: bytes) -> int:
        """Write a file anew; returns its version."""
        self._versions[name] = self.version(name) + 1
        return self._versions[name]


class SimulatedCatalog:
    """Which versions an agent saw last: what native/files/catalog.hpp and trust.hpp do.

    They are believed until a refresh of the file, and none of them when the agent was away.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._until = 0.0
        self.epoch = 0  # grows with each refresh

    def trust(self, now: float, until: float) -> None:
        """Believe what is known for some time: this node hears what others say."""
        self._distrust_if_away(now)
        self._until = until

    def distrust(self) -> None:
        """Look at everything again: this node was away."""
        self._known.clear()
        self.epoch += 1

    def refresh(self, name: bytes) -> None:
        """Look at a file again."""
        self._known.pop(name, None)
        self.epoch += 1

    def find(self, name: bytes, now: float) -> int | None:
        """Return the version of a file, if that is known and believed."""
        self._distrust_if_away(now)
        return self._known.get(name)

    def learn(self, name: bytes, version: int, epoch: int) -> None:
        """Take note of what was seen in an epoch; a refresh that came meanwhile counts more."""
        if epoch == self.epoch:
            self._known[name] = version

    def _distrust_if_away(self, now: float) -> None:
        if now > self._until:
            self.distrust()


class FileOwner:
    """Serves files: from a copy, or from the shared file system, and then keeps one."""

    def __init__(
        self,
        network: Network,
        process: SimulatedProcess,
        store: Store,
        originals: Originals,
        refuse: Callable[[NetworkCall, HoldfastError], None],
    ) -> None:
        self.catalog = SimulatedCatalog()
        self._network = network
        self._process = process
        self._store = store
        self._originals = originals
        self._refuse = refuse

    def read(self, call: NetworkCall) -> None:
        """Serve our copy of the version that we know, or what the shared file system has."""
        message: ReadMessage = call.message
        known = self.catalog.find(message.name, self._network.now)
        stored = None if known is None else self._store.objects.get(copy_key(message.name, known))
        if stored is None:
            self._fetch(call, message)
        else:
            call.answer(FoundReply(stored.held, stored.content, has_source=True))

    def _fetch(self, call: NetworkCall, message: ReadMessage) -> None:
        name, epoch, store = message.name, self.catalog.epoch, self._store
        version = self._originals.version(name)
        key, content = copy_key(name, version), content_of(name, version)
        others = [one for one in store.objects if one.startswith(name + b"\0") and one != key]
        store.learn(list(map(tombstone, others)))
        stored = store.objects.get(key)
        if stored is not None:
            self.catalog.learn(name, version, epoch)
            call.answer(FoundReply(stored.held, stored.content, has_source=True))
            return
        if not message.stands_in and store.owners(key, 1) != [store.me]:
            self._refuse(call, StaleView("another member owns the file"))
            return
        size, copies = message.size, message.copies
        found = FoundReply(
            ObjectSummary(key=key, size=size, crc32c=crc32c(content), tier=0, copies=copies),
            content,
            has_source=True,
        )
        try:
            writer = store.create(key, content, size, 0, copies, has_source=True)
        except HoldfastError:  # it is served all the same
            call.answer(found)
            return

        def filled(_: object) -> None:
            with contextlib.suppress(HoldfastError):
                writer.commit(content)
                self.catalog.learn(name, version, epoch)
            call.answer(found)

        end = self._network.now + self._network.travel() * size / PIECE
        self._network.at(end, self._process, filled, None)
