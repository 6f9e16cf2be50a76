"""One seed from beginning to end: trouble, healing, quiet."""

from __future__ import annotations

import traceback

import msgspec

from ..membership.key_spaces import KeySpace
from . import quiet
from .agents import Agent
from .cluster import Cluster
from .epilogue import Epilogue
from .faults import RandomFaults
from .history import Violation
from .scenario import Scenario
from .workload import Workload

#: Within this time after the last fault a cluster must be quiet, in seconds (or periods).
QUIET_WITHIN = 200.0
#: It is looked at every so often.
_LOOK = 4.0


class SimulationOutcome(msgspec.Struct, frozen=True):
    """What a run came to."""

    trace: str  # a hash of all that happened
    violation: str  # empty if there was none
    calls: int
    seconds: float  # simulated


def run(
    scenario: Scenario, agent: type[Agent] = Agent, key_spaces: tuple[KeySpace, ...] = ()
) -> SimulationOutcome:
    """Simulate a scenario; about half of its objects lie in the key spaces, if there are any."""
    cluster = Cluster(scenario, agent, key_spaces)
    violation = ""
    try:
        _run(cluster)
    except Violation as broken:
        violation = str(broken)
        cluster.note("violation", violation)
    except Exception:  # whatever it is, the seed that shows it must be known
        violation = f"no crash: {traceback.format_exc()}"
    return SimulationOutcome(cluster.trace(), violation, len(cluster.calls), cluster.wire.now)


def _run(cluster: Cluster) -> None:
    workload, faults = Workload(cluster), RandomFaults(cluster)
    wire = cluster.wire
    wire.run(cluster.scenario.length)
    workload.stop()
    faults.end()
    end = wire.now + QUIET_WITHIN
    wrong = "never quiet"
    while wrong:
        if wire.now >= end:
            raise Violation(wrong)
        wire.run(wire.now + _LOOK)
        wrong = "deadlines: calls never end" if workload.running else quiet.complaint(cluster)
    if wrong := quiet.too_many_messages(cluster):
        raise Violation(wrong)
    epilogue = Epilogue(cluster, workload.record, workload.files)
    while epilogue.running:
        wire.run(wire.now + _LOOK)
