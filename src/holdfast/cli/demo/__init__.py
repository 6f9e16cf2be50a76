"""`holdfast demo`: what Holdfast does, shown on this machine in less than a minute."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import BadInput
from ..plan.show import PlotFile

DEMOS = ("files", "objects")


def demo(
    what: Annotated[
        str | None,
        typer.Argument(help=f"One of: {', '.join(DEMOS)}. Default: files, where it can be shown."),
    ] = None,
    plot: PlotFile = None,
) -> None:
    """Start agents here, let one die, and show that nothing is lost."""
    from . import files, objects  # noqa: PLC0415 - only who wants to see them needs all that

    if what not in (None, *DEMOS):
        raise BadInput(f"there is no demo {what!r}; try: {', '.join(DEMOS)}")
    if what is None and (reason := files.why_not()):
        print(f"The demo of files needs a storage that counts, and there is none: {reason}.")
        print("Here are objects instead.")
        what = "objects"
    if what == "objects":
        if plot is not None:
            raise BadInput("the demo of objects has no plot; leave out --plot")
        objects.run()
    else:
        files.run(plot)
