"""The code in the documentation runs, and prints what the documentation says."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def fences(page: str) -> list[tuple[str, str]]:
    text = (DOCS / page).read_text()
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_tutorial_survives(mpi_passes: Callable[..., str], scratch: Path) -> None:
    page = fences("tutorial/replicas.md")
    program = scratch / "survive.py"
    program.write_text(next(code for kind, code in page if kind == "py"))
    said = mpi_passes(program, ranks=4, timeout=40)
    assert page[-1][1] in said


def test_the_figures_are_drawn_by_the_code() -> None:
    page = fences("explanation/replicas.md")
    names: dict[str, object] = {}
    for (kind, code), (_, shown) in pairwise(page):
        if kind == "py":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            assert printed.getvalue() == shown
