"""Many clients that wait for the progress of a broadcast; beside test_many_waiting.py.

usage: waiters.py KEY ADDRESS KNOWN CLIENTS CALLS
"""

from __future__ import annotations

import sys

import msgspec

from holdfast import _core
from holdfast.files.broadcast import Progress


def main() -> None:
    key, address, known, clients, calls = sys.argv[1:]
    made = [_core.AgentClient(bytes.fromhex(key)) for _ in range(int(clients))]
    waiting = [
        client.wait(
            address, "files", "broadcasting", bytes.fromhex(known), within=600.0, deadline=60.0
        )
        for client in made
        for _ in range(int(calls))
    ]
    print("waiting", flush=True)
    answers = [msgspec.msgpack.decode(call.result(), type=Progress) for call in waiting]
    print(sum(answer.fetched for answer in answers))


main()
