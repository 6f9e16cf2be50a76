"""Agents on the hosts that a file lists, started through ssh."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ...config import Config
from ...errors import BadInput
from ...session.node import Orders, check_name
from ..starter import AGENT, Started, Starter
from .base import Alone, Environment, Found

_IGNORED = ("slots", "max_slots", "max-slots")  # host files of Open MPI have them


class HostFile(Alone):
    """`holdfast up --hostfile FILE`: one host per line, perhaps with `rack=`."""

    name = "hostfile"
    needs = "a host file: `--hostfile FILE`"
    here = False

    def __init__(self, config: Config, environment: Environment) -> None:
        self._config = config
        self._hosts = read(config.hostfile)

    @staticmethod
    def detect(config: Config, environment: Environment) -> Found | None:
        """Find the file that is set."""
        if not config.hostfile:
            return None
        hosts = len(read(config.hostfile))
        return Found(f"{hosts} hosts in {config.hostfile}", "a host file was given")

    def nodes(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts as the file lists them now."""
        return tuple(self._hosts)

    def start(self, orders: Orders, nodes: Sequence[str], log: Path) -> Started:
        """Run ssh once for each host; it ends when the agent is ready."""
        ssh = shlex.split(self._config.ssh)
        places = list(self._hosts)
        starters = []
        for node in nodes:
            labels = self._hosts[node]
            own = replace(
                orders,
                node=node,
                index=places.index(node),
                detach=True,
                config=replace(orders.config, **labels),
            )
            # Not in the user's home, where Python would look for modules first.
            command = f"cd / && exec {shlex.join(AGENT)}"
            try:
                starters.append(Starter([node], [*ssh, node, command], own, log))
            except FileNotFoundError:
                Started(starters).abandon()
                raise BadInput(f"there is no command {ssh[0]!r}; set `ssh`") from None
        return Started(starters)


def read(path: str) -> dict[str, dict[str, str]]:
    """Read a host file: the hosts in order, each with its labels."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BadInput(f"cannot read the host file {path}: {reason}") from None
    hosts: dict[str, dict[str, str]] = {}
    for number, line in enumerate(lines, 1):
        host, *words = line.partition("#")[0].split() or [""]
        if not host:
            continue
        try:
            labels = _labels(words)
            check_name(host)
        except BadInput as error:
            raise BadInput(f"{path}, line {number}: {error}") from None
        if host in hosts:
            raise BadInput(
                f"{path}, line {number}: {host} is listed twice; each host runs one agent"
            )
        hosts[host] = labels
    if not hosts:
        raise BadInput(f"the host file {path} lists no hosts; write one per line")
    return hosts


def _labels(words: Sequence[str]) -> dict[str, str]:
    labels = {}
    for word in words:
        name, _, value = word.partition("=")
        if name == "rack":
            labels[name] = value
        elif name == "role":
            raise BadInput(
                f"{word!r}: roles go by the order of the hosts now; list staging nodes and then "
                "spares last, and give --staging N and --spares N"
            )
        elif name not in _IGNORED:
            raise BadInput(f"{word!r} is unknown; after the host, write rack=NAME")
    return labels
