"""What is kept of a session that ends: the logs of its agents, and its story."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from ..client import stories
from ..client.contacts import Contacts, at_once
from ..errors import BadInput, HoldfastError
from ..membership.view import Member

STORY = "story.jsonl"


def keep_remote(contacts: Contacts, into: Path) -> None:
    """Write the story, and the logs of agents on other hosts, while they still answer."""
    here = {agent.member.number for agent in contacts.agents}

    def log(member: Member) -> bytes | None:
        try:
            return contacts.client.call(
                contacts.address(member), "agent", "log", b"", deadline=contacts.deadline
            )
        except HoldfastError:
            return None

    story, _ = stories.gather(contacts)
    elsewhere = [member for member in contacts.view().live() if member.number not in here]
    try:
        into.mkdir(parents=True, exist_ok=True)
        (into / STORY).write_bytes(msgspec.json.Encoder().encode_lines(story))
        for member, text in at_once(log, elsewhere):
            if text is not None:
                (into / f"{member.node}.log").write_bytes(text)
    except OSError as error:
        raise _no_room(into, error) from None


def keep_local(directory: Path, into: Path) -> None:
    """Copy the logs of this host when its agents have written their last line."""
    try:
        for log in sorted(directory.glob("*.log")):
            shutil.copyfile(log, into / log.name)
    except OSError as error:
        raise _no_room(into, error) from None


def _no_room(into: Path, error: OSError) -> BadInput:
    return BadInput(
        f"cannot keep the logs in {into}: {error.strerror}; the session is still there: "
        "name another directory"
    )
