"""The simulated cluster: some hundred seeds keep every promise, and planted bugs do not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from holdfast.simulation.planted import PLANTED
from holdfast.simulation.run import run
from holdfast.simulation.scenario import Scenario, draw

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
#: Half of all objects lie in groups of three.
TRIO = ("--key-space", "support.trio:TRIO")


def simulate(*options: str, hash_seed: str = "0") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.simulation", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**ENVIRONMENT, "PYTHONHASHSEED": hash_seed},
    )


def keep_their_promises(runs: Sequence[Sequence[str]]) -> list[str]:
    """Run some simulations side by side; what they print names the seed if one fails."""
    running = [simulate(*options) for options in runs]
    try:
        printed = [process.communicate(timeout=6000)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    for process, text in zip(running, printed, strict=True):
        assert process.returncode == 0, text
    return printed


#: Those among which each planted bug is found (`FROM`), and a few more; a soak has a thousand.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [400, pytest.param(1000, marks=pytest.mark.soak)])
def test_many_seeds(count: int) -> None:
    half = str(count // 2)
    keep_their_promises([("--seed", first, "--seeds", half) for first in ("0", half)])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [100, pytest.param(250, marks=pytest.mark.soak)])
def test_seeds_with_a_second_key_space(count: int) -> None:
    half = str(count // 2)
    keep_their_promises([("--seed", first, "--seeds", half, *TRIO) for first in ("0", half)])
    keep_their_promises([("--seed", str(count), "--seeds", "2", "--nodes", "16", *TRIO)])


def test_a_few_seeds_of_larger_clusters() -> None:
    keep_their_promises([("--seeds", "6", "--nodes", "16"), ("--seeds", "2", "--nodes", "32")])


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_seeds_never_tried_before() -> None:
    first = random.SystemRandom().randrange(10**9)
    keep_their_promises(
        [("--seed", str(first + part * 10**9), "--seeds", "20000") for part in range(2)]
    )


def test_a_seed_is_one_course_of_events() -> None:
    """Whatever order Python gives to sets of text, which differs from process to process."""
    once = [simulate("--seed", "7", "--seeds", "3", "--verbose", hash_seed=n) for n in "12"]
    printed = [process.communicate(timeout=100)[0].splitlines()[:-1] for process in once]
    assert len(printed[0]) > 200
    assert printed[0] == printed[1]
    traces = {run(draw(seed)).trace for seed in (1, 2, 3, 3, 3)}
    assert len(traces) == 3


#: Which promise a planted bug is seen to break first.
BREAKS = {
    "no-fence": "dropping is final",
    "any-list": "fencing",
    "unconfirmed-trim": "durable",
    "lost-tombstone": "dropping is final",
    "unmerged-tombstones": "dropping is final",
    "early-acknowledgement": "acknowledged",
    "no-limit": "capacity",
    "lost-loser": "nothing acknowledged is lost",
    "two-winners": "one winner",
    "evicts-objects": "eviction",
    "no-ghosts": "files come to rest",
    "denies-losses": "finding",
    "first-writer-decides": "one number of copies",
    "same-header": "written once",
    "fewer-for-ever": "copies",
    "not-away": "refresh",
    "unequal-copies": "one number of copies",
    "no-restoring": "exactly r copies",
    "no-tables": "equal placement",
    "no-delay": "delay",
    "chatter": "messages",
    "one-answer": "dropping is final",
}


#: Where one is seen to break that first; both sides of a cut seldom put other bytes under one key,
#: or change a file that the other knows.
FROM = {"no-fence": 26, "same-header": 6, "lost-loser": 80, "two-winners": 80, "not-away": 250}
#: What these do wrong concerns other keys than those of the ring.
WITH = {"any-list": TRIO, "no-tables": TRIO, "no-delay": TRIO}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str) -> None:
    process = simulate(
        "--seed", str(FROM.get(bug, 0)), "--seeds", "250", "--plant", bug, *WITH.get(bug, ())
    )
    printed, _ = process.communicate(timeout=100)
    assert process.returncode == 1, f"{bug} was not found: {printed}"
    broken, replay = printed.splitlines()[-2:]
    assert broken.startswith(f"broken: {BREAKS[bug]}: ")
    again = subprocess.run(
        [sys.executable, *replay.split()[1:]],
        capture_output=True,
        text=True,
        timeout=100,
        env=ENVIRONMENT,
    )
    assert again.returncode == 1
    assert again.stdout == printed


class Impatient(Scenario, frozen=True):
    """A cluster that is promised to be faster than messages are."""

    @property
    def deadlines(self) -> dict[str, float]:
        return dict.fromkeys(("get", "put", "drop"), 0.0001)


def test_a_call_that_takes_too_long_is_found() -> None:
    scenario = draw(1)
    assert not run(scenario).violation
    outcome = run(Impatient(**msgspec.structs.asdict(scenario)))
    assert outcome.violation.startswith("deadlines: ")


def test_bad_options_are_refused_in_a_sentence() -> None:
    process = simulate("--nodes", "2")
    printed, _ = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "at least 3 nodes" in printed
    assert "Traceback" not in printed
    process = simulate("--key-space", "support.trio:NONE")
    printed, _ = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "cannot find the key space 'support.trio:NONE'" in printed
