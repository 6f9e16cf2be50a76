"""What the tests of launching share: the command line, and clusters of hosts that are not there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from support.commands import HOLDFAST, execute

BIN = Path(sys.executable).parent
PAGES = Path(__file__).resolve().parents[2] / "docs/how-to"
SIZES = {"HOLDFAST_MEMORY": "64 MiB", "HOLDFAST_DISK": "64 MiB"}

#: Python's own customization: the agent of which `only` is true may write no large file.
_LIMITED = """
import os, sys
def once():
    try: os.mkdir({directory!r} + "/taken")
    except FileExistsError: return False
    return True
if any("holdfast.services" in word for word in sys.orig_argv) and {only}:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
"""


def limit_an_agent(directory: Path, only: str = "once()") -> dict[str, str]:
    """Return what to set so that one agent cannot start, since it has no room for its table."""
    (directory / "sitecustomize.py").write_text(
        _LIMITED.format(directory=str(directory), only=only)
    )
    return {"PYTHONPATH": str(directory)}


def run(
    *command: str,
    code: int = 0,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    **more: str,
) -> str:
    """Run a command that starts small agents, if any."""
    environment = (environment or dict(os.environ)) | SIZES | more
    return execute(*command, code=code, environment=environment, cwd=cwd, within=90)


def holdfast(*arguments: str, code: int = 0, **more: str) -> str:
    """Run `holdfast`."""
    return run(HOLDFAST, *arguments, code=code, **more)


def from_page(page: str, language: str) -> list[str]:
    """Code blocks of a page: what it says is run as it stands."""
    text = (PAGES / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
