"""The numeric address at which other hosts reach this one."""

from __future__ import annotations

import os
import socket
import struct
from fnmatch import fnmatchcase

from ..errors import BadInput

_SIOCGIFADDR = 0x8915
_LOOPBACK = "127."
#: Reserved for documentation: every route to it is the default route, and nothing is ever sent.
_ELSEWHERE = ("192.0.2.1", 9)


def of_interface(pattern: str) -> str:
    """Return the IPv4 address of the first interface whose name matches, e.g. hsn*."""
    names = sorted(name for _, name in socket.if_nameindex())
    for name in names:
        if fnmatchcase(name, pattern) and (address := _address(name)):
            return address
    raise BadInput(
        f"{os.uname().nodename} has no interface {pattern!r} with an address, only "
        f"{', '.join(name for name in names if _address(name))}; set another `interface`"
    )


def of_host() -> str:
    """Return the address of the host's name, or of its default route where that is loopback."""
    try:
        address = socket.gethostbyname(os.uname().nodename)
    except OSError:
        address = _LOOPBACK
    if not address.startswith(_LOOPBACK):
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:  # no network at all: then all agents are on this host
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _address(interface: str) -> str:
    import fcntl  # noqa: PLC0415

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode())
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
