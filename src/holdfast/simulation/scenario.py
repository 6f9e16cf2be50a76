"""What kind of cluster and what kind of trouble a seed stands for."""

from __future__ import annotations

from random import Random

import msgspec

#: Kinds of faults; a seed has some of them.
FAULTS = ("kill", "restart", "leave", "join", "pause", "stick", "cut", "part", "rot")


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run; times in seconds, of which one is a period of membership."""

    seed: int
    nodes: int
    spares: int  # of the nodes, the last
    clients: int
    threads: int  # of each client
    length: float  # until everything is mended
    delay: tuple[float, float]
    loss: float
    duplication: float
    capacity: int  # of each store
    restore_rate: float
    same_address: bool  # who is restarted has the address of the one before
    faults: tuple[str, ...]  # in the order in which they strike
    files: int = 0  # that clients read
    staging: int = 0  # of the nodes, before the spares
    verbose: bool = False
    virtual_nodes: int = 8
    deadline: float = 4.0
    put_retry_for: float = 20.0

    @property
    def slow(self) -> bool:
        """Whether messages may take longer than a probe waits."""
        return 2 * self.delay[1] > 0.5

    @property
    def deadlines(self) -> dict[str, float]:
        """How long a call may take: every member may be silent, and views may change twice."""
        search = 3 * self.nodes * (2 * self.deadline + 1)
        change = self.put_retry_for + (self.nodes + 3) * self.deadline
        return {
            "get": search,
            "put": change,
            "drop": search + change,
            "drop up to": search + change,
            "read": search,
            "refresh": search,
        }


def draw(seed: int, nodes: int = 0, verbose: bool = False) -> Scenario:
    """Draw a scenario; `nodes` are 3 to 7 if they are not given."""
    rng = Random(seed)
    drawn = rng.randint(3, 7)
    kinds = rng.sample(FAULTS, rng.randint(1, 4))
    return Scenario(
        seed=seed,
        nodes=nodes or drawn,
        spares=int(rng.random() < 0.15),
        clients=rng.randint(2, 3),
        threads=rng.choice((1, 1, 2)),
        length=rng.uniform(15, 40),
        delay=(0.001, rng.choice((0.01, 0.05, 0.2, 0.6))),
        loss=rng.choice((0.0, 0.0, 0.0, 0.01, 0.05)),
        duplication=rng.choice((0.0, 0.0, 0.03)),
        capacity=rng.choice((10**6, 10**6, rng.randint(100, 300))),
        restore_rate=rng.choice((1e6, 1e6, 30.0)),
        same_address=rng.random() < 0.5,
        faults=tuple(rng.choices(kinds, k=rng.choice((0, 1, 2, 3, 4, 5, 6, 10)))),
        verbose=verbose,
        files=rng.choice((0, 0, 12)),
        staging=rng.choice((0, 1, 2)),
    )
