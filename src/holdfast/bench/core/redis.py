"""get from Python against Redis GET from Python, the same number of processes on the same cores."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ...errors import HoldfastError
from ..figures import at_least
from ..measure import interleave
from ..programs import on_core
from .getter import GetterTask
from .setup import MEDIUM, BenchCluster, ReportPart

_CLIENTS = 8
_TURN = 0.5  # seconds
#: Of the programs that are not ours: they must not outlive a benchmark that is killed.
_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
_GETTER = [sys.executable, "-c", "from holdfast.bench.core.getter import main; main()"]


def run(setup: BenchCluster) -> ReportPart:
    """Measure it, or say what is missing."""
    name, against = "get of 100 KB over TCP, 8 client processes, from Python", "Redis GET, redis-py"
    missing = _missing()
    if missing:
        figure = at_least(name, None, 2, "x its rate", against)
        return ReportPart([figure], notes=[f"Redis was not measured: {missing}."])
    key = setup.keys[MEDIUM]
    with ExitStack() as stack:
        port = stack.enter_context(_redis(setup.server_core, setup.directory))
        _store(port, key, setup.job.objects.get(key))
        redis = GetterTask(kind="redis", address=str(port), key=key)
        ours = GetterTask("holdfast", setup.member.address, key, setup.job_key.hex())
        theirs_all = stack.enter_context(_getters(setup.client_core, redis))
        ours_all = stack.enter_context(_getters(setup.client_core, ours))
        rates = interleave({"redis": theirs_all.rate, "get": ours_all.rate})
    return ReportPart(
        [at_least(name, rates.ratio("get", "redis"), 2, "x its rate", against)],
        {"Redis GET of 100 KB, 8 clients": rates.middle("redis")},
    )


def _missing() -> str:
    if shutil.which("redis-server") is None:
        return "install Debian's redis-server (`scripts/packages bench`)"
    if find_spec("redis") is None:
        return "install the Python package redis (`pip install holdfast[bench]`)"
    return ""


@contextmanager
def _redis(core: int, directory: Path) -> Iterator[int]:
    """Run a Redis of our own that keeps nothing; gives its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    options = {"bind": "127.0.0.1", "port": str(port), "dir": str(directory), "save": ""}
    command = [
        *_DIES_WITH_US,
        "redis-server",
        *(word for k, v in options.items() for word in (f"--{k}", v)),
    ]
    with on_core(core):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        else:
            raise HoldfastError("redis-server did not answer within 4 s; is the machine very busy?")
        yield port
    finally:
        process.terminate()
        process.wait()


def _store(port: int, key: str, data: bytes) -> None:
    from redis import Redis  # noqa: PLC0415 - an optional package

    with Redis(port=port) as redis:
        redis.set(key, data)


class _Getters:
    """Processes that get one object over and over when they are told to."""

    def __init__(self, core: int, task: GetterTask) -> None:
        with on_core(core):
            self._processes = [
                subprocess.Popen(
                    _GETTER,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for _ in range(_CLIENTS)
            ]
        self._say(msgspec.json.encode(task).decode())
        self._hear()

    def _say(self, line: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _hear(self) -> list[float]:
        answers = []
        for process in self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise HoldfastError("a client process of the benchmark ended early")
            answers.append(float(line))
        return answers

    def rate(self) -> float:
        """Return the gets per second of all processes together."""
        self._say(str(_TURN))
        return sum(self._hear())

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@contextmanager
def _getters(core: int, task: GetterTask) -> Iterator[_Getters]:
    getters = _Getters(core, task)
    try:
        yield getters
    finally:
        getters.close()
