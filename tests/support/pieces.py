"""Keys of pieces: each the whole of a small cell."""

from __future__ import annotations

import struct

from holdfast.placement.windows import Roster


def piece_keys(roster: Roster, units: int = 3, survive: int = 1, version: int = 0) -> list[bytes]:
    """Return one for each unit of a stripe at each start; their bytes are a multiple of four."""
    tail = b"\0" + struct.pack(">QIIH", version, 0, 4, 0)
    return [
        f"@space/{roster.id}/run:T/{units}+{survive}/{start}.{unit}/0:4".encode() + tail
        for start in range(len(roster.nodes))
        for unit in range(units)
    ]
