"""How files below a root are named: absolute, as bytes, each in one spelling."""

from __future__ import annotations

import os

from ..errors import BadInput

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: Below these lies nothing that could be cached.
_NEVER = (b"/", b"/proc", b"/sys", b"/dev")


def root_of(directory: Path) -> bytes:
    """Return a root as it travels; it must be a directory, and not one of the kernel's."""
    root = os.path.abspath(os.fsencode(directory))
    if root in _NEVER or any(root.startswith(kernels + b"/") for kernels in _NEVER[1:]):
        raise BadInput(f"{os.fsdecode(root)} cannot be a root; name a directory of data")
    if not os.path.isdir(root):
        raise BadInput(f"the root {os.fsdecode(root)} is not a directory here; is it mounted?")
    return root


def below(root: bytes, path: Path) -> bytes:
    """Return the absolute path of a file: `path` is relative to the root, or lies below it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise BadInput(f"{name!r} contains a zero byte, which no file name can")
    if not name.startswith(b"/"):
        return os.path.join(root, name)
    if name == root or name.startswith(root + b"/"):
        return name
    raise BadInput(f"{os.fsdecode(name)} is not below the root {os.fsdecode(root)}")


def spelling(path: bytes) -> bytes | None:
    """Return the one spelling of a path that is cached; None if it goes back by `..`.

    Where `..` leads depends on symbolic links, which only the file system knows.
    """
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    return None if b".." in parts else b"/" + b"/".join(parts)
