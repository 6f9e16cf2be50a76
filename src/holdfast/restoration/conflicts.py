"""One key, two versions: which of them wins, and under which key the other one is kept.

While the network was cut, both sides may have taken other bytes under one key. Whoever meets a
version that wins moves its own aside and fetches the winner as anything else that it lacks. The
contents decide, nothing else: all pairs decide alike, in whatever order they meet, whoever owns
the key, and however many versions there are. Versions of equal size and checksum count as equal.
"""

from __future__ import annotations

from .._core import xxh3_64
from .holdings import Held

#: With which the keys begin under which losers are kept.
ASIDE = b"holdfast.conflict/"
#: As native/store/object.hpp has it.
_LONGEST = 4096


def version(held: Held) -> tuple[int, int]:
    """Return what tells two versions of a key apart; the greater one wins."""
    return held.size, held.crc32c


def aside(held: Held) -> bytes:
    """Return the key under which a version is kept that lost its own."""
    key = ASIDE + b"%d-%08x/" % version(held) + held.key
    if len(key) <= _LONGEST:
        return key
    end = b"#%016x" % xxh3_64(held.key)
    return key[: _LONGEST - len(end)] + end
