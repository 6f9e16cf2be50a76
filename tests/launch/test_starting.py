"""What is heard of agents that do not start, through a launcher that has its own words for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.cluster import launch, starting
from holdfast.cluster.session import Session
from holdfast.cluster.settings import Orders
from holdfast.cluster.starting import Starter, collect
from holdfast.config import load
from holdfast.membership.view import Member


def complaints(said: str) -> dict[str, str]:
    """What a launcher says of tasks that ended, and the last line that is not its own."""
    last = starting.telling([line for line in said.splitlines() if "launcher:" not in line])
    return dict.fromkeys(re.findall(r"launcher: (\w+) exited", said), f"exited; {last}")


@pytest.mark.parametrize("end", ["exec sleep 60", "exit 1"])
def test_the_last_lines_of_an_agent_are_waited_for(tmp_path: Path, end: str) -> None:
    script = f"echo launcher: one exited >&2; sleep 0.2; echo error: no room >&2; {end}"
    orders = Orders(Session("test", 0.0, 1, 1, 0.0, "test"), "00", load().config)
    log = tmp_path / "log"
    starter = Starter(["one"], ["bash", "-c", script], orders, log, None, complaints)
    try:
        outcome = collect([starter], 30)
    finally:
        starter.discard()
    assert not outcome.ready
    assert outcome.failed["one"].error == "exited; error: no room"


def test_who_says_nothing_is_late(tmp_path: Path) -> None:
    orders = Orders(Session("test", 0.0, 1, 1, 0.0, "test"), "00", load().config)
    starter = Starter(["one"], ["sleep", "60"], orders, tmp_path / "log")
    try:
        outcome = collect([starter], 0.5)
    finally:
        starter.discard()
    assert "it was not ready within 0.5 s" in outcome.failed["one"].error


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100, 1000])
def test_a_few_seeds_lead_to_any_number_of_agents(count: int) -> None:
    members = [Member(f"n{i}", i, 0, f"tcp:10.0.0.1:{i}", "", 1) for i in range(count)]
    found = launch.seeds(members)
    assert min(count, 5) <= len(found) <= 8
    assert set(found) <= {member.address for member in members}
    assert found[0] == members[0].address
