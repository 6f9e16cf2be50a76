"""Starts MPI programs for the tests: with a time-out, a directory of their own, and no traces."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


#: Made by the Makefile beside the environment that the tests run in.
MPICH = Path(sys.prefix) / "mpich" / "bin"
PACKAGES = Path(sysconfig.get_path("purelib"))


class DidNotEnd(AssertionError):
    """A program did not end in time."""


def mpiexec(*options: str, user: str | None = None) -> list[str]:
    command = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 and user is None else []
    return [command, "--oversubscribe", *as_root, *options]


def pythons() -> list[str]:
    """Programs that run what was installed for this Python."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return [sys.executable, f"/usr/bin/{version}"]


def run(
    program: str | Path,
    *arguments: object,
    ranks: int,
    scratch: Path,
    timeout: float = 60,
    ulfm: bool = True,
    user: str | None = None,
    python: str = sys.executable,
    mpich: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program of ours on `ranks` ranks; fails with its output if it does not end in time.

    As another `user`, who must be able to run `python`, or on MPICH instead of Open MPI.
    """
    # Open MPI keeps sockets below TMPDIR: their paths must stay short.
    private = scratch / "t"
    private.mkdir(exist_ok=True)
    options = ["--with-ft", "ulfm"] if ulfm else []
    path = program if isinstance(program, Path) else PROGRAMS / program
    start = [*mpiexec(*options, "-n", str(ranks), user=user), python]
    if mpich:
        start = [str(MPICH / "mpiexec"), "-n", str(ranks), str(MPICH / "python")]
    command = [*start, str(path), *map(str, arguments)]
    # Killed ranks leave their shared memory behind; in a directory of its own it goes with the run.
    memory = os.environ["HOLDFAST_MEMORY_DIR"] if user is None else "/dev/shm"
    shared = tempfile.mkdtemp(dir=memory)
    environment = os.environ | {
        "TMPDIR": str(private),
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_btl_sm_backing_directory": shared,
    }
    environment["PYTHONPATH"] = str(PROGRAMS)
    if mpich:
        # The package, without what was installed beside it for Open MPI.
        (private / "holdfast").symlink_to(PACKAGES / "holdfast")
        environment["PYTHONPATH"] += f":{private}"
    if user is not None:
        environment |= {"PYTHONPATH": f"{PROGRAMS}:{PACKAGES}", "HOME": str(private)}
        for place in (scratch, private, shared):
            shutil.chown(place, user)
    before = _shared_by_mpich()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
        user=user,
        extra_groups=None if user is None else [],
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        output = process.communicate()[0]
        raise DidNotEnd(f"{path.name} did not end within {timeout} s:\n{output}") from None
    finally:
        _end(process)
        shutil.rmtree(private, ignore_errors=True)
        shutil.rmtree(shared, ignore_errors=True)
        for left in _shared_by_mpich() - before if mpich else ():
            left.unlink(missing_ok=True)
    return subprocess.CompletedProcess(command, process.returncode, output, "")


def _shared_by_mpich() -> set[Path]:
    """Memory that MPICH shares: it can be told no other place, and killed ranks leave it."""
    return set(Path("/dev/shm").glob("mpich_shm_*"))


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
