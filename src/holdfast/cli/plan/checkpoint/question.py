"""What `holdfast plan checkpoint` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import BadInput
from ....planner.checkpoint.system import Schedule
from .inputs import Inputs


@dataclass(frozen=True, kw_only=True)
class CheckpointQuestion:
    """What was asked: inputs, a schedule to judge instead of the best one, and extras."""

    inputs: Inputs
    interval: float | None
    segments: int | None
    counts: tuple[int, ...] | None
    efficiency: float | None
    staging_curve: list[tuple[int, float]] | None
    thread_curve: list[tuple[int, float]] | None
    overhead_slope: float | None
    periods: int
    seed: int

    def schedule(self) -> Schedule | None:
        """Return the schedule to judge, None if the best is wanted."""
        if self.interval is None:
            if self.segments is not None or self.counts is not None:
                raise BadInput("--segments and --counts describe a schedule; add its --interval")
            return None
        levels = self.inputs.system.levels
        if (self.segments is None) == (self.counts is None):
            raise BadInput("--interval needs either --segments or --counts")
        if self.segments is not None:
            if levels > 2:
                raise BadInput(
                    f"with {levels} levels, --interval needs --counts with {levels - 1} numbers"
                )
            if self.segments < 1:
                raise BadInput(f"--segments is {self.segments}; it must be at least 1")
            return Schedule(self.interval, (self.segments - 1,))
        assert self.counts is not None
        if len(self.counts) != levels - 1:
            raise BadInput(
                f"--counts has {len(self.counts)} numbers; {levels} levels need {levels - 1}"
            )
        return Schedule(self.interval, self.counts)
