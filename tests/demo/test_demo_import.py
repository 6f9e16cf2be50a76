"""The storm of imports that is shown, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.demo import demo, files, imports
from holdfast.errors import Refused


def test_the_demo_shows_a_storm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := files.why_not():
        pytest.skip(reason)
    monkeypatch.setattr(imports, "NODES", (1, 2))
    monkeypatch.setattr(imports, "PACKAGES", 2)
    monkeypatch.setattr(imports, "OPERATION", "0")
    demo("import", tmp_path / "storm.png")
    said = capsys.readouterr().out
    assert "A package of 15 files" in said
    assert "2 nodes storage" in said
    assert "each file was opened once, each directory listed once" in " ".join(said.split())
    assert (tmp_path / "storm.png").read_bytes().startswith(b"\x89PNG")


def test_where_it_cannot_be_shown_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "why_not", lambda: "/dev/fuse is missing")
    with pytest.raises(Refused, match="demo of imports needs a file system that counts"):
        demo("import")
