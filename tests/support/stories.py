"""What agents remember of a test that failed, for its report."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client import stories
from holdfast.client.contacts import Contacts
from holdfast.client.events import line
from holdfast.session import mounts
from holdfast.session.session import SESSION

#: For all sessions of commands together: their agents may be stopped.
WITHIN = 2.0


def sections(
    item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]
) -> Iterator[tuple[str, str]]:
    """Yield what the agents of clusters and of `holdfast up` tell, and what they warned of."""
    told = set()
    for cluster in _clusters(item, failure):
        told.add(cluster.directory)
        with contextlib.suppress(holdfast.HoldfastError):
            lines = "\n".join(map(line, cluster.story()))
            yield "story", lines or "the agents told nothing"
        yield "warnings, beside the story", _warnings(cluster.directory)
    end = time.monotonic() + WITHIN
    for directory in _sessions(tempfile.gettempdir(), end):
        # Whatever state it was left in, the report of the test is made.
        with contextlib.suppress(Exception):
            if directory not in told:
                yield f"story of {directory}", _story(directory, end - time.monotonic())
                yield "warnings, beside the story", _warnings(directory)


def _clusters(
    item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]
) -> list[holdfast.LocalCluster]:
    """Return the clusters of fixtures, which still stand, and those that the test itself made.

    Also those that other objects hold, such as a shell in which programs run.
    """
    found = [*getattr(item, "funcargs", {}).values()]
    for entry in failure.traceback:
        found += entry.locals.values()
    found += [held for one in found for held in getattr(one, "__dict__", {}).values()]
    clusters = (one for one in found if isinstance(one, holdfast.LocalCluster))
    return list({id(one): one for one in clusters}.values())


def _sessions(below: str, end: float) -> Iterator[Path]:
    """Yield the directories of sessions; no mount is touched, since it may hang."""
    mounted = {str(one.point) for one in mounts.table()}
    places = [below]
    while places and time.monotonic() < end:
        place = places.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name == SESSION:
                    yield Path(place)
                elif entry.path not in mounted and entry.is_dir(follow_symlinks=False):
                    places.append(entry.path)


def _story(directory: Path, within: float) -> str:
    contacts = Contacts(directory, within)
    # They are asked for a view one by one, until one answers, and then all at once for the story.
    home = contacts.session.home
    contacts.deadline = within / (len(contacts.agents) + len(home.seeds if home else ()) + 1)
    with contextlib.closing(contacts.client):
        events, silent = stories.gather(contacts)
    lines = [*map(line, events), *(f"{node} told nothing" for node in silent)]
    return "\n".join(lines) or "the agents told nothing"


def _warnings(directory: Path) -> str:
    """Return what the agents of a session have warned of in their logs."""
    logs = sorted(directory.glob("*.log"))
    each = ((log.stem, log.read_text(errors="replace").splitlines()) for log in logs)
    return "\n".join(f"{node}  {one}" for node, lines in each for one in lines if "warning" in one)
