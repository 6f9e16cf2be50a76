"""A program that is handed a file by the agent of its host, and rests in the middle.

usage: handed_program.py ADDRESS KEY OWNER SIZE STAGE DEADLINE

It says when it has come to that stage; once it is told to it goes on, seals the file and says how
that ended.
"""

from __future__ import annotations

import os
import sys

from support.frames import Handed

from holdfast import errors


def main() -> None:
    address, key, owner, size, stage, deadline = sys.argv[1:]
    data = b"b" * int(size)
    half = len(data) // 2

    def reached(name: str) -> None:
        if name == stage:
            print(name, flush=True)
            sys.stdin.readline()

    handed = Handed(address, key.encode(), len(data), float(deadline))
    reached("hand")
    os.pwrite(handed.descriptor, data[:half], 0)
    reached("writing")
    os.pwrite(handed.descriptor, data[half:], half)
    os.close(handed.descriptor)
    reached("close")
    try:
        handed.ask_to_seal(int(owner), data)
        reached("seal")
        handed.sealed()
    except errors.HoldfastError as error:
        print(type(error).__name__, flush=True)
    except ConnectionError:
        print("nobody there", flush=True)
    else:
        print("sealed", flush=True)


main()
