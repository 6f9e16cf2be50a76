"""The code in the documentation runs, and prints what the documentation says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def fences(page: str) -> list[tuple[str, str]]:
    text = (DOCS / page).read_text()
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_tutorial_survives(mpi_passes: Callable[..., str], scratch: Path) -> None:
    page = fences("tutorial/replicas.md")
    programs = [code for kind, code in page if kind == "py"]
    printed = [code for kind, code in page if not kind and "ranks finished" in code]
    for code, expected in zip(programs, printed, strict=True):
        program = scratch / "program.py"
        program.write_text(code)
        assert expected in mpi_passes(program, ranks=4, timeout=40)


def test_the_figures_are_drawn_by_the_code(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "replica_plots.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=60)
    page = (DOCS / "explanation/replicas.md").read_text()
    shown = set(re.findall(r"\]\(plots/(.*?)\)", page))
    assert {path.name for path in tmp_path.iterdir()} == shown
    names = runpy.run_path(str(script))
    drawn = names["spots"](names["version"](1, permute=False))
    # The paper's Figure 1: block x lies on rank x // 4, and on the rank two further.
    ranks = {key: int(column / 4.5) for key, (column, _) in drawn.items()}
    assert ranks == {(x, k): (x // 4 + 2 * k) % 4 for x in range(16) for k in range(2)}
