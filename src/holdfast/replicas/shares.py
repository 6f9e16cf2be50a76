"""Who works on which blocks: divides the work of the dead evenly and remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import BadInput

Ranges = list[tuple[int, int]]


class Shares:
    """The blocks that each rank works on, as (first, count); at first `counts[i]` for rank i.

    Every rank keeps the same `Shares` and tells it the same, so that no messages are needed.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        if any(count < 0 for count in counts):
            raise BadInput(f"a share of {min(counts)} blocks; shares cannot be negative")
        self._ranges: list[Ranges] = []
        first = 0
        for count in counts:
            self._ranges.append([(first, count)] if count else [])
            first += count

    def __len__(self) -> int:
        return len(self._ranges)

    def of(self, rank: int) -> Ranges:
        """Return what `rank` works on, in the order in which it came to it."""
        return list(self._ranges[rank])

    def lose(self, dead: Iterable[int]) -> list[Ranges]:
        """Divide the work of the `dead` among the others, who move up to close the gaps.

        Return what each of the others gains, by its new rank.
        """
        gone = set(dead)
        if not gone <= set(range(len(self))):
            raise BadInput(
                f"ranks {sorted(gone)} are not all among the {len(self)} ranks that share the work"
            )
        survivors = [ranges for rank, ranges in enumerate(self._ranges) if rank not in gone]
        if not survivors:
            raise BadInput("all ranks that share the work are dead; none is left to take over")
        work = [piece for rank in sorted(gone) for piece in self._ranges[rank]]
        gains = _divide(work, len(survivors))
        self._ranges = [
            _merged([*ranges, *gain]) for ranges, gain in zip(survivors, gains, strict=True)
        ]
        return gains


def _divide(work: Ranges, parts: int) -> list[Ranges]:
    total = sum(count for _, count in work)
    borders = [part * total // parts for part in range(parts + 1)]
    gains: list[Ranges] = [[] for _ in range(parts)]
    position, part = 0, 0
    for first, count in work:
        done = 0
        while done < count:
            while borders[part + 1] <= position:
                part += 1
            taken = min(count - done, borders[part + 1] - position)
            gains[part].append((first + done, taken))
            done += taken
            position += taken
    return gains


def _merged(ranges: Ranges) -> Ranges:
    merged: Ranges = []
    for first, count in ranges:
        if merged and sum(merged[-1]) == first:
            merged[-1] = (merged[-1][0], merged[-1][1] + count)
        else:
            merged.append((first, count))
    return merged
