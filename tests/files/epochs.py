"""Reading a whole data set, as a training job does."""

from __future__ import annotations

from holdfast.files import Files


def epoch(files: Files, data: dict[str, bytes]) -> None:
    """Read every file and compare."""
    for name, content in data.items():
        assert files.read(name) == content, name
