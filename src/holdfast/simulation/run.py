"""One seed from beginning to end: trouble, healing, quiet, and the checks of a quiet cluster."""

from __future__ import annotations

import msgspec

from ..errors import Dropped, Unavailable
from ..placement.ring import Ring
from .agents import Agent
from .cluster import Cluster
from .faults import Faults
from .history import Call, Record, Violation
from .scenario import Scenario
from .workload import Workload

#: Within this time after the last fault a cluster must be quiet, in seconds (or periods).
QUIET_WITHIN = 200.0
_LOOK = 4.0
#: Messages of one member in one period: a probe and its answer, and a little more.
MESSAGES = 5.0


class Outcome(msgspec.Struct, frozen=True):
    """What a run came to."""

    trace: str  # a hash of all that happened
    violation: str  # empty if there was none
    calls: int
    seconds: float  # simulated


def run(scenario: Scenario, agent: type[Agent] = Agent) -> Outcome:
    """Simulate a scenario."""
    simulation = Simulation(scenario, agent)
    violation = ""
    try:
        simulation.run()
    except Violation as broken:
        violation = str(broken)
        simulation.cluster.note("violation", violation)
    cluster = simulation.cluster
    return Outcome(cluster.trace(), violation, len(cluster.calls), cluster.wire.now)


class Simulation:
    """A cluster with its workload and its faults."""

    def __init__(self, scenario: Scenario, agent: type[Agent]) -> None:
        self.cluster = Cluster(scenario, agent)
        self._workload = Workload(self.cluster)
        self._faults = Faults(self.cluster)

    def run(self) -> None:
        """Trouble, healing, quiet."""
        wire = self.cluster.wire
        wire.run(self.cluster.scenario.length)
        self._workload.stop()
        self._faults.end()
        self._settle()
        self._messages()
        self._read_all()

    def _settle(self) -> None:
        wire = self.cluster.wire
        end = wire.now + QUIET_WITHIN
        while True:
            wire.run(wire.now + _LOOK)
            complaint = self._complaint()
            if not complaint:
                return
            if wire.now >= end:
                raise Violation(complaint)

    def _complaint(self) -> str:
        """Say what is not as it must be in a quiet cluster."""
        if self._workload.running:
            return f"deadlines: {self._workload.running} calls never end"
        agents = self.cluster.agents
        running = {agent.member.number for agent in agents.values()}
        for node, agent in agents.items():
            known = {member.number for member in agent.swim.view.live()}
            if known != running:
                return f"views converge: {node} sees {len(known)}, but {len(running)} live"
            held = sum(stored.held.size for stored in agent.store.objects.values())
            if held != agent.store.used:
                return f"capacity: {node} holds {held} bytes and counts {agent.store.used}"
        ring = Ring(agents, self.cluster.scenario.virtual_nodes)
        for record in self.cluster.checkers.records.values():
            owners = ring.owners(record.key, record.copies)
            for node, agent in agents.items():
                assert agent.owners is not None
                placed = [m.node for m in agent.owners.of(record.key, record.copies)]
                if placed != owners:
                    return f"equal placement: {node} has {record.key!r} at {placed}, not {owners}"
            if complaint := self._copies(record, owners):
                return complaint
        return ""

    def _copies(self, record: Record, owners: list[str]) -> str:
        agents = self.cluster.agents
        key = record.key.decode()
        holding = sorted(
            node for node, agent in agents.items() if agent.member.number in record.holders
        )
        if record.drop_acknowledged is not None and not record.forgotten:
            return f"dropping is final: {key} is on {holding}" if holding else ""
        if record.contested:
            gone = not holding and record.safe
            return f"durable: {key} is on no node" if gone else ""
        if not holding:
            return f"durable: {key} is on no node" if record.safe else ""
        lacking = [node for node in owners if node not in holding]
        full = [
            node
            for node in lacking
            if agents[node].store.used + record.size > agents[node].store.capacity
        ]
        if full:
            return ""
        if holding != sorted(owners):
            return f"exactly r copies: {key} is on {holding}, its owners are {owners}"
        return ""

    def _messages(self) -> None:
        """Count what a quiet cluster says."""
        wire, agents = self.cluster.wire, self.cluster.agents
        if any(agent.restorer.status(wire.now).unequal for agent in agents.values()):
            return  # two versions of a key, or a full store
        before = wire.sent
        wire.run(wire.now + 2 * _LOOK)
        rate = (wire.sent - before) / (2 * _LOOK * len(agents))
        if rate > MESSAGES:
            raise Violation(f"messages: {rate:.1f} per member and period")

    def _read_all(self) -> None:
        """Read every key once more, each through some client."""
        cluster, rng = self.cluster, self.cluster.rng
        for record in list(cluster.checkers.records.values()):
            cluster.get(rng.choice(cluster.clients), record, self._read)
        wire = cluster.wire
        wire.run(wire.now + cluster.scenario.deadlines["get"])
        open_calls = [call for call in cluster.calls if call.ended is None]
        if open_calls:
            raise Violation(f"deadlines: {open_calls[0]} never ends")

    def _read(self, call: Call) -> None:
        record = self.cluster.checkers.records[call.key]
        if record.drop_acknowledged is not None and not record.forgotten:
            if not isinstance(call.error, Dropped):
                raise Violation(f"dropping is final: {call}")
        elif record.safe and call.result is None:
            raise Violation(f"durable: {call}, in a quiet cluster")
        elif record.lost and not record.rotted and not isinstance(call.error, Dropped | Unavailable):
            if call.result is None:
                raise Violation(f"finding: {call}, whose holders died")
