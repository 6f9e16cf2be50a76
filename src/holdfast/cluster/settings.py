"""What an agent is told at its start, and what it answers when it is ready."""

from __future__ import annotations

import msgspec


class AgentSettings(msgspec.Struct, frozen=True):
    """One line of JSON on the agent's standard input."""

    node: str
    number: int
    job_key: str  # hexadecimal
    socket: str
    listen: str
    ports: tuple[int, ...]  # to try in order; 0: any
    memory_dir: str
    memory: int
    disk_dir: str
    disk: int
    scrub_rate: int
    lifeline: bool  # end when standard input closes: the session lives in one process


class Ready(msgspec.Struct, frozen=True):
    """One line of JSON on the agent's standard output: where it listens, or why it cannot."""

    address: str = ""
    error: str = ""
