"""Networks on one machine: each node in a network namespace of its own, joined by a bridge.

Cuts and losses are real: packets vanish on their way, as on a broken cable. The processes of this
host reach all nodes over the bridge, whatever is cut between these.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..errors import BadInput, DeadlineMissed, Refused
from . import bridges
from .bridges import NAMESPACES, ip, nft
from .relay import Relay

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_NODES = 250
_NET_ADMIN, _SYS_ADMIN = 12, 21  # bits of CapEff
_FILE = "networks.json"
_UP_WITHIN = 10.0


def why_not() -> str:
    """Tell why networks cannot be made here; empty if they can."""
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    capabilities = int(found[1], 16) if found else 0
    if not (capabilities >> _NET_ADMIN & 1 and capabilities >> _SYS_ADMIN & 1):
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("nft", "nftables"), ("nsenter", "util-linux")):
        if shutil.which(tool) is None:
            return f"the command {tool!r} is missing; install {package}"
    return ""


class Networks(msgspec.Struct, frozen=True):
    """The networks of some nodes; removed at the end of a `with` block."""

    name: str
    nodes: int

    @classmethod
    def make(cls, nodes: int) -> Networks:
        """Make them, and clear away what earlier owners left that died."""
        if reason := why_not():
            raise Refused(f"nodes cannot have networks of their own here: {reason}")
        if not isinstance(nodes, int) or not 1 <= nodes <= _MOST_NODES:
            raise BadInput(f"cannot create {nodes!r} networks; create 1 to {_MOST_NODES}")
        bridges.remove_stale()
        networks = cls(bridges.claim(), nodes)
        try:
            networks._build()
        except BaseException:
            networks.remove()
            raise
        return networks

    def address(self, node: int) -> str:
        """Return the address on which a node's agent listens."""
        return f"{self._subnet}.{self._checked(node) + 1}"

    def under(self, node: int) -> tuple[str, ...]:
        """Return the command that runs another one in a node's network."""
        return ("nsenter", f"--net={NAMESPACES / self._namespace(node)}", "--")

    def cut(self, source: int, target: int) -> None:
        """Let no packet through from one node to another, until `heal`."""
        self._add_rule(source, target, "drop")

    def lose(self, source: int, target: int, share: float) -> None:
        """Lose this share of the packets from one node to another, until `heal`."""
        if not 0 < share < 1:
            raise BadInput(
                f"cannot lose a share of {share!r}; use one between 0 and 1, or cut the line"
            )
        self._add_rule(source, target, f"numgen random mod 10000 < {round(share * 10000)} drop")

    def delay(self, node: int, seconds: float) -> Relay:
        """Hold every packet to or from a node for a while, until `undelay`."""
        if not 0 < seconds <= 60:
            raise BadInput(f"cannot delay packets by {seconds!r} s; use up to 60 s")
        inside, outside = f"{self.name}i{self._checked(node)}", f"{self.name}o{node}"
        port = self._namespace(node)
        relay = Relay(inside, outside, seconds)
        try:
            ip(f"link set {inside} netns {port}")
            ip("link set eth0 nomaster", f"link set {inside} master lan up", namespace=port)
            ip(f"link set {port} nomaster", f"link set {outside} master {self.name} up")
            self._wait_for_cables(node)
        except BaseException:
            relay.close()
            raise
        return relay

    def undelay(self, node: int, relay: Relay) -> None:
        """Put a node straight on the bridge again."""
        relay.close()
        port = self._namespace(node)
        ip(f"link set {port} master {self.name}")
        ip("link set eth0 master lan", namespace=port)
        self._wait_for_cables(node)

    def heal(self) -> None:
        """Mend all cuts and losses."""
        for node in range(self.nodes):
            nft(self._namespace(node), "flush chain inet holdfast input")

    def cuts(self) -> set[tuple[int, int]]:
        """Return the cuts that are in force, whoever made them: from, to."""
        cut = re.compile(rf"ip saddr {re.escape(self._subnet)}\.(\d+) drop$", re.MULTILINE)
        return {
            (int(source) - 1, target)
            for target in range(self.nodes)
            for source in cut.findall(bridges.rules(self._namespace(target)))
        }

    def remove(self) -> None:
        """Remove all; agents in there must have ended."""
        bridges.remove(self.name)

    def save(self, directory: Path) -> None:
        """Write down in a session's directory which networks it has."""
        (directory / _FILE).write_bytes(msgspec.json.encode(self))

    @property
    def _subnet(self) -> str:
        number = int(self.name.removeprefix("hf"), 16)
        return f"198.{18 + number // 256}.{number % 256}"

    def _namespace(self, node: int) -> str:
        return f"{self.name}-{self._checked(node)}"

    def _hardware_address(self, node: int) -> str:
        numbers = [0x02, *(int(part) for part in self.address(node).split(".")), 0]
        return ":".join(f"{number:02x}" for number in numbers)

    def _checked(self, node: int) -> int:
        if not isinstance(node, int) or not 0 <= node < self.nodes:
            raise BadInput(f"there is no node {node!r}; there are {self.nodes} networks")
        return node

    def _build(self) -> None:
        for node in range(self.nodes):
            port = self._namespace(node)
            ip(
                f"netns add {port}",
                f"link add {port} type veth peer name eth0 netns {port}",
                f"link set {port} master {self.name} up",
            )
            # A bridge in there holds the addresses, so that a relay can take the cable's place.
            ip(
                "link set lo up",
                f"link add lan address {self._hardware_address(node)} type bridge",
                "link set eth0 master lan up",
                f"address add {self.address(node)}/24 dev lan",
                "link set lan up",
                namespace=port,
            )
            nft(
                port,
                "add table inet holdfast",
                "add chain inet holdfast input { type filter hook input priority 0; }",
            )
        ip(f"address add {self._subnet}.254/24 dev {self.name}", f"link set {self.name} up")
        self._wait_for_cables(*range(self.nodes))

    def _wait_for_cables(self, *nodes: int) -> None:
        """Wait until all that was plugged in carries packets: the kernel takes its time."""
        end = time.monotonic() + _UP_WITHIN
        down = [(self.name, ""), *(("lan", self._namespace(node)) for node in nodes)]
        while down := [one for one in down if not bridges.forwards(*one)]:
            if time.monotonic() > end:
                raise DeadlineMissed(
                    f"the networks were not up after {_UP_WITHIN:g} s; is the host overloaded?"
                )

    def _add_rule(self, source: int, target: int, what: str) -> None:
        if source == target:
            raise BadInput(f"cannot cut node {source} off from itself; name two nodes")
        rule = f"add rule inet holdfast input ip saddr {self.address(source)} {what}"
        nft(self._namespace(target), rule)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def of_session(directory: Path) -> Networks | None:
    """Return the networks of the session in `directory`, if it has any."""
    try:
        return msgspec.json.decode((directory / _FILE).read_bytes(), type=Networks)
    except FileNotFoundError:
        return None
