"""The stub in the source is the one that the built core has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import holdfast


def test_the_stub_is_up_to_date(tmp_path: Path) -> None:
    fresh = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "holdfast._core", "-o"]
    subprocess.run([*command, str(fresh)], check=True)
    stub = Path(holdfast.__file__).with_name("_core.pyi")
    assert fresh.read_text() == stub.read_text(), "run `make stub`"
