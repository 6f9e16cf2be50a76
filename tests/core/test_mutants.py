"""The table of mutants fits the code that it breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def test_every_mutant_is_found_where_the_table_says() -> None:
    command = [sys.executable, TOP / "scripts" / "mutants", "check"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
