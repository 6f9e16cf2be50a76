"""`holdfast demo`: what Holdfast does, shown on this machine in less than a minute."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import BadInput, Refused
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
    if what == "objects" and plot is not None:
        raise BadInput("the demo of objects has no plot; leave out --plot")
    if plot is not None:
        files.check_plot(plot)
    if what != "objects" and (reason := files.why_not()):
        missing = f"the demo of files needs a storage that counts, and there is none: {reason}"
        if what == "files":
            raise Refused(missing)
        print(f"{missing[0].upper()}{missing[1:]}. Here are objects instead.")
        what = "objects"
    if what == "objects":
        objects.run()
    else:
        files.run(plot)
