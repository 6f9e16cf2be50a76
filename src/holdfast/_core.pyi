"""The C++ core of Holdfast: hashing, placement, store and transport."""

from collections.abc import Sequence

from typing_extensions import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C of a contiguous buffer, after bytes whose checksum is `value`."""

def xxh3_64(data: bytes, seed: int = 0) -> int:
    """XXH3 with 64 bits."""

def xxh3_128(data: bytes) -> str:
    """XXH3 with 128 bits, in hexadecimal."""

class Ring:
    """holdfast.placement.ring.Ring at full speed."""

    def __init__(self, nodes: Sequence[str], virtual_nodes: int = 100) -> None: ...

    @property
    def nodes(self) -> list[str]:
        """Sorted names."""

    def owners(self, key: bytes, count: int = 1) -> list[str]:
        """The first `count` distinct nodes for `key`, fewer if there are fewer."""
