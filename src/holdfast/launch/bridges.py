"""Bridges and network namespaces, as the kernel has them.

The kernel is the only book-keeper. A bridge is made first and removed last. Its name, which all
the rest begins with, tells which of 512 subnets it takes; its hardware address tells whose it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import HoldfastError
from ..session import processes

NAMESPACES = Path("/run/netns")
_SUBNETS = 512  # of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544)


def remove_stale() -> None:
    """Remove networks whose owner has ended and in which nothing runs."""
    for name, owner in existing():
        if owner != owner_of(int(owner[3:11].replace(":", ""), 16)) and not inhabited(name):
            remove(name)


def claim() -> str:
    """Make a bridge under a name, and so for a subnet, that nobody has."""
    for number in random.sample(range(_SUBNETS), _SUBNETS):
        command = ["ip", "link", "add", f"hf{number:03x}", "address", owner_of(os.getpid())]
        command += ["type", "bridge"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return f"hf{number:03x}"
        if "File exists" not in done.stderr:
            raise HoldfastError(f"could not create a network: {done.stderr.strip()}")
    raise HoldfastError(f"all {_SUBNETS} test networks of this machine are in use")


def owner_of(pid: int) -> str:
    """Return a hardware address that stands for one process: its pid, and when it started.

    A bridge has it from its first moment on, as it has its name. Empty if the process has ended.
    """
    started = processes.start_time(pid)
    if started is None:
        return ""
    return "02:" + (pid.to_bytes(3, "big") + (started % 65536).to_bytes(2, "big")).hex(":")


def existing() -> list[tuple[str, str]]:
    """List the networks of this machine: name, and owner as a hardware address."""
    done = subprocess.run(
        ["ip", "-json", "link", "show", "type", "bridge"], capture_output=True, check=True
    )
    links: list[dict[str, Any]] = json.loads(done.stdout or b"[]")
    return [
        (link["ifname"], link["address"])
        for link in links
        if re.fullmatch(r"hf[0-9a-f]{3}", link.get("ifname", ""))
    ]


def forwards(bridge: str, namespace: str) -> bool:
    """Whether all ports of a bridge carry packets."""
    where = ["-n", namespace] if namespace else []
    done = subprocess.run(
        ["ip", *where, "-json", "-details", "link", "show", "master", bridge],
        capture_output=True,
        check=True,
    )
    ports: list[dict[str, Any]] = json.loads(done.stdout or b"[]")
    return all(port["linkinfo"]["info_slave_data"]["state"] == "forwarding" for port in ports)


def _namespaces(name: str) -> list[str]:
    if not NAMESPACES.is_dir():
        return []
    return sorted(path.name for path in NAMESPACES.glob(f"{name}-*"))


def inhabited(name: str) -> bool:
    """Whether a process runs in one of the networks."""
    for namespace in _namespaces(name):
        done = subprocess.run(
            ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False
        )
        if done.stdout.strip():
            return True
    return False


def remove(name: str) -> None:
    """Remove a bridge and all networks on it."""
    # Ports by name: those of a removed namespace would linger for a while.
    for namespace in _namespaces(name):
        with contextlib.suppress(HoldfastError):  # somebody else may be removing it, too
            ip(f"link delete {namespace}")
        with contextlib.suppress(HoldfastError):
            ip(f"netns delete {namespace}")
    with contextlib.suppress(HoldfastError):
        ip(f"link delete {name}")


def ip(*lines: str, namespace: str = "") -> None:
    """Run commands of `ip`, each without its first word."""
    _feed(["ip", *(["-n", namespace] if namespace else []), "-batch", "-"], lines)


def nft(namespace: str, *lines: str) -> None:
    """Run commands of `nft` in a network."""
    _feed([*_nft(namespace), "-f", "-"], lines)


def rules(namespace: str) -> str:
    """Return what `nft` was told in a network, as it tells it."""
    return _feed([*_nft(namespace), "list", "ruleset"], ())


def _nft(namespace: str) -> list[str]:
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--", "nft"]


def _feed(command: Sequence[str], lines: Sequence[str]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())
        raise HoldfastError(f"`{' '.join(command)}` failed ({'; '.join(lines)}): {reason}")
    return done.stdout
