"""`holdfast bench replicas`: Replicas against memcpy, files and bare ULFM, on eight ranks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

from ...errors import BadInput
from ...units import format_size
from ..figures import Figure, Report, at_most, shown

_RANKS = 8
_SCALE = (4, 8, 16)
_DEATHS = 5
_TURNS = 3
_TIMEOUT = 300.0


def run() -> Report:
    """Run all parts; each starts mpiexec by itself."""
    with tempfile.TemporaryDirectory(prefix="hf") as scratch:
        parts = (_bulk, _deaths, _kmeans, _files, _sizes, _scale)
        figures = [figure for part in parts for figure in part(Path(scratch))]
    notes = [f"{_RANKS} ranks on one machine, each kept on one of its {os.cpu_count()} cores."]
    return Report("replicas", [_placement(), *figures], notes=notes)


def _mpiexec(scratch: Path, *command: str, ranks: int = _RANKS) -> str:
    program = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which(
        "mpiexec"
    )
    if program is None:
        raise BadInput("mpiexec was not found; pip install 'holdfast[mpi]' brings it")
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    line = [program, "--with-ft", "ulfm", "--oversubscribe", *as_root, "-n", str(ranks)]
    environment = os.environ | {"TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    # Killed ranks leave their shared memory behind; in a directory of its own it goes with the run.
    with tempfile.TemporaryDirectory(prefix="hf", dir="/dev/shm") as shared:
        process = subprocess.Popen(
            [*line, sys.executable, *command],
            env=environment | {"OMPI_MCA_btl_sm_backing_directory": shared},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said, complaint = process.communicate(timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise BadInput(f"{' '.join(command)} did not end in {_TIMEOUT:g} s") from None
        finally:
            _end(process)
    if process.returncode:
        raise BadInput(f"mpiexec failed on {' '.join(command)}: {complaint.strip()[-500:]}")
    return said


def _end(process: subprocess.Popen[str]) -> None:
    """End mpiexec, which takes its ranks with it if it is asked to, and what is left of it."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ranks(scratch: Path, part: str, *arguments: str, ranks: int = _RANKS) -> dict[str, float]:
    result = scratch / "result.json"
    result.unlink(missing_ok=True)
    program = "holdfast.bench.replicas.ranks"
    _mpiexec(scratch, "-m", program, part, str(result), *arguments, ranks=ranks)
    answer: dict[str, float] = json.loads(result.read_text())
    return answer


def _bulk(scratch: Path) -> list[Figure]:
    measured = _ranks(scratch, "bulk")
    peer = "memcpy of the 4 copies"
    figures = [shown(peer, 1e3 * measured["memcpy"], "ms")]
    for name, limit, restore in (
        ("submit", 2.5, "ReStore 9-30"),
        ("scatter", 0.12, "ReStore 0.2"),
        ("load all", 0.45, "ReStore 1.3-1.8"),
        ("load 1 %", 0.06, "ReStore 0.05"),
    ):
        figures.append(at_most(name, measured[name], limit, "x", f"{peer}; {restore}"))
    return figures


def _files(scratch: Path) -> list[Figure]:
    """Compare with files, as the paper's Figure 7."""
    memory = tempfile.mkdtemp(prefix="hf", dir="/dev/shm")
    disk = tempfile.mkdtemp(prefix="hf", dir=".")  # the checkout is on a disk; /tmp may not be
    places = [Path(memory, "tmpfs"), Path(disk, "disk")]
    try:
        for place in places:
            place.mkdir()
        seconds = _ranks(scratch, "files", *map(str, places))
    finally:
        shutil.rmtree(memory)
        shutil.rmtree(disk)
    return [shown(f"having {name}", 1e3 * value, "ms") for name, value in seconds.items()]


def _deaths(scratch: Path) -> list[Figure]:
    runs = [
        (_ranks(scratch, "bare", str(scratch)), _ranks(scratch, "death", str(scratch)))
        for _ in range(_DEATHS)
    ]
    bare = median(run["detect and shrink"] for run, _ in runs)
    ours = median(run["kill to data"] for _, run in runs)
    restore = median(run["restore copies"] / run["scatter 64 MiB"] for _, run in runs)
    return [
        at_most("restore copies after one death", restore, 3, "x", "a scatter of 64 MiB"),
        shown("detection + shrink of bare ULFM", 1e3 * bare, "ms"),
        at_most("SIGKILL until the data is with the survivors", ours / bare, 4, "x", "bare ULFM"),
    ]


def _sizes(scratch: Path) -> list[Figure]:
    """Vary the size of ranges, as in the paper's Figure 4a."""
    sizes = [1 << exponent for exponent in range(10, 25, 2)]
    starts = {f"ranges of {format_size(size)}": ([str(size)], _RANKS) for size in sizes}
    return _orders(scratch, starts)


def _scale(scratch: Path) -> list[Figure]:
    """Vary the number of ranks, as in the paper's Figure 4b."""
    return _orders(scratch, {f"{ranks} ranks": ([], ranks) for ranks in _SCALE})


def _orders(scratch: Path, starts: dict[str, tuple[list[str], int]]) -> list[Figure]:
    """Let starts with other arguments, or on other numbers of ranks, take turns."""
    contestants = {
        name: partial(_ranks, scratch, "orders", *arguments, ranks=ranks)
        for name, (arguments, ranks) in starts.items()
    }
    rounds = [{name: start() for name, start in contestants.items()} for _ in range(_TURNS)]
    return [
        shown(f"{call}, {name}", median(each[name][call] for each in rounds), "x")
        for name in starts
        for call in rounds[0][name]
        if call != "memcpy"
    ]


def _kmeans(scratch: Path) -> list[Figure]:
    program = Path("examples/kmeans.py")
    name = "k-means, 500 iterations, 1 of 8 killed: time in Replicas"
    if not program.exists():
        return [
            Figure(
                name=name,
                value=None,
                unit="%",
                target="at most 5",
                met=None,
                compared_with="the whole run; needs examples/kmeans.py",
            )
        ]
    said = _mpiexec(scratch, str(program), "--iterations", "500", "--kill", "3", "--at", "250")
    share = re.search(r"in Replicas ([\d.]+) %", said)
    if share is None:
        raise BadInput(f"k-means did not finish: {said[-300:]}")
    return [at_most(name, float(share[1]), 5, "%", "the whole run; ReStore 1.6")]


def _placement() -> Figure:
    import mpi4py  # noqa: PLC0415  (loaded when used)
    import numpy as np  # noqa: PLC0415

    mpi4py.rc.initialize = False  # Open MPI leaves shared memory of programs without mpiexec
    from ...replicas.placement import Placement  # noqa: PLC0415

    hosts = np.arange(25_000) // 48
    ranges = np.arange(10**7)
    start = time.perf_counter()
    Placement(10**7, hosts, 4, seed=0, permute=True, distribution="A").first_slots(ranges)
    seconds = time.perf_counter() - start
    return at_most("placement of 10^7 ranges over 25,000 ranks", seconds, 2, "s", "")
