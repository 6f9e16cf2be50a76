"""Keep the state of a simulation in the memory of several nodes, and lose one of them.

Run it with `python examples/objects.py`. It starts four agents on this machine, stores a few
steps of a field in two copies each, kills an agent, and reads everything back.
"""

from __future__ import annotations

import array
import sys

import holdfast
from holdfast.errors import KeyExists

STEPS = 5
CELLS = 500_000  # 4 MB of doubles


def step(number: int) -> array.array[float]:
    return array.array("d", (number + cell % 97 for cell in range(CELLS)))


def main() -> int:
    with holdfast.local_cluster(nodes=4, deadline="1 s") as cluster:
        job = cluster.connect()
        for number in range(STEPS):
            # Any contiguous buffer will do: bytes, array, memoryview, a NumPy array.
            job.objects.put(f"field/{number}", step(number), copies=2)
        print(f"stored {len(job.objects.list('field/'))} steps on {len(cluster.nodes)} nodes")

        cluster.kill(1)
        print(f"killed {cluster.nodes[1].name}")

        for number in range(STEPS):
            field = job.objects.view(f"field/{number}").cast("d")
            if field != memoryview(step(number)):
                print(f"step {number} came back wrong", file=sys.stderr)
                return 1
        print(f"read {STEPS} steps back, every value is right")

        try:
            job.objects.put("field/0", b"other bytes")
        except KeyExists as error:
            print(f"as it should be: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
