"""`holdfast demo`: what Holdfast does, shown on this machine in less than a minute."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import BadInput, Refused
from ..plan.show import PlotFile

DEMOS = ("files", "import", "objects")


def demo(
    what: Annotated[
        str | None,
        typer.Argument(help=f"One of: {', '.join(DEMOS)} (default: files, where it can run)."),
    ] = None,
    plot: PlotFile = None,
) -> None:
    """Start agents on this machine and show what they are good for."""
    from . import files, imports, objects  # noqa: PLC0415 - only who wants to see them needs all that

    if what not in (None, *DEMOS):
        raise BadInput(f"there is no demo {what!r}; try: {', '.join(DEMOS)}")
    if what == "objects" and plot is not None:
        raise BadInput("the demo of objects has no plot; leave out --plot")
    if plot is not None:
        files.check_plot(plot)
    if what != "objects" and (reason := files.why_not()):
        shown = "imports" if what == "import" else "files"
        missing = (
            f"the demo of {shown} needs a file system that counts requests, and none can "
            f"be mounted: {reason}"
        )
        if what is not None:
            raise Refused(missing)
        print(f"{missing[0].upper()}{missing[1:]}. Showing objects instead.")
        what = "objects"
    if what == "objects":
        objects.run()
    elif what == "import":
        imports.run(plot)
    else:
        files.run(plot)
