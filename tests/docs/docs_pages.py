"""The documentation's pages, their code blocks, and how to run them.

A page is run from top to bottom in a directory with nothing but `examples`, in one namespace:

- ```` ```python ```` is executed; a following ```` ```output ```` is what it must have printed.
- ```` ```console ````: each line `$ command` is run by the shell and must exit with 0; the lines
  below it, if any, are what it must print. `...` stands for anything.
- `<!-- docs-test: exit 3 -->` before a console block: its last command must exit with 3.
- `<!-- docs-test: skip, REASON -->` before a block: it is not run.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

import holdfast
from holdfast.integrations.fsspec import HoldfastFileSystem

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(
    r"^(?:<!-- docs-test: (?P<note>.*?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_COMPARE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    text: str
    note: str
    line: int  # of its first line of code


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that name a language."""
    source = page.read_text()
    return [
        Block(
            found["language"],
            found["text"],
            found["note"] or "",
            source.count("\n", 0, found.start("text")) + 1,
        )
        for found in _BLOCK.finditer(source)
    ]


def runnable(page: Path) -> bool:
    """Whether the page has anything to run."""
    return any(block.language in ("python", "console") for block in blocks(page))


class PageRun:
    """One run of a page, in a directory of its own that it leaves without a trace."""

    def __init__(self, page: Path, run_dir: Path) -> None:
        self._page = page
        self._run_dir = run_dir
        self._namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(self) -> None:
        """Run all blocks in order."""
        printed: str | None = None
        for block in blocks(self._page):
            self._make_run_dir()
            if block.note.startswith("skip"):
                printed = None
            elif block.language == "python":
                printed = self._python(block)
            elif block.language == "output":
                assert printed is not None, f"{self._where(block)} is output of no python block"
                self._compare(block, block.text, printed)
            elif block.language == "console":
                self._console(block)

    def close(self) -> None:
        """End what a page left running because it failed."""
        for value in self._namespace.values():
            if isinstance(value, holdfast.LocalCluster):
                value.close()
        for session in self._run_dir.glob("*/session.json"):
            name = session.parent.name
            if name.startswith("holdfast-"):
                continue  # of a local cluster, closed above
            subprocess.run(
                ["holdfast", "down", "--session", name], check=False, capture_output=True
            )
        self._namespace.clear()
        HoldfastFileSystem.clear_instance_cache()
        AsyncFileSystemWrapper.clear_instance_cache()
        gc.collect()  # closes the connections of jobs that the page made

    def _make_run_dir(self) -> None:
        # `holdfast down` removes the directory of sessions with the last session.
        self._run_dir.mkdir(mode=0o700, exist_ok=True)

    def _python(self, block: Block) -> str:
        # The empty lines make line numbers in a traceback those of the page.
        source = "\n" * (block.line - 1) + block.text
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(self._page), "exec"), self._namespace)
        return printed.getvalue()

    def _console(self, block: Block) -> None:
        commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
        assert commands, f"{self._where(block)} has no line that starts with '$ '"
        expected_exit = int(block.note.removeprefix("exit ")) if block.note else 0
        for number, (command, expected) in enumerate(commands, 1):
            self._make_run_dir()
            done = subprocess.run(
                ["bash", "-c", command],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
            )
            wanted = expected_exit if number == len(commands) else 0
            assert done.returncode == wanted, (
                f"{self._where(block)}: `{command}` exited with {done.returncode}, "
                f"not {wanted}:\n{done.stdout}"
            )
            if expected:
                self._compare(block, expected, done.stdout)

    def _compare(self, block: Block, expected: str, printed: str) -> None:
        if not doctest.OutputChecker().check_output(expected, printed, _COMPARE):
            raise AssertionError(f"{self._where(block)} expects\n{expected}\nbut got\n{printed}")

    def _where(self, block: Block) -> str:
        return f"{self._page.relative_to(ROOT)}:{block.line}"


@contextlib.contextmanager
def page_run(page: Path) -> Iterator[PageRun]:
    """Prepare a directory and an environment for a page, and clear up afterwards."""
    before = dict(os.environ), Path.cwd()
    # Not pytest's directory: the path of a Unix socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="hfdocs-"))
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        del os.environ[name]
    os.environ |= {
        "HOLDFAST_RUN_DIR": str(home / "run"),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
    }
    (home / "examples").symlink_to(ROOT / "examples")
    os.chdir(home)
    run = PageRun(page, home / "run")
    try:
        yield run
    finally:
        run.close()
        os.environ.clear()
        os.environ |= before[0]
        os.chdir(before[1])
        shutil.rmtree(home)
