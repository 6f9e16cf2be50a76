"""docs/internals: what the pages name is in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INTERNALS = ROOT / "docs/internals"


def test_walks_name_functions_that_are_where_they_say() -> None:
    text = " ".join((INTERNALS / "walks.md").read_text().split())
    steps = re.findall(r"`((?:native|src)/[\w/.]+)`: (`\w+`(?:(?: →|,) `\w+`)*)", text)
    assert len(steps) > 40
    for file, functions in steps:
        code = (ROOT / file).read_text()
        for function in re.findall(r"`(\w+)`", functions):
            assert re.search(rf"\b{function}\b", code), f"{file} has no {function}"


@pytest.mark.parametrize("page", ["glossary.md", "walks.md", "layers.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    text = (INTERNALS / page).read_text()
    named = re.findall(r"`([\w/]+(?:/|\.(?:py|cpp|hpp|h|c)))`", text)
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src/holdfast" / path).exists(), path
