"""The process that looks after a mount: starts it again when it dies, frees it when it is stuck.

A mount process that is killed leaves a mount that only gives errors, one that is stopped lets
everybody hang who looks at it, `df` among them. So somebody has to watch, and it must not be
anybody who may look at the mount himself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...session import mounts, processes
from ...session.processes import note
from ...session.session import MOUNT_STATE
from . import table
from .control import MountOrders, MountRecord
from .table import PROGRAM, ask

#: How often it looks, in seconds, and how long an answer may take.
_EVERY, _ANSWER_WITHIN = 1.0, 1.0
_START_WITHIN, _END_WITHIN = 10.0, 3.0
#: Pauses before it starts a process again that died; one that lived so long starts afresh.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONG_LIFE = 0.1, 10.0, 30.0
_CONNECTIONS = Path("/sys/fs/fuse/connections")


class Supervisor:
    """Keeps one mount there until it is unmounted, told to end, or its session is gone."""

    def __init__(self, orders: MountOrders) -> None:
        self._orders = orders
        self._point = Path(orders.point)
        self._control = Path(orders.directory, orders.name)
        self._state = self._control.with_name(orders.name + MOUNT_STATE)
        self._log = self._control.with_name(orders.name + ".log")
        self._stopping = False
        self._wake_read, wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the process has ended: that wakes us, too
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def start(self) -> str:
        """Mount; returns what the process says: "mounted", or why not."""
        self._process = subprocess.Popen(
            [str(PROGRAM), *self._orders.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        self._since = self._well = time.monotonic()
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            ready, left = False, _START_WITHIN
            while not ready and not self._stopping and left > 0:
                ready = stdout.fileno() in self._look(left, stdout.fileno())
                left = self._since + _START_WITHIN - time.monotonic()
            self._well = time.monotonic()
            said = stdout.readline().decode(errors="replace").strip() if ready else ""
        if said != "mounted":
            self._kill()
            self._unmount()
        return said or f"{PROGRAM.name} did not mount; does the shared file system answer?"

    def announce(self) -> None:
        """Say in the session's directory what is mounted."""
        orders = self._orders
        own = processes.process(os.getpid())
        mount = MountRecord(orders.point, orders.node, orders.roots, own)
        temporary = self._state.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(msgspec.json.encode(mount))
        temporary.replace(self._state)

    def run(self) -> None:
        """Look after it."""
        pause = _FIRST_PAUSE
        while not self._stopping:
            if self._wait(_EVERY):
                if self._process.returncode == 0:  # somebody has unmounted it
                    return
                note(f"{PROGRAM.name} ended with {self._process.returncode}")
                if time.monotonic() - self._since > _LONG_LIFE:
                    pause = _FIRST_PAUSE
                self._unmount()
                while not self._stopping and self._session_is_there():
                    self._rest(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    said = self.start()
                    if said == "mounted":
                        break
                    note(said)
            elif not self._session_is_there():
                return
            elif self._is_stuck():
                note(f"the mount at {self._point} does not answer; aborting it")
                self._kill()
                self._well = time.monotonic()

    def end(self) -> None:
        """Unmount, end the process, and remove what says that they are there."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(_END_WITHIN)
            except subprocess.TimeoutExpired:
                self._kill()
        self._unmount()
        self.leave()

    def leave(self) -> None:
        """Remove what is there of it in the session's directory."""
        for path in (self._state, self._control, self._log):
            path.unlink(missing_ok=True)

    def open_log(self) -> None:
        """Write down what goes wrong from now on."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(self._log, flags, 0o600)
        os.dup2(log, sys.stderr.fileno())
        os.close(log)

    def _wait(self, within: float) -> bool:
        """Wait for the process to end, or for a signal; tells whether it has ended."""
        self._look(within)
        return self._process.poll() is not None

    def _look(self, within: float, *descriptors: int) -> list[int]:
        """Wait for a descriptor to be readable, or for a signal."""
        ready, _, _ = select.select([self._wake_read, *descriptors], [], [], within)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        return ready

    def _rest(self, seconds: float) -> None:
        """Wait so long, also if a process ends meanwhile."""
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            self._wait(left)

    def _session_is_there(self) -> bool:
        return os.path.exists(os.path.join(self._orders.directory, "session.json"))

    def _is_stuck(self) -> bool:
        """Whether it has not been able to answer the kernel for too long."""
        answered = False
        with contextlib.suppress(OSError):
            answered = ask(self._control, "ping", within=_ANSWER_WITHIN) == [b"well"]
        now = time.monotonic()
        if answered:
            self._well = now
        return now - self._well > self._orders.stuck_after

    def _kill(self) -> None:
        """End the process by force; everybody who waits for the mount has an error."""
        mounted = table.at(self._point)
        if mounted is not None and table.server(mounted) == self._process.pid:
            # A process that waits for its own mount does not even die before this.
            with _fusectl():
                abort = _CONNECTIONS / str(mounted.device[1]) / "abort"
                with contextlib.suppress(OSError):
                    abort.write_text("1")
        self._process.kill()
        try:
            self._process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:  # it hangs in the kernel, as nothing but that can help
            note(
                f"process {self._process.pid} cannot be killed: it is blocked in the "
                "shared file system"
            )

    def _unmount(self) -> None:
        """Remove what is left of it at the mount point."""
        mounted = table.at(self._point)
        own = (None, self._process.pid)  # dead, or hanging in the kernel
        if mounted is not None and table.server(mounted) in own:
            with contextlib.suppress(OSError):
                mounts.unmount(self._point)


@contextlib.contextmanager
def _fusectl() -> Iterator[None]:
    """Have the kernel's control files of FUSE there; systems usually do."""
    made = False
    if not any(one.point == _CONNECTIONS for one in mounts.table()):
        libc = ctypes.CDLL(None)
        made = libc.mount(b"none", os.fsencode(_CONNECTIONS), b"fusectl", 0, None) == 0
    try:
        yield
    finally:
        if made:
            with contextlib.suppress(OSError):
                mounts.detach(_CONNECTIONS)


def main() -> None:
    """Read orders from standard input, mount, say so, and stay in the background."""
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=MountOrders)
    if os.fork() != 0:
        os._exit(0)  # nobody's child any more: the process that started us need not wait
    os.setsid()
    os.chdir("/")
    supervisor = Supervisor(orders)
    try:
        supervisor.open_log()
    except OSError as error:
        _say(f"cannot write {error.filename}: {error.strerror}")
        return
    said = supervisor.start()
    if said != "mounted":
        supervisor.leave()
        _say(said)
        return
    try:
        supervisor.announce()
        if _say(said):
            supervisor.run()
    finally:
        supervisor.end()


def _say(line: str) -> bool:
    """Tell who started us; False if nobody is there to hear it, and nobody wants a mount."""
    heard = True
    try:
        print(line, flush=True)
    except BrokenPipeError:
        heard = False
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the reader has read its line and is gone
    return heard
