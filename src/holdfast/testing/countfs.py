"""A stand-in for the shared file system: it counts, is slow, and misbehaves when it is told to.

A directory is shown at another path by a FUSE file system of ours (native/countfs), once for the
processes of this host and once for each node. A node's processes run in mount namespaces in which
its own mount lies at that same path, so that each file has one path everywhere and the storage
still knows which node asked.

What counts as an open is an open of a regular file, whatever comes of it. The kernel keeps neither
names nor attributes, and drops what it holds of a file at each open. What one descriptor reads
twice may come from its cache, and is then not seen. Locks hold within one mount.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..errors import BadInput, DeadlineMissed, HoldfastError, Refused
from ..session import mounts
from ..units import parse_rate, parse_time

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRAM = Path(__file__).with_name("bin") / "countfs"
#: Processes that run on no node.
HOST = -1
_OPERATIONS = ("open", "read", "write", "stat")
_HANG = 0  # as native/countfs/troubles.hpp has it
_WITHIN = 10.0
#: Runs a command where a node's mount lies over the common path; the pid stays.
_BIND = 'mount --bind "$0" "$1" && shift && exec "$@"'


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked about one path, or all."""

    opens: int = 0
    reads: int = 0
    bytes: int = 0
    lookups: int = 0
    getattrs: int = 0
    listings: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            **{what: getattr(self, what) + getattr(other, what) for what in self.__struct_fields__}
        )


class Opens(dict[str, int]):
    """How often each file was opened; of a type of its own, so that a test is known to count."""


def why_not() -> str:
    """Tell why there can be no such storage here; empty if there can."""
    if not PROGRAM.exists():
        return "Holdfast was built without libfuse3; install libfuse3-dev and build it again"
    if not os.path.exists("/dev/fuse"):
        return "/dev/fuse is missing; load the kernel's module fuse"
    if os.geteuid() != 0:
        return "mounting for other processes needs root"
    for tool in ("unshare", "mount"):
        if shutil.which(tool) is None:
            return f"the command {tool!r} is missing; install util-linux and mount"
    return ""


class CountingFS:
    """The directory `backing`, shown at `at`; gone at the end of a `with` block.

    An open takes `open_delay` however many there are at once. Each open, read, lookup, question for
    attributes and listing takes `operation_delay`, one after another, whoever asks.
    """

    def __init__(
        self,
        backing: str | os.PathLike[str],
        at: str | os.PathLike[str],
        nodes: int = 0,
        open_delay: str | float = 0,
        bandwidth: str | float = 0,
        operation_delay: str | float = 0,
    ) -> None:
        delays = parse_time(open_delay), parse_time(operation_delay)
        rate = parse_rate(bandwidth)
        if reason := why_not():
            raise Refused(f"cannot mount a counting file system here: {reason}")
        self.backing, self.at, self.nodes = Path(backing).resolve(), Path(at).absolute(), nodes
        if not self.backing.is_dir():
            raise BadInput(f"{self.backing} is not a directory; name the directory to show")
        mounts.remove_stale()
        self._lock = threading.Lock()
        private = Path(tempfile.gettempdir(), mounts.PREFIX + secrets.token_hex(8))
        self._points = [self.at, *(Path(f"{private}-{node}") for node in range(nodes))]
        for point in self._points:
            self._check(point)
        # The process makes those that are missing, and removes them even if we cannot.
        self._made = [point for point in self._points if not point.exists()]
        try:
            self._start(delays, rate)
        except BaseException:
            self.close()
            raise

    def _check(self, point: Path) -> None:
        # It would wait for itself as soon as somebody looks there, and nothing would end that.
        if self.backing in point.resolve().parents:
            raise BadInput(
                f"{point} is below {self.backing}, the directory to show there; choose "
                "another mount point"
            )
        if os.path.ismount(point):
            raise BadInput(f"something is already mounted at {point}; choose another path")

    _process: subprocess.Popen[bytes] | None = None
    _socket: socket.socket | None = None

    def _start(self, delays: tuple[float, float], rate: float) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_WITHIN)
        with theirs:
            self._process = subprocess.Popen(
                list(map(str, (PROGRAM, self.backing, *delays, rate, *self._points))),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us: we end it, once nobody needs it
            )
        with self._limited():
            complaint = self._hear()
        if complaint:
            raise HoldfastError(
                f"could not mount the counting file system at {self.at}: {complaint.decode()}"
            )

    @property
    def pid(self) -> int:
        """The process that serves all its mounts."""
        assert self._process is not None
        return self._process.pid

    def under(self, node: int) -> tuple[str, ...]:
        """Return the command that runs another one as a process of a node."""
        if not isinstance(node, int) or not 0 <= node < self.nodes:
            raise BadInput(f"there is no node {node!r}; this file system has {self.nodes}")
        point = str(self._points[1 + node])
        return ("unshare", "--mount", "--propagation=slave", "sh", "-c", _BIND, point, str(self.at))

    def counts(self, node: int | None = None) -> dict[str, Counts]:
        """Return what was asked about each path below `at`: by a node, by `HOST`, or by all."""
        fields = self._ask("counts").split(b"\0")
        found: dict[str, Counts] = {}
        step = 2 + len(Counts.__struct_fields__)
        for at in range(0, len(fields) - 1, step):
            mount, path, *numbers = fields[at : at + step]
            if node is None or int(mount) == 1 + node:
                name = os.fsdecode(path)
                each = zip(Counts.__struct_fields__, map(int, numbers), strict=True)
                counts = Counts(**dict(each))
                found[name] = found[name] + counts if name in found else counts
        return found

    def opens(self, node: int | None = None) -> Opens:
        """Return how often each file was opened, if it was."""
        return Opens((path, one.opens) for path, one in self.counts(node).items() if one.opens)

    def total(self, node: int | None = None) -> Counts:
        """Return what was asked about all paths together."""
        return sum(self.counts(node).values(), start=Counts())

    def reset(self) -> None:
        """Count from nothing again."""
        self._ask("reset")

    def fail(self, path: str, operation: str, error: int) -> None:
        """Let "open", "read", "write" or "stat" of a path, and all below it, fail until `heal`."""
        if not 0 < error < 4096:
            raise BadInput(f"{error!r} is not an error number; use one such as errno.EIO")
        self._trouble(path, operation, error)

    def hang(self, path: str, operation: str) -> None:
        """Let "open", "read", "write" or "stat" of a path, and all below it, wait until `heal`.

        A "stat" that waits may hold up who looks for other new names in the same directory: the
        kernel asks for one at a time.
        """
        self._trouble(path, operation, _HANG)

    def _trouble(self, path: str, operation: str, error: int) -> None:
        if operation not in _OPERATIONS:
            raise BadInput(f"there is no operation {operation!r}; use {', '.join(_OPERATIONS)}")
        if path.startswith("/") or path.endswith("/"):
            raise BadInput(f"{path!r} is not a path below {self.at}; use '' for all")
        self._ask("trouble", path, operation, str(error))

    def heal(self) -> None:
        """End all troubles."""
        self._ask("heal")

    def close(self) -> None:
        """Unmount it everywhere; processes that still use it get errors."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            try:
                self._process.wait(_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            mounts.remove_of(self._process.pid)
        for point in self._made:
            with contextlib.suppress(FileNotFoundError):
                point.rmdir()

    def _ask(self, *fields: str) -> bytes:
        frame = b"".join(os.fsencode(field) + b"\0" for field in fields)
        assert self._socket is not None
        with self._lock, self._limited():
            self._socket.sendall(struct.pack("=I", len(frame)) + frame)
            return self._hear()

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Say what it means if the process does not answer."""
        assert self._socket is not None
        try:
            yield
        except TimeoutError as error:
            # An answer that comes later would be taken for that to another question.
            self._socket.close()
            raise DeadlineMissed(
                f"the counting file system at {self.at} did not answer in {_WITHIN:g} s; "
                "is it overloaded?"
            ) from error
        except OSError as error:
            raise HoldfastError(
                f"the counting file system at {self.at} has ended; start another"
            ) from error

    def _hear(self) -> bytes:
        (length,) = struct.unpack("=I", self._receive(4))
        return self._receive(length)

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        into = bytearray(size)
        view = memoryview(into)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise ConnectionResetError
            view = view[count:]
        return bytes(into)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
