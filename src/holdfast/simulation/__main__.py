"""`python -m holdfast.simulation --seed 1234`: replay one simulated cluster, or try many seeds."""

from __future__ import annotations

import argparse
import pkgutil
import sys
import time

from .agents import Agent
from .planted import PLANTED
from .run import run
from .scenario import draw


def main() -> int:
    """Simulate; print the line that replays the first seed that breaks a promise."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.simulation",
        description="Simulates whole clusters in trouble, each from one seed, and checks that "
        "every promise is kept.",
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--seeds", type=int, default=1, help="how many seeds to run, one after the other"
    )
    parser.add_argument(
        "--nodes", type=int, default=0, help="number of nodes (default: 3 to 7, by the seed)"
    )
    parser.add_argument("--plant", choices=PLANTED, help="a bug to plant, to see that it is found")
    parser.add_argument(
        "--key-space",
        metavar="MODULE:NAME",
        help="where half of all objects lie, instead of on the ring",
    )
    parser.add_argument("--verbose", action="store_true", help="print everything that happens")
    wanted = parser.parse_args()
    if wanted.nodes < 0 or 0 < wanted.nodes < 3 or wanted.seeds < 1:
        parser.error("use at least 3 nodes and at least one seed")
    agent = PLANTED[wanted.plant] if wanted.plant else Agent
    try:
        key_spaces = (pkgutil.resolve_name(wanted.key_space),) if wanted.key_space else ()
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"cannot find the key space {wanted.key_space!r}: {error}")
    begun = time.perf_counter()
    for seed in range(wanted.seed, wanted.seed + wanted.seeds):
        outcome = run(draw(seed, wanted.nodes, wanted.verbose), agent, key_spaces)
        if outcome.violation:
            options = f" --nodes {wanted.nodes}" if wanted.nodes else ""
            options += f" --plant {wanted.plant}" if wanted.plant else ""
            options += f" --key-space {wanted.key_space}" if wanted.key_space else ""
            print(f"broken: {outcome.violation}")
            print(f"python -m holdfast.simulation --seed {seed}{options}")
            return 1
    seconds = time.perf_counter() - begun
    print(f"{wanted.seeds} seeds in {seconds:.1f} s, no promise broken; trace {outcome.trace}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
