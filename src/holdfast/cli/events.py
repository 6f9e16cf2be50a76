"""`holdfast events`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..client import stories
from ..client.contacts import Contacts
from ..client.events import line
from ..session import session as sessions
from .output import AsJson, Session, Set, configure, print_json_line


def events(
    about: Annotated[
        str | None,
        typer.Argument(metavar="[NODE|KEY]", help="Show only events about this node, key or path."),
    ] = None,
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Show what the agents of a session remember: deaths, views, restores, refusals, waits."""
    config = configure(settings, session=session)
    contacts = Contacts(sessions.directory(config), config.deadline)
    try:
        story, silent = stories.gather(contacts, [about] if about is not None else [])
    finally:
        contacts.client.close()
    for event in story:
        if as_json:
            print_json_line(event)
        else:
            print(line(event))
    if about is not None and not story:
        print(f"No agent remembers anything about {about!r}.", file=sys.stderr)
    if silent:
        print(f"No answer from {', '.join(silent)}.", file=sys.stderr)
