"""Agents on the nodes of a Slurm job."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...config import Config
from ...errors import BadInput, HoldfastError
from ...session.node import Orders
from ..starter import AGENT, Started, Starter, telling
from .base import Alone, Environment, Found

#: What srun takes over from its environment is meant for another step, but for these.
_KEPT = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_CLUSTERS")
_TASKS_FAILED = re.compile(r"^srun: error: (\S+): tasks? [\d,-]+: (.*)$", re.MULTILINE)
_ASK_WITHIN = 30.0


class _Step(Started):
    """Steps of the job: srun lives as long as its agents, and ends them when it is ended."""

    grace = 10.0
    linger = True


class Slurm(Alone):
    """`holdfast up` in a batch script, or in the shell of `salloc`."""

    name = "slurm"
    needs = "a Slurm job: SLURM_JOB_ID is not set"
    here = False

    def __init__(self, config: Config, environment: Environment) -> None:
        self._environment = environment
        if "SLURM_STEP_ID" in environment and environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
            raise BadInput(
                "`holdfast up` is running in several tasks of a Slurm step; run it once, "
                "without srun: it starts an agent on every node of the job"
            )

    @staticmethod
    def detect(config: Config, environment: Environment) -> Found | None:
        """Find the job whose number is in the environment."""
        job, nodes = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_NUM_NODES", "?")
        return Found(f"Slurm job {job} with {nodes} nodes", "SLURM_JOB_ID is set") if job else None

    def nodes(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes of the job: for a session that runs, those that it has by now."""
        listed = self._environment.get("SLURM_JOB_NODELIST", "")
        if known or not listed:  # nodes may have left the job, and come to it
            listed = self._ask("squeue", "-h", "-j", self._environment["SLURM_JOB_ID"], "-o", "%N")
        return self._expand(listed)

    def start(self, orders: Orders, nodes: Sequence[str], log: Path) -> Started:
        """Start one step; orders go to its standard input, which srun hands to every task."""
        command = [
            self._command("srun"),
            "--overlap",  # beside the steps of the user
            "--no-kill",  # when a node dies, and
            "--kill-on-bad-exit=0",  # when an agent does, the others go on
            "--wait=0",
            f"--nodes={len(nodes)}",
            f"--ntasks={len(nodes)}",
            "--ntasks-per-node=1",
            f"--nodelist={','.join(nodes)}",
            "--mem=0",
            "--mpi=none",
            "--export=ALL",
            "--chdir=/",
            "--job-name=holdfast",
            *AGENT,
        ]
        environment = {
            name: value
            for name, value in self._environment.items()
            if name in _KEPT or not name.startswith(("SLURM_", "SBATCH_"))
        }
        return _Step([Starter(nodes, command, orders, log, environment, self._complaints)])

    def _complaints(self, said: str) -> dict[str, str]:
        """Return the nodes that srun says have failed; it goes on with the others."""
        of_agents = [line for line in said.splitlines() if not line.startswith("srun:")]
        last = telling(of_agents)
        return {
            node: f"{words}; {last}" if last else words
            for nodes, words in _TASKS_FAILED.findall(said)
            for node in self._expand(nodes)
        }

    def _expand(self, nodes: str) -> tuple[str, ...]:
        return tuple(self._ask("scontrol", "show", "hostnames", nodes).split())

    def _command(self, name: str) -> str:
        path = shutil.which(name, path=self._environment.get("PATH", os.defpath))
        if path is None:
            raise BadInput(
                f"this is Slurm job {self._environment.get('SLURM_JOB_ID')}, but `{name}` "
                "is not in PATH; load Slurm's module, or choose another --launcher"
            )
        return path

    def _ask(self, name: str, *arguments: str) -> str:
        command = [self._command(name), *arguments]
        try:
            done = subprocess.run(
                command,
                check=False,
                env=dict(self._environment),
                capture_output=True,
                text=True,
                timeout=_ASK_WITHIN,
            )
        except subprocess.TimeoutExpired:
            raise HoldfastError(f"`{name}` did not answer within {_ASK_WITHIN:g} s") from None
        if done.returncode != 0:
            raise HoldfastError(
                f"`{' '.join(command)}` failed: {telling(done.stderr.splitlines())}"
            )
        return done.stdout.strip()
