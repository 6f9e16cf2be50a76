"""Code in the documentation runs and prints what the page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import zarr
from docs_pages import PAGES, ROOT, blocks, page_run, runnable

#: Blocks that are shown but not run; raise this only with a reason in the block's comment.
MOST_SKIPPED = 2


@pytest.fixture(scope="module", autouse=True)
def _loop_of_zarr() -> None:
    """Start the event loop that zarr keeps for all of a process: no page leaves it behind."""
    zarr.create_group({})


@pytest.mark.parametrize(
    "page", [page for page in PAGES if runnable(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_page_runs(page: Path) -> None:
    with page_run(page) as run:
        run.run()


def test_few_blocks_are_skipped() -> None:
    notes = [block.note for page in PAGES for block in blocks(page) if block.note]
    skipped = [note for note in notes if note.startswith("skip")]
    assert all(note.startswith("skip, ") for note in skipped), "a skipped block needs a reason"
    assert len(skipped) <= MOST_SKIPPED


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_example_runs(example: Path) -> None:
    subprocess.run([sys.executable, example], check=True, capture_output=True, timeout=60)
