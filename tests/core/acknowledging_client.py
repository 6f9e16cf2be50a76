"""A client that writes down each key whose put was acknowledged, with the checksum of its bytes."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from holdfast import config, errors
from holdfast._core import crc32c
from holdfast.job import Job


def main(directory: str, record: str, seed: int) -> None:
    rng = random.Random(seed)
    job = Job(Path(directory), config.load().config)
    log = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(1_000_000):
        data = rng.randbytes(rng.choice([10, 1000, 70_000, 500_000]))
        try:
            job.objects.put(f"{seed}/{number}", data, copies=2)
        except errors.TryAgain:
            continue  # not acknowledged: nothing is promised
        os.write(log, f"{seed}/{number} {len(data)} {crc32c(data)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
