"""The service of docs/internals/add-a-service.md, in an agent of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from docs_pages import DOCS, PageRun, blocks

from holdfast.launch.launchers import local

PAGE = DOCS / "internals/add-a-service.md"


def test_the_service_of_the_page_runs_in_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, program, printed = blocks(PAGE)
    (tmp_path / "barrier.py").write_text(service.text)
    (tmp_path / "program.md").write_text(f"```python\n{program.text}```\n")
    start = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import barrier\n"
        "from holdfast.agent.main import run; run(barrier.offered)"
    )
    monkeypatch.setattr(local, "AGENT", [sys.executable, "-c", start])
    run = PageRun(tmp_path / "program.md", tmp_path / "run")
    try:
        [block] = blocks(tmp_path / "program.md")
        assert run._python(block) == printed.text
        assert printed.text.startswith("False\nb'go' b'go'\n")  # the first was parked meanwhile
    finally:
        run.close()


def test_it_has_every_power_that_the_page_promises() -> None:
    names: dict[str, Any] = {}
    exec(compile(blocks(PAGE)[0].text, str(PAGE), "exec"), names)
    assert {"due", "tick", "status", "metrics"} - set(vars(names["BarrierService"])) == {"due"}
    assert len(blocks(PAGE)[0].text.splitlines()) <= 60
