"""Does what a plan of faults says to the agents of a session, and keeps the report."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

import msgspec

from ..client.fault_points import STAGES
from ..errors import BadInput, HoldfastError, TryAgain
from ..launch.networks import Networks
from ..launch.relay import Relay
from ..units import parse_time
from .fault_targets import FaultTargets
from .faults import (
    Cut,
    Delay,
    Fault,
    Faults,
    Heal,
    Kill,
    Lose,
    Restart,
    Resume,
    Settle,
    Stop,
    Wait,
    in_code,
)
from .local_agents import LocalAgents

_LOOK_EVERY = 0.002
_SETTLE_EVERY = 0.05


class FaultOutcome(msgspec.Struct):
    """What came of one step of a plan; times are seconds since its start."""

    fault: str
    begun: float  # applied, or armed
    happened: float | None  # None: the agent never got to that stage
    stage: str = ""


class InjectionReport(msgspec.Struct):
    """What came of a plan."""

    plan: str
    outcomes: list[FaultOutcome] = []

    @property
    def stages(self) -> dict[str, int]:
        """How many faults went off at each stage."""
        hits = [one.stage for one in self.outcomes if one.happened is not None]
        return {stage: hits.count(stage) for stage in STAGES}

    @property
    def missed(self) -> list[str]:
        """The faults that never went off."""
        return [one.fault for one in self.outcomes if one.happened is None]


def inject(
    faults: Faults,
    cluster: LocalAgents,
    fire_within: str | float = "10 s",
    settle_within: str | float = "60 s",
) -> Injection:
    """Do what a plan says to a local cluster, during a `with` block.

    ::

        with inject(Faults().kill(node=2, at="put").restart(node=2), cluster) as report:
            job.objects.put("key", data)
        assert report.stages["put"] == 1

    `fire_within` is how long to wait for an armed fault to go off.
    """
    targets = FaultTargets(cluster.directory, cluster.restart, cluster.networks)
    return Injection(faults, targets, parse_time(fire_within), parse_time(settle_within))


class Injection:
    """A plan being done by a thread during a `with` block, which waits for its end.

    The block begins when all is armed that the plan arms before it first has to wait.
    """

    def __init__(
        self,
        faults: Faults,
        targets: FaultTargets,
        fire_within: float,
        settle_within: float = 60.0,
    ) -> None:
        self.report = InjectionReport(str(faults))
        self._steps = faults.steps
        self._targets = targets
        self._fire_within = fire_within
        self._settle_within = settle_within
        self._armed: dict[int, tuple[Kill | Stop, FaultOutcome]] = {}  # by node
        self._relays: dict[int, Relay] = {}
        #: From, to; an earlier plan may have left some.
        self.cuts = targets.networks.cuts() if targets.networks else set()
        self._under_way = threading.Event()
        self._given_up = threading.Event()
        self._error: BaseException | None = None
        self._start = 0.0
        self._thread = threading.Thread(target=self._run, name="faults")

    def __enter__(self) -> InjectionReport:
        self._start = time.monotonic()
        self._thread.start()
        self._under_way.wait()
        return self.report

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._given_up.set()
        self._thread.join()
        self._targets.close()
        if self._error is not None and kind is None:
            raise self._error

    def run(self) -> InjectionReport:
        """Do the plan with nothing beside it."""
        with self:
            pass
        return self.report

    def _run(self) -> None:
        try:
            for step in self._steps:
                self._do(step)
            self._await(list(self._armed))
        except BaseException as error:  # the thread of the `with` block raises it
            self._error = error
        finally:
            self._under_way.set()
            for node, relay in self._relays.items():
                with contextlib.suppress(HoldfastError):
                    self._networks().undelay(node, relay)

    def _do(self, step: Fault) -> None:
        if isinstance(step, Kill | Stop | Resume | Restart):
            self._await([step.node])
        outcome = FaultOutcome(in_code(step), self._now(), None)
        self.report.outcomes.append(outcome)
        if isinstance(step, Kill | Stop) and step.at:
            action = "kill" if isinstance(step, Kill) else "stop"
            self._targets.arm(step.node, step.at, action, step.after)
            outcome.stage = step.at
            self._armed[step.node] = (step, outcome)
            return
        if isinstance(step, Cut | Lose | Delay | Heal):
            self._to_networks(self._networks(), step)
        else:
            self._to_agents(self._targets, step)
        outcome.happened = self._now()

    def _to_agents(
        self, targets: FaultTargets, step: Kill | Stop | Resume | Restart | Wait | Settle
    ) -> None:
        match step:
            case Kill(node):
                targets.kill(node)
            case Stop(node):
                targets.stop(node)
            case Resume(node):
                if targets.condition(node) == "stopped":
                    targets.resume(node)
            case Restart(node):
                if targets.condition(node) == "dead":
                    targets.restart(node)
            case Wait(seconds):
                self._sleep(seconds)
            case Settle():
                self._settle()

    def _to_networks(self, networks: Networks, step: Cut | Lose | Delay | Heal) -> None:
        match step:
            case Cut(first, second, one_way):
                pairs = set(itertools.product(first, second))
                for a, b in pairs if one_way else pairs | {(b, a) for a, b in pairs}:
                    networks.cut(a, b)
                    self.cuts.add((a, b))
            case Lose(a, b, share):
                networks.lose(a, b, share)
                networks.lose(b, a, share)
            case Delay(node, seconds):
                self._relays[node] = networks.delay(node, seconds)
            case Heal():
                networks.heal()
                self.cuts.clear()
                while self._relays:
                    node, relay = self._relays.popitem()
                    networks.undelay(node, relay)

    def _networks(self) -> Networks:
        if self._targets.networks is None:
            raise BadInput(
                "these agents share one network, which cannot be cut; start them with "
                "`holdfast up --networks`, or local_cluster(networks=...), as root"
            )
        return self._targets.networks

    def _settle(self) -> None:
        end = time.monotonic() + self._settle_within
        while trouble := self._targets.unsettled(self.cuts):
            if time.monotonic() > end or self._given_up.is_set():
                raise TryAgain(f"the agents did not settle in {self._settle_within:g} s: {trouble}")
            self._sleep(_SETTLE_EVERY)

    def _await(self, nodes: list[int]) -> None:
        """Wait for what was armed on these nodes; what does not happen is disarmed."""
        end = time.monotonic() + self._fire_within
        while any(node in self._armed for node in nodes):
            self._under_way.set()
            self._look()
            if time.monotonic() > end or self._given_up.is_set():
                self._disarm([node for node in nodes if node in self._armed])
                return
            time.sleep(_LOOK_EVERY)

    def _look(self) -> None:
        """Note which armed faults have gone off."""
        for node, (step, outcome) in list(self._armed.items()):
            wanted = "dead" if isinstance(step, Kill) else "stopped"
            if self._targets.condition(node) == wanted:
                outcome.happened = self._now()
                del self._armed[node]

    def _disarm(self, nodes: list[int]) -> None:
        for node in nodes:
            self._targets.disarm(node, self._armed[node][0].at)
        self._look()
        for node in nodes:
            self._armed.pop(node, None)

    def _sleep(self, seconds: float) -> None:
        self._under_way.set()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._given_up.is_set():
            self._look()
            time.sleep(min(_LOOK_EVERY, max(0.0, end - time.monotonic())))

    def _now(self) -> float:
        return round(time.monotonic() - self._start, 4)
