"""A plan of faults that reads aloud.

::

    Faults().kill(node=2, at="put").stop(node=1, at="chain", after=3).restart(node=2).resume(node=1)

A plan only describes; `injector.inject` does what it says. The steps are done in order:

- a fault `at` a stage is armed, and goes off when the agent gets there, while the next steps run;
- `restart` and `resume` wait for what was armed on their node, and disarm it if it never happens;
  so does the next fault of that node, and the end of the plan.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import msgspec

from ..client.fault_points import OF_OBJECTS, STAGES
from ..errors import BadInput
from ..units import parse_time

if TYPE_CHECKING:
    from typing_extensions import Self

#: An agent fetches lost copies only while another one is missing, and removes superfluous ones
#: only when it has come back.
_WHILE_ANOTHER_IS_AWAY = ("pull", "restore")
_WHEN_ANOTHER_RETURNS = ("trim",)


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """The agent ends as in a crash (SIGKILL), now or the `after`-th time it is `at` a stage."""

    node: int
    at: str = ""
    after: int = 1


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """The agent lives and does nothing (SIGSTOP), now or at a stage."""

    node: int
    at: str = ""
    after: int = 1


class Resume(msgspec.Struct, frozen=True, tag="resume"):
    """A stopped agent goes on."""

    node: int


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """A new agent takes the place of a dead one; it is empty."""

    node: int


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """No packet gets from the first nodes to the second ones, nor back unless `one_way`."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    one_way: bool = False


class Lose(msgspec.Struct, frozen=True, tag="lose"):
    """A share of the packets between two nodes is lost, in both directions."""

    first: int
    second: int
    share: float


class Delay(msgspec.Struct, frozen=True, tag="delay"):
    """Every packet to and from a node takes longer, by this many seconds."""

    node: int
    by: float


class Heal(msgspec.Struct, frozen=True, tag="heal"):
    """All cuts, losses and delays end."""


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Nothing happens for a while, in seconds."""

    time: float


class Settle(msgspec.Struct, frozen=True, tag="settle"):
    """Go on when all agents that run agree who lives, and nothing is left to restore."""


Fault = Kill | Stop | Resume | Restart | Cut | Lose | Delay | Heal | Wait | Settle


class Faults(msgspec.Struct, frozen=True):
    """A plan; each method returns a longer one. The seed is for `random`."""

    seed: int = 0
    steps: tuple[Fault, ...] = ()

    def kill(self, node: int, at: str = "", after: int = 1) -> Self:
        """End an agent as in a crash."""
        return self._then(Kill(node, _stage(at), _count(after)))

    def stop(self, node: int, at: str = "", after: int = 1) -> Self:
        """Stop an agent: it lives and answers nothing."""
        return self._then(Stop(node, _stage(at), _count(after)))

    def resume(self, node: int) -> Self:
        """Let a stopped agent go on."""
        return self._then(Resume(node))

    def restart(self, node: int) -> Self:
        """Start a new agent in the place of a dead one."""
        return self._then(Restart(node))

    def cut(
        self, first: int | tuple[int, ...], second: int | tuple[int, ...], one_way: bool = False
    ) -> Self:
        """Let nothing through between some nodes and others."""
        a, b = _group(first), _group(second)
        if set(a) & set(b):
            raise BadInput(f"cannot cut nodes {a} off from {b}: one of them is on both sides")
        return self._then(Cut(a, b, one_way))

    def lose(self, first: int, second: int, share: float) -> Self:
        """Lose a share of the packets between two nodes, e.g. 0.1."""
        if not 0 < share < 1:
            raise BadInput(
                f"cannot lose a share of {share!r}; use one between 0 and 1, or cut the line"
            )
        return self._then(Lose(first, second, share))

    def delay(self, node: int, by: str | float) -> Self:
        """Slow down every packet to and from a node, e.g. by "50 ms"."""
        return self._then(Delay(node, parse_time(by)))

    def heal(self) -> Self:
        """End all cuts, losses and delays."""
        return self._then(Heal())

    def wait(self, time: str | float) -> Self:
        """Do nothing for a while, e.g. "2 s"."""
        return self._then(Wait(parse_time(time)))

    def settle(self) -> Self:
        """Wait until the agents agree who lives, and nothing is left to restore."""
        return self._then(Settle())

    def random(self, rounds: int, nodes: int, cuts: bool = True) -> Self:
        """Add rounds of random faults, each of which mends what it breaks."""
        return cast("Self", _draw(self, rounds, nodes, cuts))

    def _then(self, fault: Fault) -> Self:
        return msgspec.structs.replace(self, steps=(*self.steps, fault))

    def __str__(self) -> str:
        return f"Faults({self.seed})" + "".join(f".{in_code(step)}" for step in self.steps)


def in_code(fault: Fault) -> str:
    """Return a fault as it is written in a plan."""
    given = [
        f"{field.name}={value!r}"
        for field in msgspec.structs.fields(fault)
        if (value := getattr(fault, field.name)) != field.default
    ]
    return f"{fault.__struct_config__.tag}({', '.join(given)})"


def _group(nodes: int | tuple[int, ...]) -> tuple[int, ...]:
    group = (nodes,) if isinstance(nodes, int) else tuple(nodes)
    if not group:
        raise BadInput("a cut is between nodes; name at least one on each side")
    return group


def _stage(name: str) -> str:
    if name and name not in STAGES:
        raise BadInput(f"there is no stage {name!r}; the stages are {', '.join(STAGES)}")
    return name


def _count(after: int) -> int:
    if not isinstance(after, int) or after < 1:
        raise BadInput(f"after={after!r}: a fault strikes at pass 1 or later")
    return after


def _draw(plan: Faults, rounds: int, nodes: int, cuts: bool) -> Faults:
    """Return the plan with rounds added.

    Each round breaks something, mends it and lets the cluster settle. At most one agent loses its
    memory in a round, so that every object with two copies must survive (rule 6); stopped agents
    and cuts come on top of that.
    """
    if nodes < 3:
        raise BadInput(f"random faults on {nodes} nodes; use at least 3, or none is left to heal")
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
