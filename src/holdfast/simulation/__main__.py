"""`python -m holdfast.simulation --seed 1234`: replay one simulated run, or try many seeds."""

from __future__ import annotations

import argparse
import sys
import time

from .run import run
from .scenario import draw


def main() -> int:
    """Run some seeds and print the line that replays the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--nodes", type=int, default=0, help="3 to 7 if it is not given")
    parser.add_argument("--verbose", action="store_true", help="print all that happens")
    wanted = parser.parse_args()
    begun = time.perf_counter()
    for seed in range(wanted.seed, wanted.seed + wanted.seeds):
        outcome = run(draw(seed, wanted.nodes, wanted.verbose))
        if outcome.violation:
            print(f"{outcome.violation}\n{replay(seed, wanted.nodes)}")
            return 1
    seconds = time.perf_counter() - begun
    print(f"{wanted.seeds} seeds in {seconds:.1f} s, no promise broken; trace {outcome.trace}")
    return 0


def replay(seed: int, nodes: int = 0) -> str:
    """Return the command that runs a seed again."""
    return f"python -m holdfast.simulation --seed {seed}" + (f" --nodes {nodes}" if nodes else "")


if __name__ == "__main__":
    sys.exit(main())
