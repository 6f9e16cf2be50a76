"""Which machine this is, as far as it matters for a figure."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from ..units import format_size


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.machine()


def fingerprint() -> str:
    """Return what tells machines apart whose baselines differ: processor, cores, kernel."""
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{_cpu()}, {os.cpu_count()} cores, Linux {kernel}"


def describe() -> str:
    """Return the machine and what runs on it, in a line for a person."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{fingerprint()}, {format_size(memory)} of memory, Python {platform.python_version()}"
