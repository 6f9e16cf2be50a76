"""A slow cable: two virtual network devices, and a process that passes packets on a while later.

It works on whole packets, so that connecting takes its time too and a refusal stays a refusal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

from ..errors import HoldfastError

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
#: Packets on their way; a cable that is given more loses some, as a router does.
_MOST = 10_000
_LARGEST = 1 << 16


class Relay:
    """The process, and its two devices; it ends with the process that started it."""

    def __init__(self, first: str, second: str, seconds: float) -> None:
        code = "from holdfast.launch.relay import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, first, second, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self.close()
            raise HoldfastError("the relay that delays packets did not start")

    def close(self) -> None:
        """End it; its devices go with it, and with them the connection."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def main() -> None:
    """Pass packets between two new devices until standard input closes or a device goes."""
    first, second = (_open_device(name) for name in sys.argv[1:3])
    print("ready", flush=True)
    with contextlib.suppress(OSError):  # a device is gone
        _relay({first: second, second: first}, float(sys.argv[3]))


def _open_device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return device


def _relay(other: dict[int, int], delay: float) -> None:
    lifeline = sys.stdin.fileno()
    on_their_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        timeout = max(0.0, on_their_way[0][0] - time.monotonic()) if on_their_way else None
        readable, _, _ = select.select([lifeline, *other], [], [], timeout)
        if lifeline in readable:
            return
        for device in readable:
            packet = os.read(device, _LARGEST)
            if len(on_their_way) < _MOST:
                on_their_way.append((time.monotonic() + delay, other[device], packet))
        now = time.monotonic()
        while on_their_way and on_their_way[0][0] <= now:
            _, device, packet = on_their_way.popleft()
            with contextlib.suppress(BlockingIOError):  # it is full: the packet is lost
                os.write(device, packet)
