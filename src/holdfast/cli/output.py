"""How commands speak: JSON for programs, tables for people."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer

from ..config import RENAMED, SETTINGS, Config, Resolved, load, suggest
from ..errors import BadInput

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Session = Annotated[str | None, typer.Option(help="Name of the session.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting; `holdfast config show` lists them."
    ),
]


def sentence(error: OSError) -> str:
    """Say what the system has refused, and where."""
    reason = error.strerror or repr(error)
    return f"{error.filename}: {reason}" if error.filename else f"the system reports: {reason}"


def refuse_with(flag: str, **others: object) -> None:
    """Refuse flags that were given and mean nothing beside another one."""
    for name, value in others.items():
        if value is not None:
            raise BadInput(
                f"--{name.replace('_', '-')} cannot be combined with {flag}; leave it out"
            )


def print_json(value: Any) -> None:
    """Print anything that msgspec can encode."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write(text + "\n")


def print_json_line(value: Any) -> None:
    """Print one of several values: a line for each, which a reader gets at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def resolve(settings: list[str] | None, **flags: Any) -> Resolved:
    """Load the configuration with the flags of a command on top."""
    given = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise BadInput(f"--set {text}: write it like --set deadline=5s")
        if name not in SETTINGS and name not in RENAMED:
            raise BadInput(f"--set {text}: there is no setting {name!r}{suggest(name)}")
        given[name] = value.strip()
    return load(flags=flags, settings=given)


def configure(settings: list[str] | None, **flags: Any) -> Config:
    """Return only the values."""
    return resolve(settings, **flags).config
