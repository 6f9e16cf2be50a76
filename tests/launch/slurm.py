"""A real Slurm of several nodes on this machine, private to the tests.

The daemons run below a process of their own that ends them, and whatever they started, when the
tests end in whatever way. Nodes die and return by a line on its standard input.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scontrol", "squeue")
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
PR_SET_CHILD_SUBREAPER = 36
WITHIN = 30.0

CONFIGURATION = """
ClusterName=holdfast
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.sock
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/%n.log
SlurmdParameters=config_overrides
SchedulerParameters=permit_job_expansion
SchedulerType=sched/builtin
SelectType=select/cons_tres
ProctrackType=proctrack/pgid
TaskPlugin=task/none
TaskProlog={directory}/prolog
TopologyPlugin=topology/tree
MpiDefault=none
ReturnToService=0
MessageTimeout=5
KillWait=5
PartitionName=all Nodes=ALL Default=YES State=UP
"""
NODE = "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000\n"
#: The first two nodes share a switch, and so do all others.
TOPOLOGY = """SwitchName=left Nodes=node[1-2]
SwitchName=right Nodes=node[3-{nodes}]
SwitchName=top Switches=left,right
"""
#: Some nodes have no working Python.
PROLOG = """#!/bin/sh
[ -e {directory}/broken-$SLURMD_NODENAME ] && echo export PYTHONHOME=/nowhere
exit 0
"""


def missing() -> list[str]:
    """Commands that are not here."""
    return [name for name in NEEDED if shutil.which(name, path=PATH) is None]


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {WITHIN:g} s")
        time.sleep(0.05)


class Slurm:
    """The cluster as the tests see it."""

    def __init__(self, nodes: int) -> None:
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        self.directory = Path(tempfile.mkdtemp(prefix="slurm-"))
        lifeline, self._lifeline = os.pipe()
        # Started by a shell that ends: the supervisor is nobody's child.
        shell = ["/bin/sh", "-c", 'exec 3<&0; "$@" <&3 3<&- & exit 0', "sh"]
        supervisor = [sys.executable, __file__, str(self.directory), str(nodes)]
        with (self.directory / "supervisor.log").open("wb") as log:
            subprocess.run(
                [*shell, *supervisor],
                check=True,
                stdin=lifeline,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(lifeline)
        self.environment = os.environ | {
            "SLURM_CONF": str(self.directory / "slurm.conf"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{PATH}",
        }
        for name in [name for name in self.environment if name.startswith(("SLURM_JOB", "OMPI_"))]:
            del self.environment[name]
        try:
            wait_for(self._all_idle, "Slurm is up")
        except BaseException:
            self.close()
            raise

    def _all_idle(self) -> bool:
        done = self.command("sinfo", "-h", "-o", "%D %t", check=False)
        return done.split() == [str(len(self.nodes)), "idle"]

    def command(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            arguments, env=self.environment, capture_output=True, text=True, timeout=60
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self, node: str) -> str:
        return self.command("sinfo", "-h", "-n", node, "-o", "%t").strip()

    def kill(self, node: str) -> None:
        """A node dies: its daemon and all it runs."""
        self._tell(f"kill {node}")

    def orphan(self, node: str) -> None:
        """The daemon of a node dies, and what it runs goes on."""
        self._tell(f"orphan {node}")

    def boot(self, node: str) -> None:
        """A node returns."""
        self._tell(f"boot {node}")

    def _tell(self, order: str) -> None:
        done = self.directory / "done"
        done.unlink(missing_ok=True)
        os.write(self._lifeline, order.encode() + b"\n")
        wait_for(done.exists, order)

    @contextlib.contextmanager
    def allocation(self, nodes: int, *options: str) -> Iterator[dict[str, str]]:
        """Hold an allocation; gives the environment of its shell."""
        code = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); input()"
        holder = subprocess.Popen(
            ["salloc", f"--nodes={nodes}", *options, sys.executable, "-c", code],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert holder.stdin
        assert holder.stdout
        try:
            yield json.loads(holder.stdout.readline())
        finally:
            with contextlib.suppress(BrokenPipeError):
                holder.stdin.write("\n")
                holder.stdin.close()
            holder.wait(60)
            holder.stdout.close()
            wait_for(lambda: not self.command("squeue", "-h"), "jobs end")

    def processes(self) -> list[str]:
        """Processes of jobs that are left."""
        return [Path(f"/proc/{pid}/cmdline").read_text() for pid in tasks(self.directory)]

    def close(self) -> None:
        os.close(self._lifeline)
        wait_for(lambda: not self.directory.exists(), "Slurm ends")


def tasks(directory: Path, node: str = "") -> list[int]:
    """Processes that run in jobs, on one node or on all."""
    wanted = {f"SLURM_CONF={directory / 'slurm.conf'}", f"SLURMD_NODENAME={node}"}
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = set(path.read_text(errors="replace").split("\0"))
        except OSError:
            continue
        on = {name for name in variables if name.startswith("SLURMD_NODENAME=")}
        if on and wanted <= variables | (set() if node else {"SLURMD_NODENAME="}):
            found.append(int(path.parent.name))
    return found


# ---- the supervisor


def reap(*_: object) -> None:
    """Take leave of children: Slurm waits for the last of a job's processes, even if it is dead."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


class Supervisor:
    """Has the daemons as its children, and inherits what they leave."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def start(self) -> None:
        directory = self.directory
        self._configure()
        at = [f"--{what}-file={directory}/munge.{what}" for what in ("key", "pid", "log", "seed")]
        # Forced, since it wants its socket to be open to all users.
        socket_file = directory / "munge.sock"
        self._start("munged", "--foreground", "--force", f"--socket={socket_file}", *at)
        wait_for(socket_file.exists, "munged listens")
        self._start("slurmctld", "-D")
        for node in self.nodes:
            self.boot(node)

    def _configure(self) -> None:
        directory, nodes = self.directory, self.nodes
        with contextlib.ExitStack() as stack:  # held together, so that all differ
            takers = [
                stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in [0, *nodes]
            ]
            ports = [taker.getsockname()[1] for taker in takers]
        names = {"directory": directory, "host": os.uname().nodename, "ports": ports}
        text = CONFIGURATION.format(user=pwd.getpwuid(os.getuid()).pw_name, **names)
        for node, port in zip(nodes, ports[1:], strict=True):
            text += NODE.format(node=node, host=os.uname().nodename, port=port)
            (directory / node).mkdir()
        (directory / "state").mkdir()
        (directory / "slurm.conf").write_text(text)
        (directory / "topology.conf").write_text(TOPOLOGY.format(nodes=len(nodes)))
        (directory / "prolog").write_text(PROLOG.format(directory=directory))
        (directory / "prolog").chmod(0o755)
        (directory / "munge.key").touch(0o600)
        (directory / "munge.key").write_bytes(os.urandom(128))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.directory / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen(
                command,
                env=os.environ | {"PATH": PATH, "SLURM_CONF": str(self.directory / "slurm.conf")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.daemons[command[-1]] = daemon
        return daemon

    def boot(self, node: str) -> None:
        self._start("slurmd", "-D", "-N", node)

    def orphan(self, node: str) -> None:
        daemon = self.daemons.pop(node)
        daemon.kill()
        daemon.wait()

    def kill(self, node: str) -> None:
        self.orphan(node)
        for pid in tasks(self.directory, node):
            with contextlib.suppress(OSError):
                stepd = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
                if "slurmstepd" in Path(f"/proc/{stepd}/comm").read_text():
                    os.kill(int(stepd), signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)

    def run(self) -> None:
        for line in sys.stdin:
            order, node = line.split()
            {"kill": self.kill, "orphan": self.orphan, "boot": self.boot}[order](node)
            (self.directory / "done").touch()

    def close(self) -> None:
        for pid in tasks(self.directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()
        while children := self._children():  # what daemons started has become ours
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            reap()
        shutil.rmtree(self.directory)

    def _children(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(path.parent.name))
        return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    supervisor = Supervisor(Path(sys.argv[1]), int(sys.argv[2]))
    try:
        supervisor.start()
        supervisor.run()
    finally:
        supervisor.close()
