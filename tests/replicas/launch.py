"""Starts MPI programs for the tests: with a time-out, a directory of their own, and no traces."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def mpiexec(*options: str) -> list[str]:
    command = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [command, "--oversubscribe", *as_root, *options]


def run(
    program: str | Path,
    *arguments: object,
    ranks: int,
    scratch: Path,
    timeout: float = 60,
    ulfm: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program of ours on `ranks` ranks; fails with its output if it does not end in time."""
    # Open MPI keeps sockets below TMPDIR: their paths must stay short.
    private = scratch / "t"
    private.mkdir(exist_ok=True)
    options = ["--with-ft", "ulfm"] if ulfm else []
    path = program if isinstance(program, Path) else PROGRAMS / program
    command = [
        *mpiexec(*options, "-n", str(ranks)),
        sys.executable,
        str(path),
        *map(str, arguments),
    ]
    # Killed ranks leave their shared memory behind; in a directory of its own it goes with the run.
    shared = tempfile.mkdtemp(dir=os.environ["HOLDFAST_MEMORY_DIR"])
    environment = os.environ | {
        "TMPDIR": str(private),
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_btl_sm_backing_directory": shared,
    }
    environment["PYTHONPATH"] = str(PROGRAMS)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        output = process.communicate()[0]
        raise AssertionError(f"{path.name} did not end within {timeout} s:\n{output}") from None
    finally:
        _end(process)
        shutil.rmtree(private, ignore_errors=True)
        shutil.rmtree(shared, ignore_errors=True)
    return subprocess.CompletedProcess(command, process.returncode, output, "")


def _end(process: subprocess.Popen[str]) -> None:
    """End mpiexec (it takes its ranks with it) and whatever is left of its session."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def passes(program: str | Path, *arguments: object, **options: object) -> str:
    """Run a program that must succeed; return what it printed."""
    done = run(program, *arguments, **options)  # type: ignore[arg-type]
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout}"
    return done.stdout
