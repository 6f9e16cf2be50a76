"""Reading logs: any text, and events.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...errors import BadInput

if TYPE_CHECKING:
    from ...planner.events import AnyEvent


def read_text(path: Path) -> str:
    """Return a file's text, or say in a sentence why not."""
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text file") from None


def read_events(path: Path) -> list[AnyEvent]:
    """Read a log of JSON lines; name the line that is wrong."""
    from ...planner.events import AnyEvent

    decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
    events = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            events.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise BadInput(
                f"line {number} of {path} is not an event: {error}; "
                f"docs/reference/plan.md has the format"
            ) from None
    return events
