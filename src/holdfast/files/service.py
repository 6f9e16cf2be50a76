"""What an agent does for files when told to: it looks again, fetches whole directories, mounts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from ..agent.metrics import Family
from ..agent.parked import Parked
from ..agent.shell import Shell
from ..client.messages import FileStatus
from ..config import TIERS, Config
from ..errors import BadInput
from ..membership.swim import LONGEST_SLEEP
from .broadcast import Broadcast, Progress
from .refresh import MOUNTS_WITHIN, PassOn, Refresh

#: Counters of the core that may also fall: gauges in the words of OpenMetrics.
_GAUGES = {"tree_depth"}


class FilesReport(FileStatus, frozen=True, kw_only=True):
    """The service's status; its counters are among those of the node."""

    counters: dict[str, int]


class MountOrder(msgspec.Struct, frozen=True):
    """A mount wanted on the agent's host."""

    point: str
    roots: list[str]
    config: Config  # of the command that wants it


class FilesService:
    """Answers `refresh`, `pass_on`, `broadcast`, `broadcasting` and `mount`.

    `refreshed` is said by the core when it has learnt of a refresh from other members, `progressed`
    when a broadcast has come further than it told last.
    """

    name = "files"

    def __init__(self, shell: Shell) -> None:
        self._core = shell.core
        self._workers = shell.workers
        self._deadline = 0.0
        self._period = 0.0
        self.due = 0.0
        self._node = shell.member.node
        self._directory = os.path.dirname(shell.member.socket.removeprefix("unix:"))
        self._lock = threading.Lock()
        self._untold: set[bytes] = set()  # paths at which mounts are still to look again
        self._telling = False  # a thread is at it
        self._watching: dict[Parked, Progress] = {}  # a broadcast, and what each knows of it

    def configure(self, config: Config) -> None:
        """Tell the core how to fetch files, and begin to tick."""
        self._period, self._deadline = config.probe_period, config.deadline
        self._core.set_files(
            config.file_strikes, config.avoid, config.file_deadline, config.deadline
        )
        self._core.set_tree(
            degree=config.tree_degree,
            largest=config.tree_largest,
            tier=TIERS[config.tree_tier],
            ttl=config.tree_ttl,
            strikes=config.file_strikes,
            avoid=config.avoid,
            file_deadline=config.file_deadline,
            deadline=config.deadline,
        )
        self.tick(time.monotonic())

    def tick(self, now: float) -> None:
        """Let copies be used until the next tick is long due.

        Nobody could tell us of changes then: we were stopped, or the host slept, during which
        `time.monotonic` stands still. The core has a clock that goes on.
        """
        self.due = now + self._period
        self._core.trust_files((LONGEST_SLEEP + 1) * self._period)
        self._see_that_mounts_are_told()  # should that have failed before

    def was_away(self) -> None:
        """Files may have changed while we were taken for dead and told nothing."""
        self._core.distrust_files()

    def status(self) -> FilesReport:
        """Tell what this agent has to do with files."""
        usage, counters = self._core.file_usage(), self._core.file_counters()
        return FilesReport(
            files=usage.files,
            bytes=usage.bytes,
            local=usage.local,
            remote=usage.remote,
            from_storage=counters.fills,
            failures=counters.failures,
            spilled=counters.spilled,
            no_room=counters.no_room,
            counters=self._counters(),
        )

    def metrics(self) -> Iterator[Family]:
        """Tell the counters."""
        for name, value in self._counters().items():
            yield Family(name, "gauge" if name in _GAUGES else "counter", value)

    def _counters(self) -> dict[str, int]:
        counted = {"file_": self._core.file_counters(), "tree_": self._core.tree_counters()}
        return {
            prefix + name: getattr(numbers, name)
            for prefix, numbers in counted.items()
            for name, one in vars(type(numbers)).items()
            if isinstance(one, property)
        }

    def handle(self, method: str, message: bytes) -> bytes | Parked:
        """Answer one call."""
        if method == "refresh":
            return self._refresh(msgspec.msgpack.decode(message, type=Refresh))
        if method == "pass_on":
            to = msgspec.msgpack.decode(message, type=PassOn)
            return self._workers.answer("files.pass_on", lambda: self._pass_on(to))
        if method == "refreshed":
            return self._tell_mounts(message)
        if method in {"broadcast", "broadcasting", "progressed"}:
            return self._broadcast(method, message)
        if method == "mount":
            order = msgspec.msgpack.decode(message, type=MountOrder)
            return self._workers.answer(
                "files.mount", lambda: self._mount(order), only_for_caller=True
            )
        raise BadInput(f"files has no method {method!r}")

    def _broadcast(self, method: str, message: bytes) -> bytes | Parked:
        """Begin one; or tell how far it is, as soon as it is further than the caller knows."""
        if method == "broadcast":
            wanted = msgspec.msgpack.decode(message, type=Broadcast)
            self._core.broadcast(wanted.root, wanted.root, wanted.settled_ns)
            return b""
        if method == "broadcasting":
            known = msgspec.msgpack.decode(message, type=Progress)
            now = Progress.of(self._core.broadcast_progress())
            if now != known or now.ended:
                return msgspec.msgpack.encode(now)
            parked = Parked(on_cancel=lambda: self._watching.pop(parked, None))
            self._watching[parked] = known
            return parked
        if self._watching:
            now = Progress.of(self._core.broadcast_progress())
            for one in [one for one, known in self._watching.items() if known != now]:
                del self._watching[one]
                one.answer(msgspec.msgpack.encode(now))
        return b""

    def _refresh(self, told: Refresh) -> Parked:
        """Look again; the answer names the mounts that did not."""
        self._core.refresh_files(told.paths, told.number)

        def mounts() -> bytes:
            if not self._has_mounts():
                return msgspec.msgpack.encode([])
            from .mount import control  # noqa: PLC0415 - takes long to import, and most have none

            return msgspec.msgpack.encode(
                control.refresh(self._directory, self._node, told.paths, MOUNTS_WITHIN)
            )

        return self._workers.answer("files.refresh", mounts)

    def _pass_on(self, to: PassOn) -> bytes:
        return self._core.wait(
            to.address, self.name, "refresh", to.refresh, within=to.within, deadline=self._deadline
        ).result()

    def _tell_mounts(self, path: bytes) -> bytes:
        """Let the mounts look again at what was refreshed when nobody could tell us."""
        if not self._has_mounts():
            return b""
        with self._lock:
            self._untold.add(path)
        self._see_that_mounts_are_told()
        return b""

    def _see_that_mounts_are_told(self) -> None:
        with self._lock:
            if self._telling or not self._untold:
                return
            self._telling = True
        try:
            self._workers.run("telling the mounts of a refresh", self._tell_until_all_know)
        except BaseException:
            self._telling = False  # the next tick tries again
            raise

    def _tell_until_all_know(self) -> None:
        try:
            while not self._tell():
                time.sleep(MOUNTS_WITHIN)
        finally:
            self._telling = False
        self._see_that_mounts_are_told()  # of what came meanwhile

    def _tell(self) -> bool:
        from .mount import control  # noqa: PLC0415

        with self._lock:
            paths, self._untold = self._untold, set()
        told = False
        try:
            # The kernel's own root is none of theirs.
            mounts = control.of_session(self._directory, self._node).values()
            roots = {os.fsencode(root.path) for one in mounts for root in one.roots}
            names = sorted(roots if b"/" in paths else paths)
            told = not control.refresh(self._directory, self._node, names, MOUNTS_WITHIN)
        finally:
            if not told:
                with self._lock:
                    self._untold |= paths
        return told

    def _has_mounts(self) -> bool:
        return any(".mount-" in name for name in os.listdir(self._directory))

    def _mount(self, order: MountOrder) -> bytes:
        from .mount import control  # noqa: PLC0415

        parent, session = os.path.split(self._directory)
        config = replace(order.config, session=session, run_dir=parent, node=self._node)
        control.ensure(config, order.point, order.roots)
        return b""
