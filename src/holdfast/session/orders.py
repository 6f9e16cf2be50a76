"""What an agent is told at its start, and what it answers when it is ready."""

from __future__ import annotations

import msgspec

from ..config import Config
from ..membership.view import Member
from .session import Session


class Orders(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of JSON on the agent's standard input."""

    session: Session
    job_key: str  # hexadecimal
    config: Config
    node: str = ""  # empty: as the scheduler calls the node on which the agent finds itself
    index: int = 0  # among all agents: those that share a host try different ports
    directory: str = ""  # of the session; empty: where the node's own settings put it
    agents: int = 1  # that share the host, and its memory and disk
    port: int = 0  # to try before all others
    after: int = 0  # when the node's last agent started, by a clock that may have been ahead
    here: bool = False  # all agents are on one host: other hosts need not reach them
    lifeline: bool = False  # end when standard input closes: the session lives in one process
    detach: bool = False  # leave the process that was started, which is to end


class Ready(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of JSON on the agent's standard output: who is there now, or why nobody is."""

    node: str
    member: Member | None = None
    error: str = ""
    kind: str = ""  # the class of the error
