"""Sends and receives datagrams in the network it was started in.

A line `ADDRESS TEXT` on standard input is sent there; what comes is printed, a line each.
"""

from __future__ import annotations

import os
import select
import socket
import sys

PORT = 9


def main(address: str) -> None:
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind((address, PORT))
    print("ready", flush=True)
    rest = b""
    while True:
        readable, _, _ = select.select([port, sys.stdin], [], [])
        if port in readable:
            print(port.recv(1000).decode(), flush=True)
        if sys.stdin in readable:
            text = os.read(0, 1000)
            if not text:
                return
            *lines, rest = (rest + text).split(b"\n")
            for line in lines:
                target, word = line.split()
                port.sendto(word, (target.decode(), PORT))


if __name__ == "__main__":
    main(sys.argv[1])
