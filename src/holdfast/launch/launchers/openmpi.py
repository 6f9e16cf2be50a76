"""Agents on the hosts of an Open MPI program: every rank runs `holdfast up`, one per host counts.

The ranks meet over MPI: the first decides, and the first rank of every other host helps.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec.structs import replace

from ...config import Config
from ...errors import BadInput
from ...session.node import Orders, check_name, own_name
from ...session.processes import Process
from ..starter import AGENT, Started, Starter, StartOutcome, collect
from .base import Environment, Found

if TYPE_CHECKING:
    from mpi4py import MPI

_DROP, _KEEP = b"drop", b"keep"


class OpenMPI:
    """`mpiexec ... holdfast up`: returns when all agents are up, and they stay."""

    name = "openmpi"
    needs = "Open MPI's mpiexec: OMPI_COMM_WORLD_RANK is not set"
    here = False

    def __init__(self, config: Config, environment: Environment) -> None:
        self._config = config
        self.leads = environment["OMPI_COMM_WORLD_RANK"] == "0"
        if "SLURM_JOB_ID" in environment and config.launcher == "auto":
            self._refuse(
                "this is Open MPI in a Slurm job, and Slurm would end the agents with "
                "mpiexec; run `holdfast up` without mpiexec, or add --launcher openmpi"
            )
        try:
            from mpi4py import MPI  # noqa: PLC0415 - joins the ranks
        except ImportError:
            self._refuse("under mpiexec, `holdfast up` needs mpi4py: pip install 'holdfast[mpi]'")
        world = MPI.COMM_WORLD
        first = environment.get("OMPI_COMM_WORLD_LOCAL_RANK") == "0"
        self._hosts = world.Split(0 if first else MPI.UNDEFINED, world.rank)
        self._first = first
        self._names: list[str] = (self._hosts.gather(own_name()) or []) if first else []
        self._released = False

    @staticmethod
    def detect(config: Config, environment: Environment) -> Found | None:
        """Find the program that we are a rank of."""
        if "OMPI_COMM_WORLD_RANK" not in environment:
            return None
        size = environment.get("OMPI_COMM_WORLD_SIZE", "?")
        return Found(f"Open MPI with {size} ranks", "OMPI_COMM_WORLD_RANK is set")

    def nodes(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts of the ranks."""
        if len(set(self._names)) < len(self._names):
            raise BadInput(f"several hosts have the same name: {', '.join(sorted(self._names))}")
        return tuple(map(check_name, self._names))

    def start(self, orders: Orders, nodes: Sequence[str], log: Path) -> Started:
        """Start the agent of this host, and let the others start theirs."""
        self._released = True
        self._hosts.bcast(msgspec.json.encode(orders))
        return _Hosts(self._hosts, orders, log)

    def help(self) -> None:
        """Do what the first rank decides; all ranks but that one come here."""
        order = self._hosts.bcast(None) if self._first else _DROP
        if order == _DROP:
            return
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory) / "log"
            started = _Hosts(self._hosts, msgspec.json.decode(order, type=Orders), log)
            started.collect(self._config.start_within)
            started.obey()

    def cancel(self) -> None:
        """Let the helpers go if nothing was started."""
        if not self._released:
            self._released = True
            self._hosts.bcast(_DROP)

    def _refuse(self, reason: str) -> NoReturn:
        """Fail on all ranks, and say why on one."""
        if self.leads:
            raise BadInput(reason)
        sys.exit(BadInput.exit_code)


class _Hosts(Started):
    """The agents of all hosts, as the first rank sees them; a helper sees its own."""

    def __init__(self, hosts: MPI.Comm, orders: Orders, log: Path) -> None:
        self._hosts = hosts
        node = own_name()
        super().__init__(
            [Starter([node], AGENT, replace(orders, node=node, index=hosts.rank), log)]
        )

    def collect(self, within: float) -> StartOutcome:
        """Wait for the agents of all hosts."""
        own = collect(self.starters, within)
        outcome = StartOutcome()
        for message in self._hosts.gather(msgspec.json.encode(own)) or []:
            other = msgspec.json.decode(message, type=StartOutcome)
            outcome.ready.update(other.ready)
            outcome.failed.update(other.failed)
        return outcome

    def keep(self) -> tuple[Process, ...]:
        """Tell the helpers to let their agents live."""
        self._hosts.bcast(_KEEP)
        return super().keep()

    def abandon(self) -> None:
        """Tell the helpers to end their agents."""
        self._hosts.bcast(_DROP)
        super().abandon()

    def obey(self) -> None:
        """Wait for what the first rank decides, and do it."""
        if self._hosts.bcast(None) == _KEEP:
            super().keep()
        else:
            super().abandon()
