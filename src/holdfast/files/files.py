"""`job.files(root)`: read files of a shared file system from copies on the nodes of the job."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, overload

from .. import _core
from ..client.connection import Connection
from ..config import Config
from ..errors import BadInput
from . import paths, warm
from .parts import Part, PartFile
from .paths import Path
from .policy import FilePolicy
from .reader import FileReader, FileStats
from .refresh import Refreshed, refresh

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: An owner that reads a file ahead answers when it has it all, in seconds.
_WARM_WITHIN = 300.0
_MODES = ("rb", "br", "r", "rt", "tr")


class Files:
    """The files below one root. All methods may be used from several threads at once.

    A file belongs to a node by the hash ring. That node reads it from the shared file system once
    and keeps it; the others read it from there. Whatever no agent can give is read from the
    shared file system itself, so a program sees what it would see without Holdfast.
    """

    def __init__(
        self, connection: Connection, config: Config, root: Path, policy: FilePolicy
    ) -> None:
        self._root = paths.root_of(root)
        self._connection = connection
        self._config = config
        self._policy = policy
        self._reader = FileReader(connection, config, policy.on_failure)

    @property
    def root(self) -> str:
        """The directory of the shared file system."""
        return os.fsdecode(self._root)

    @overload
    def read(self, path: Path) -> bytes: ...
    @overload
    def read(self, path: Path, out: Buffer) -> int: ...
    def read(self, path: Path, out: Buffer | None = None) -> bytes | int:
        """Return the bytes of a file; or put them into `out`, and return how many there are.

        `path` is relative to the root, or an absolute path below it.
        """
        wanted = paths.below(self._root, path)
        name, client = paths.spelling(wanted), self._connection.client
        if name is None:
            self._reader.count(shared=1)
            return _read(wanted) if out is None else _read_into(wanted, out)
        order = self._order(name)
        if out is None:
            content = self._reader.owner(
                name,
                lambda at, wait, stands_in: client.read(
                    at, order, stands_in=stands_in, deadline=wait
                ),
                lambda: _read(wanted),
            )
            self._reader.count(bytes=len(content))
            return content
        room = out
        size = self._reader.owner(
            name,
            lambda at, wait, stands_in: client.read_into(
                at, order, room, stands_in=stands_in, deadline=wait
            ),
            lambda: _read_into(wanted, room),
        )
        self._reader.count(bytes=size)
        return size

    def open(self, path: Path, mode: str = "rb", **text: Any) -> IO[bytes] | IO[str]:
        """Open a file for reading: a real one, with a descriptor.

        Of a file of more than 32 MiB that lies on another node, parts come as they are read; the
        whole file does when its descriptor is asked for.

        `mode` is "rb" or "r"; `text` is what the builtin `open` takes for text: `encoding`,
        `errors`, `newline`.
        """
        if mode not in _MODES:
            raise BadInput(f"mode {mode!r}: files below a root can only be read; use 'r' or 'rb'")
        wanted = paths.below(self._root, path)
        name, client = paths.spelling(wanted), self._connection.client

        def fetch(number: int | None) -> Part:
            if name is None:
                self._reader.count(shared=1)
                return Part.source(wanted)
            order = self._order(name)
            return self._reader.own_agent(
                name,
                lambda at, wait, _: Part.passed(
                    client.open_file(at, order, part=number, deadline=wait)
                ),
                lambda: Part.source(wanted),
            )

        first = fetch(0)
        title = os.fsdecode(wanted)
        raw: io.RawIOBase
        if first.is_whole:
            # An opener, so that its name is the path and not the descriptor.
            raw = io.FileIO(title, "rb", opener=lambda *_: first.descriptor)
        else:
            raw = PartFile(title, first, fetch, lambda: fetch(None))
        binary = io.BufferedReader(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, **text)

    def stat(self, path: Path) -> os.stat_result:
        """Return what the shared file system says of a file, as its owner last saw it."""
        wanted = paths.below(self._root, path)
        name, client = paths.spelling(wanted), self._connection.client
        if name is None or name == self._root:
            return os.stat(wanted)
        order = self._order(name)
        return self._reader.owner(
            name,
            lambda at, wait, stands_in: _stat_result(
                client.attributes(at, order, stands_in=stands_in, deadline=wait)
            ),
            lambda: os.stat(wanted),
        )

    def listdir(self, path: Path = "") -> list[str]:
        """Return the names in a directory below the root, as the shared file system has them."""
        return os.listdir(os.fsdecode(paths.below(self._root, path)))

    def walk(self, path: Path = "") -> Iterator[str]:
        """Yield all files below a directory, relative to the root, in the order of their names."""
        root = os.fsdecode(self._root)
        for where, directories, names in os.walk(os.fsdecode(paths.below(self._root, path))):
            directories.sort()
            for name in sorted(names):
                yield os.path.relpath(os.path.join(where, name), root)

    def warm(
        self,
        path: Path = "",
        parallel: int = 16,
        progress: Callable[[warm.Warmed], None] | None = None,
    ) -> warm.Warmed:
        """Let the owners of all files below `path` read them now, many at a time.

        What is there already is not read again, so a warming that was interrupted goes on where it
        was. `progress` is called with the counts so far, now and then.
        """
        client = self._connection.client

        def one(name: str) -> int:
            wanted = paths.below(self._root, name)
            spelled = paths.spelling(wanted)
            assert spelled is not None
            order = self._order(spelled)
            return self._reader.owner(
                spelled,
                lambda at, wait, stands_in: client.warm(
                    at, order, stands_in=stands_in, deadline=wait
                ),
                lambda: -1,
                _WARM_WITHIN,
            )

        return warm.warm(list(self.walk(path)), one, parallel, progress)

    def refresh(self, *names: Path) -> Refreshed:
        """Make all nodes check files and directories again, with all below them.

        Without names: the whole root. What has changed on the shared file system is seen from then
        on; what has not stays cached.
        """
        prefixes = [paths.below(self._root, name) for name in names] or [self._root]
        return refresh(self._connection, prefixes)

    def stats(self) -> FileStats:
        """Return what this program has read so far, and from where."""
        return self._reader.stats()

    def _order(self, name: bytes) -> _core.FileOrder:
        return self._policy.order(self._config, self._root, name)

    def __repr__(self) -> str:
        return f"<Files below {self.root}>"


def _stat_result(of: _core.Attributes) -> os.stat_result:
    times = (of.atime_ns, of.mtime_ns, of.ctime_ns)
    exact: dict[str, float] = {"st_blocks": of.blocks}
    for name, time in zip(("st_atime", "st_mtime", "st_ctime"), times, strict=True):
        seconds, rest = divmod(time, 1_000_000_000)
        exact |= {name: seconds + 1e-9 * rest, f"{name}_ns": time}  # rounded as by os.stat
    whole = [time // 1_000_000_000 for time in times]
    return os.stat_result(
        (of.mode, of.inode, of.device, of.nlink, of.uid, of.gid, of.size, *whole), exact
    )


def _read(path: bytes) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _read_into(path: bytes, out: Buffer) -> int:
    room = memoryview(out).cast("B")
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > len(room):
            raise BadInput(
                f"{os.fsdecode(path)} has {size} bytes, but `out` has room for only {len(room)}"
            )
        at = 0
        while got := file.readinto(room[at:]):
            at += got
        return at
