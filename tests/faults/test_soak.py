"""Random rounds of faults on six agents, while a client in a process of its own verifies."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.client.fault_points import OF_OBJECTS
from holdfast.launch import networks
from holdfast.launch.networks import Networks
from holdfast.testing.faults import Faults
from holdfast.testing.injector import inject

CLIENT = Path(__file__).with_name("verifying_client.py")
NODES = 6
#: Checks come after so many rounds.
EVERY = 10
#: Short, so that many rounds fit; long enough for six agents on two busy cores.
TIMERS = {"probe_period": "0.1 s", "partition_wait": "1 s", "deadline": "1 s", "avoid": "0.5 s"}


class Verifier:
    """The client's process."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CLIENT), str(directory), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def check(self) -> dict[str, int]:
        """Let it read all that was promised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has something to say, and is gone
            self._process.stdin.write("check\n")
        line = self._process.stdout.readline()
        assert line.startswith("{"), line or "the client died"
        counts: dict[str, int] = msgspec.json.decode(line)
        return counts

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def own_networks() -> Iterator[Networks | None]:
    """Networks to cut, where that is possible."""
    if networks.why_not():
        yield None
        return
    with Networks.make(NODES) as made:
        yield made


class Tally:
    """What happened in all rounds so far."""

    def __init__(self) -> None:
        self.rounds = 0
        self.steps: Counter[str] = Counter()
        self.stages: Counter[str] = Counter(dict.fromkeys(OF_OBJECTS, 0))
        self.armed: Counter[str] = Counter()
        self.client: dict[str, int] = {}

    def __str__(self) -> str:
        lines = [f"{self.rounds} rounds on {NODES} agents"]
        lines += [f"    {step}: {count}" for step, count in sorted(self.steps.items())]
        lines += ["faults by the stage in which they met an agent, of those that were armed"]
        lines += [f"    {one}: {count} of {self.armed[one]}" for one, count in self.stages.items()]
        lines += [f"client: {self.client}"]
        return "\n".join(lines)


def soak(seed: int, rounds: int, fire_within: str) -> Tally:
    """Run rounds of faults, and let the client check after every few."""
    tally = Tally()
    with (
        own_networks() as made,
        holdfast.local_cluster(
            nodes=NODES, networks=made, memory="1 GiB", disk="1 GiB", **TIMERS
        ) as cluster,
        contextlib.closing(Verifier(cluster.directory, seed)) as verifier,
    ):
        for start in range(0, rounds, EVERY):
            plan = Faults(seed + start).random(EVERY, NODES, cuts=made is not None)
            try:
                report = inject(plan, cluster, fire_within).run()
                tally.client = verifier.check()
            except Exception as error:
                raise AssertionError(f"after {tally}\n{plan}\n{error}") from error
            tally.rounds += EVERY
            tally.steps.update(one.fault.partition("(")[0] for one in report.outcomes)
            tally.stages.update({stage: report.stages[stage] for stage in OF_OBJECTS})
            tally.armed.update(one.stage for one in report.outcomes if one.stage)
    return tally


def test_twenty_rounds_break_no_promise() -> None:
    tally = soak(seed=258, rounds=20, fire_within="3 s")  # in which all stages are drawn
    assert tally.rounds >= 20
    assert all(tally.armed[stage] for stage in OF_OBJECTS)
    assert sum(tally.stages.values()) >= len(OF_OBJECTS), tally
    assert tally.client["whole"] > 0


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_a_thousand_rounds_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    tally = soak(seed=time.time_ns() % 1_000_000, rounds=1000, fire_within="10 s")
    with capsys.disabled():
        print(f"\n{tally}")
    assert tally.rounds >= 1000
    assert all(tally.stages.values()), f"a stage saw no fault\n{tally}"
