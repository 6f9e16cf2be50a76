"""`holdfast demo`: what Holdfast does, shown on this machine in less than a minute."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from ...errors import BadInput

#: Name of a demo -> the module that runs it; the first is what plain `holdfast demo` shows.
DEMOS = {"objects": "holdfast.cli.demo.objects"}


def demo(
    what: Annotated[str, typer.Argument(help=f"One of: {', '.join(DEMOS)}.")] = next(iter(DEMOS)),
) -> None:
    """Start agents here, let one die, and show that nothing is lost."""
    if what not in DEMOS:
        raise BadInput(f"there is no demo {what!r}; try: {', '.join(DEMOS)}")
    import_module(DEMOS[what]).run()
