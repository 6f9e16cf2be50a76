"""Random rounds of faults for soaks, drawn from the seed of a plan.

Each round breaks something, mends it and lets the cluster settle. At most one agent loses its
memory in a round, so that every object with two copies must survive (rule 6 of the design);
stopped agents and cuts come on top of that.
"""

from __future__ import annotations

import random

from ..errors import BadInput
from .arming import OF_OBJECTS
from .faults import Faults

#: An agent fetches lost copies only while another one is missing, and removes superfluous ones
#: only when it has come back.
_WHILE_ANOTHER_IS_AWAY = ("pull", "restore")
_WHEN_ANOTHER_RETURNS = ("trim",)


def draw(plan: Faults, rounds: int, nodes: int, cuts: bool) -> Faults:
    """Return the plan with so many rounds added."""
    if nodes < 3:
        raise BadInput(f"random faults on {nodes} nodes; they need 3, or nobody is left to heal")
    rng = random.Random(plan.seed)
    for _ in range(rounds):
        kind = rng.choice(["crash", "freeze", "stage", "stage", "stage", *(["cut"] * cuts)])
        if kind == "stage":
            plan = _at_stage(plan, rng, nodes, cuts)
        elif kind == "cut":
            plan = _cut(plan, rng, nodes)
        else:
            victim = rng.randrange(nodes)
            pause = rng.uniform(0.1, 2.0)
            if kind == "crash":
                plan = plan.kill(victim).wait(pause).restart(victim)
            else:
                plan = plan.stop(victim).wait(pause).resume(victim)
        plan = plan.settle()
    return plan


def _cut(plan: Faults, rng: random.Random, nodes: int) -> Faults:
    order = rng.sample(range(nodes), nodes)
    edge = rng.randrange(1, nodes)
    plan = plan.cut(tuple(order[:edge]), tuple(order[edge:]), one_way=rng.random() < 0.3)
    return plan.wait(rng.uniform(0.1, 2.0)).heal()


def _at_stage(plan: Faults, rng: random.Random, nodes: int, cuts: bool) -> Faults:
    stage = rng.choice(OF_OBJECTS)
    victim, other = rng.sample(range(nodes), 2)
    kills, by_cut = rng.random() < 0.5, cuts and rng.random() < 0.3
    after = rng.choice([1, 1, 1, 2, 3])

    def hurt(so_far: Faults) -> Faults:
        return (so_far.kill if kills else so_far.stop)(victim, at=stage, after=after)

    def mend(so_far: Faults) -> Faults:
        return (so_far.restart if kills else so_far.resume)(victim)

    if stage in _WHEN_ANOTHER_RETURNS:
        return mend(hurt(plan.stop(other).settle()).resume(other))
    if stage not in _WHILE_ANOTHER_IS_AWAY:
        return mend(hurt(plan))
    if by_cut:
        rest = tuple(node for node in range(nodes) if node != other)
        return mend(hurt(plan).cut(other, rest)).heal()
    return mend(hurt(plan).stop(other)).resume(other)
