"""What a mount and its agent need besides the bytes that they keep."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from ...client.contacts import Contacts
from ...client.survey import survey
from ...job import LocalCluster
from ...session.tiers import Tiers
from ..core.setup import ReportPart
from ..figures import at_most, shown
from .setup import Sizes, importing, interpreter, lacking, timed
from .setup import mounted as mounts

_MOST = 120.0


def run(sizes: Sizes) -> ReportPart:
    """Import something heavy through them, then weigh them."""
    if reason := lacking(sizes.heavy):
        return ReportPart([], notes=[f"Memory was not measured: {reason}."])
    with mounts(sys.prefix) as mounted:
        timed(importing(interpreter(mounted.path(sys.prefix)), sizes.heavy))
        agent = mounted.cluster.nodes[0]
        used = _own(agent.pid) + _own(mounted.pid()) + _kept_in(agent.tiers)
        cached = _cached(mounted.cluster)
    name = f"memory of mount and agent after import {sizes.heavy}"
    return ReportPart(
        [
            at_most(name, (used - cached) / 1e6, _MOST, "MB", "more than the cached bytes"),
            shown("bytes cached by then", cached / 1e6, "MB"),
        ]
    )


def _own(pid: int) -> int:
    """Return what a process has in memory, without files of the memory tier that it has mapped."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kilobytes = re.findall(r"^Rss(?:Anon|File):\s+(\d+) kB$", text, re.MULTILINE)
    return sum(map(int, kilobytes)) * 1024


def _kept_in(tiers: Tiers) -> int:
    """Return what the files of the memory tier take."""
    return sum(os.stat(path).st_blocks * 512 for path in tiers.in_memory())


def _cached(cluster: LocalCluster) -> int:
    contacts = Contacts(cluster.directory, cluster.config.deadline)
    try:
        return sum(node.files.bytes for node in survey(contacts).nodes)
    finally:
        contacts.client.close()
