"""A client that knows what it was promised, and says so when a promise is broken.

It puts, gets and drops without end. At a line on standard input it pauses, reads all that it must
be able to read, counts copies, and answers with a line of JSON. A broken promise is a line
`broken: ...`, and the end.

What it may expect of a key:

    acknowledged    the very bytes, or an error that says to try again; never "not found"
    unsure          a put or a drop of it failed: the very bytes, or any answer that it is not there
    dropped         never any bytes
"""

from __future__ import annotations

import random
import select
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from holdfast import config, errors
from holdfast.job import Job

SIZES = (10, 1000, 70_000, 1_500_000)
#: So many objects are kept at most, and so many dropped ones are remembered.
KEPT, REMEMBERED = 80, 100
CHECK_WITHIN = 60.0


class Checked(msgspec.Struct):
    """The answer to `check`."""

    whole: int
    requests: int
    failed: int


class Client:
    def __init__(self, directory: Path, seed: int) -> None:
        self._job = Job(directory, config.load().config)
        self._rng = random.Random(seed)
        self._seed = seed
        self._next = 0
        self.acknowledged: dict[str, int] = {}  # copies
        self.unsure: dict[str, int] = {}
        self.dropped: dict[str, None] = {}
        self.count: Counter[str] = Counter()

    def step(self) -> None:
        """Make one request."""
        self.count["requests"] += 1
        choice = self._rng.random()
        if choice < 0.4 or not self.acknowledged:
            self._next += 1
            self._put(f"{self._seed}/{self._next}", self._rng.choice([2, 2, 3]))
        elif choice < 0.75:
            key = self._rng.choice(list(self.acknowledged))
            if self._get(key) is errors.NotFound:
                broken(f"{key} was acknowledged and is not found")
        elif choice < 0.85 and self.dropped:
            key = self._rng.choice(list(self.dropped))
            if self._get(key) is None:
                broken(f"{key} was dropped and is back")
        elif choice < 0.9 and self.unsure:
            key = self._rng.choice(list(self.unsure))
            if self.unsure[key]:
                self._put(key, self.unsure[key])
            else:
                self._drop(key)
        elif len(self.acknowledged) > KEPT / 4:
            self._drop(next(iter(self.acknowledged)))
        while len(self.acknowledged) > KEPT:
            self._drop(next(iter(self.acknowledged)))

    def check(self) -> Checked:
        """Read all that is promised; there must be as many copies as were asked for."""
        end = time.monotonic() + CHECK_WITHIN
        for key, copies in list(self.acknowledged.items()):
            while (missing := self._get(key)) is not None or self._copies(key) < copies:
                if time.monotonic() > end:
                    names = [member.node for member in self._job._connection.routing.live]
                    broken(
                        f"{key} has {self._copies(key)} of {copies} copies among {names}; "
                        f"{missing.__name__ if missing else 'it can be read'}"
                    )
                time.sleep(0.05)
                self._job._connection.refresh()  # somebody may be back
        for key in self.dropped:
            if self._get(key) is None:
                broken(f"{key} was dropped and is back")
        return Checked(len(self.acknowledged), self.count["requests"], self.count["failed"])

    def _bytes(self, key: str) -> bytes:
        rng = random.Random(key)
        return rng.randbytes(rng.choice(SIZES))

    def _put(self, key: str, copies: int) -> None:
        tier = "disk" if int(key.rpartition("/")[2]) % 5 == 0 else "memory"
        try:
            self._job.objects.put(key, self._bytes(key), copies=copies, tier=tier)
        except errors.TryAgain:
            self.count["failed"] += 1
            self.unsure[key] = copies
        else:
            self.unsure.pop(key, None)
            self.acknowledged[key] = copies

    def _drop(self, key: str) -> None:
        self.acknowledged.pop(key, None)
        try:
            self._job.objects.drop(key)
        except errors.TryAgain:
            self.count["failed"] += 1
            self.unsure[key] = 0  # it may be dropped: it is never put again
            return
        except errors.NotFound:
            if self.unsure.get(key) is None:
                broken(f"{key} was acknowledged, and is not found when it is to be dropped")
        self.unsure.pop(key, None)
        self.dropped[key] = None
        while len(self.dropped) > REMEMBERED:
            del self.dropped[next(iter(self.dropped))]

    def _get(self, key: str) -> type[errors.HoldfastError] | None:
        """Return why there are no bytes; None if there are the right ones."""
        try:
            data = self._job.objects.get(key)
        except errors.NotFound:
            return errors.NotFound
        except errors.TryAgain as error:
            self.count["failed"] += 1
            return type(error)
        if data != self._bytes(key):
            broken(f"{key} has {len(data)} bytes that were never put")
        return None

    def _copies(self, key: str) -> int:
        client, found = self._job._connection.client, 0
        for member in self._job._connection.routing.live:
            try:
                client.stat(member.address, key.encode(), deadline=1.0)
            except (errors.NotFound, errors.TryAgain):
                continue
            found += 1
        return found


def broken(what: str) -> None:
    print(f"broken: {what}", flush=True)
    sys.exit(1)


def main(directory: str, seed: int) -> None:
    client = Client(Path(directory), seed)
    while True:
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            print(msgspec.json.encode(client.check()).decode(), flush=True)
        try:
            client.step()
        except errors.HoldfastError as error:
            broken(f"an error that no program can do anything about: {error!r}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
