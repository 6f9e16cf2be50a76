"""Plans of faults: they read aloud, come from a seed, and mistakes in them are said."""

from __future__ import annotations

import re

import msgspec
import pytest

import holdfast
from holdfast import _core, errors
from holdfast.client.fault_points import OF_OBJECTS, STAGES, FaultPoint, arm
from holdfast.testing.faults import Cut, Faults, Heal, Kill, Restart, Resume, Settle, Stop
from holdfast.testing.injector import inject


def test_a_plan_reads_aloud_and_can_be_read_back() -> None:
    plan = (
        Faults(7)
        .kill(node=2, at="put")
        .stop(node=1, at="chain", after=3)
        .cut(0, (1, 2), one_way=True)
        .lose(0, 1, 0.1)
        .delay(1, "50 ms")
        .wait("2 s")
        .heal()
        .settle()
        .restart(node=2)
        .resume(node=1)
    )
    assert str(plan) == (
        "Faults(7).kill(node=2, at='put').stop(node=1, at='chain', after=3)"
        ".cut(first=(0,), second=(1, 2), one_way=True).lose(first=0, second=1, share=0.1)"
        ".delay(node=1, by=0.05).wait(time=2.0).heal().settle().restart(node=2)"
        ".resume(node=1)"
    )
    assert eval(str(plan), {"Faults": Faults}) == plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Faults) == plan


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Faults().kill(0, at="puts"), "no stage 'puts'; the stages are put, chain"),
        (lambda: Faults().stop(0, at="put", after=0), "pass 1 or later"),
        (lambda: Faults().cut((0, 1), (1, 2)), "one of them is on both sides"),
        (lambda: Faults().cut((), 1), "name at least one on each side"),
        (lambda: Faults().lose(0, 1, 1.0), "between 0 and 1"),
        (lambda: Faults().wait("soon"), "soon"),
        (lambda: Faults().random(rounds=1, nodes=2), "use at least 3"),
    ],
)
def test_mistakes_in_a_plan_are_said(make: object, words: str) -> None:
    with pytest.raises(errors.BadInput, match=re.escape(words)):
        make()  # type: ignore[operator]


def test_random_rounds_come_from_the_seed_and_mend_what_they_break() -> None:
    assert Faults(1).random(100, 6) == Faults(1).random(100, 6)
    assert Faults(1).random(100, 6) != Faults(2).random(100, 6)
    plan = Faults(3).random(rounds=1000, nodes=6)
    assert sum(isinstance(step, Settle) for step in plan.steps) >= 1000
    dead: set[int] = set()
    stopped: set[int] = set()
    cut = False
    for step in plan.steps:
        if isinstance(step, Kill):
            assert not dead, "two agents lose their memory in one round"
            dead.add(step.node)
        elif isinstance(step, Stop):
            assert step.node not in dead | stopped
            stopped.add(step.node)
        elif isinstance(step, Restart):
            dead.remove(step.node)
        elif isinstance(step, Resume):
            stopped.remove(step.node)
        elif isinstance(step, Cut | Heal):
            cut = isinstance(step, Cut)
        elif isinstance(step, Settle):
            assert not dead
            assert not cut
            assert len(stopped) <= 1  # another agent is away, so that it is missed
    assert not dead | stopped
    kills = {step.at for step in plan.steps if isinstance(step, Kill)}
    stops = {step.at for step in plan.steps if isinstance(step, Stop)}
    assert kills == stops == {"", *OF_OBJECTS}
    assert not any(isinstance(step, Cut) for step in Faults(3).random(100, 6, cuts=False).steps)


def test_the_stages_are_those_of_the_core(job: holdfast.Job) -> None:
    client, socket = job._connection.client, job._connection.routing.live[0].socket
    for stage in STAGES:
        arm(client, socket, FaultPoint(stage, "nothing"), deadline=5.0)
    with pytest.raises(errors.BadInput, match=f"the stages are {', '.join(STAGES)}$"):
        arm(client, socket, FaultPoint("puts", "kill"), deadline=5.0)
    with pytest.raises(errors.BadInput, match="the actions are kill, stop and nothing"):
        arm(client, socket, FaultPoint("put", "hurt"), deadline=5.0)
    with pytest.raises(errors.BadInput, match=r"cannot decode the message to agent\.arm"):
        client.call(socket, "agent", "arm", b"\xc1", deadline=5.0)
    with pytest.raises(errors.BadInput, match="no method 'disarm'"):
        client.call(socket, "agent", "disarm", b"", deadline=5.0)


def test_only_who_holds_the_job_key_may_arm(cluster: holdfast.LocalCluster) -> None:
    stranger = _core.AgentClient(bytes(32))
    address = cluster.nodes[1].member.address
    with pytest.raises(errors.Refused):
        arm(stranger, address, FaultPoint("put", "kill"), deadline=5.0)
    assert cluster.nodes[1].alive


def test_plain_steps_do_what_they_say(cluster: holdfast.LocalCluster, job: holdfast.Job) -> None:
    before = [node.pid for node in cluster.nodes]
    job.objects.put("key", b"bytes", copies=3)
    report = inject(Faults().kill(1).stop(2).wait("50 ms").resume(2).restart(1), cluster).run()
    assert [one.fault.split("(")[0] for one in report.outcomes] == [
        "kill", "stop", "wait", "resume", "restart",
    ]  # fmt: skip
    assert all(one.happened is not None for one in report.outcomes)
    times = [one.begun for one in report.outcomes]
    assert times == sorted(times)
    after = [node.pid for node in cluster.nodes]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True]
    assert job.objects.get("key") == b"bytes"


def test_a_plan_that_cannot_be_done_says_why(cluster: holdfast.LocalCluster) -> None:
    with pytest.raises(errors.BadInput, match="there is no node 4; this session has 4"):
        inject(Faults().kill(4), cluster).run()
    with pytest.raises(errors.BadInput, match="share one network, which cannot be cut"):
        inject(Faults().cut(0, 1), cluster).run()
    with pytest.raises(errors.BadInput, match="the agent of node 3 is dead; restart it first"):
        inject(Faults().kill(3).stop(3), cluster).run()
    cluster.restart(3)


def test_an_error_of_the_block_wins_and_ends_the_plan(cluster: holdfast.LocalCluster) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        inject(Faults().stop(1, at="trim").resume(1).wait(60), cluster, fire_within=60),
    ):
        raise ZeroDivisionError
