"""A user's program on a node of a job: puts and gets objects through the agent beside it."""

import json
import os
import sys

import holdfast


def main(what: str, *nodes: str) -> None:
    own = os.environ.get("SLURMD_NODENAME", "")
    with holdfast.connect() as job:
        if what == "put-and-get":
            job.objects.put(f"from/{own}", own.encode() * 1000, copies=2)
            nodes = (own,)
        for node in nodes:
            assert job.objects.get(f"from/{node}") == node.encode() * 1000
        print(json.dumps({"on": own, "through": job.node}))


main(*sys.argv[1:])
