"""Files of the shared file system, which change."""

from __future__ import annotations


def copy_key(name: bytes, version: int) -> bytes:
    """Return the key of the copies of a version; all versions of a file have the same owners."""
    return name + b"\0%d" % version


def content_of(name: bytes, version: int) -> bytes:
    """Return what a version has in it."""
    return name + b"/%d" % version


def version_in(content: bytes) -> int:
    """Return of which version this is the content."""
    return int(content.rpartition(b"/")[2])


class Originals:
    """The shared file system; whoever looks sees the newest version."""

    def __init__(self) -> None:
        self._versions: dict[bytes, int] = {}

    def version(self, name: bytes) -> int:
        """Look at a file."""
        return self._versions.get(name, 0)

    def change(self, name: bytes) -> int:
        """Write a file anew; returns its version."""
        self._versions[name] = self.version(name) + 1
        return self._versions[name]
