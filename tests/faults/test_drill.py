"""`holdfast drill` on a running session: it does what it says, and reports what it cost."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.commands import run
from support.requirements import needs_networks
from typer.testing import CliRunner

import holdfast
from holdfast import config, errors
from holdfast.cli.drill import DrillReport
from holdfast.cli.load_generator import Requests
from holdfast.cli.main import app
from holdfast.client.fault_points import STAGES
from holdfast.session import session as sessions
from holdfast.testing.fault_targets import FaultTargets
from holdfast.testing.faults import Faults
from holdfast.testing.injector import FaultOutcome


def drill(*arguments: str) -> DrillReport:
    report = run("drill", *arguments, "--json", within=100.0)
    return msgspec.json.decode(report, type=DrillReport)


@pytest.fixture
def session() -> Iterator[None]:
    timers = ("--set", "probe_period=0.1s")
    run("up", "--nodes", "4", "--memory", "256MiB", "--disk", "64MiB", *timers)
    yield
    run("down")


def condition(node: int) -> str:
    """How the agent of a node really is."""
    directory = sessions.directory(config.load().config)
    return FaultTargets(directory, lambda node: None, None).condition(node)


def test_an_agent_is_killed_and_restarted(session: None) -> None:
    with holdfast.connect() as job:
        job.objects.put("mine", b"bytes", copies=2)
        report = drill("kill", "1")
        assert condition(1) == "dead"
        assert [one.fault for one in report.faults] == ["kill(node=1)"]
        assert report.whole_after is not None
        assert report.requests.made > 0
        assert report.requests.wrong == report.requests.missing == 0
        assert drill("restart", "node-1").requests.missing == 0
        assert condition(1) == "running"
        assert job.objects.get("mine") == b"bytes"
        end = time.monotonic() + 20
        while job.objects.list("drill/"):  # who does not own a copy hears of the drop later
            assert time.monotonic() < end
            time.sleep(0.1)


def test_an_agent_is_stopped_in_the_middle_of_a_put_and_goes_on(session: None) -> None:
    report = drill("stop", "2", "--at", "put")
    assert report.faults[0].stage == "put"
    assert report.faults[0].happened is not None
    assert report.requests.missing == 0
    assert condition(2) == "stopped"
    said = run("drill", "stop", "2", code=2)
    assert "node 2 is stopped, not running; nothing was done" in said
    said = run("drill", "kill", "2", "--at", "get", code=2)
    assert "the agent of node 2 is stopped, so it reaches no stage" in said
    text = run("drill", "resume", "2")
    assert "resume(node=2)" in text
    assert "client requests failed" in text
    assert condition(2) == "running"


def test_what_never_happens_is_said(session: None) -> None:
    text = run("drill", "kill", "0", "--at", "trim", "--within", "0.2 s")
    assert "kill(node=0, at='trim'): it never struck" in text
    assert condition(0) == "running"


@needs_networks
def test_a_network_is_cut_and_healed() -> None:
    timers = ("--set", "probe_period=0.1s", "--set", "partition_wait=0.5s")
    run("up", "--nodes", "3", "--networks", "--memory", "256MiB", "--disk", "64MiB", *timers)
    try:
        report = drill("cut", "0", "1,2", "--within", "5 s")
        assert [one.fault for one in report.faults] == ["cut(first=(0,), second=(1, 2))"]
        assert report.agreed_after is not None  # on either side
        assert report.requests.wrong == 0
        assert drill("kill", "1").agreed_after is not None  # while the cut lasts
        healed = drill("heal")
        assert healed.whole_after is not None
        assert healed.requests.missing == 0
        drill("restart", "1")
        with holdfast.connect() as job:
            job.objects.put("key", b"bytes", copies=3)
            assert job.objects.get("key") == b"bytes"
    finally:
        run("down")


MISTAKES = [
    (("kill", "9"), 2, "there is no node 9; this session has 4"),
    (("kill", "x"), 2, "'x' is not a node; write it like 2 or node-2"),
    (("kill", "0", "--at", "puts"), 2, "there is no stage 'puts'"),
    (("stop", "0", "--at", "put", "--after", "0"), 2, "pass 1 or later"),
    (("resume", "0"), 2, "node 0 is running, not stopped; nothing was done"),
    (("restart", "0"), 2, "node 0 is running, not dead; nothing was done"),
    (("cut", "0", "1"), 2, "share one network, which cannot be cut; start them with"),
    (("cut", "0", "0,1"), 2, "one of them is on both sides"),
    (("heal",), 2, "share one network"),
    (("kill", "0", "--within", "soon"), 2, "soon"),
    (("kill", "0", "--session", "other"), 3, "no session 'other'"),
]


def test_mistakes_get_a_sentence(session: None) -> None:
    for arguments, exit_code, words in MISTAKES:
        result = CliRunner().invoke(app, ["drill", *arguments])
        assert isinstance(result.exception, errors.HoldfastError)
        assert result.exception.exit_code == exit_code
        assert words in str(result.exception)
    gc.collect()  # closes the connections that the tracebacks hold
    said = run("drill", *MISTAKES[0][0], code=2)
    assert said == f"holdfast: {MISTAKES[0][2]}\n"


def test_the_reference_names_all_stages_fields_and_steps() -> None:
    page = Path(__file__).parents[2] / "docs/reference/drill.md"
    cells = [
        line.split("|")[1].strip(" `") for line in page.read_text().splitlines() if "|" in line
    ]
    fields = [f"faults[].{name}" for name in FaultOutcome.__struct_fields__]
    fields += [f"requests.{name}" for name in Requests.__struct_fields__]
    fields += set(DrillReport.__struct_fields__) - {"faults", "requests"}
    assert {*STAGES, *fields} <= set(cells)
    steps = {name for name in vars(Faults) if not name.startswith("_")} - {"seed", "steps"}
    assert steps <= {cell.partition("(")[0] for cell in cells}
