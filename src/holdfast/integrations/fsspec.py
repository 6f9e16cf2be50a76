"""`holdfast://` for fsspec: pandas, zarr, pyarrow and others read files from the nodes of the job.

`holdfast:///shared/dataset/file` is the file `/shared/dataset/file`, below a root.
"""

from __future__ import annotations

import datetime
import io
import os
import stat
from typing import IO, Any, NoReturn

from fsspec.spec import AbstractFileSystem

from .. import config
from ..errors import BadInput
from ..files.files import Files
from ..files.parts import PartFile
from ..files.policy import OnFailure, Validate
from .lazy_job import LazyJob

#: What fsspec and its users give every file system.
_OF_FSSPEC = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "use_listings_cache",
}
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}


class _File(io.BufferedReader):
    """A real file that nobody needs to close: pyarrow and others leave that to the collector."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        if isinstance(self.raw, PartFile):
            return self.raw.size
        return os.fstat(self.fileno()).st_size

    def __del__(self) -> None:
        self.close()


class HoldfastFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files below the roots, for reading.

    `root` names the one root; without it they are those of the setting `roots`. `options` are
    settings, such as `session`, and what fsspec itself takes. It connects when it is first used.
    """

    protocol = "holdfast"
    root_marker = "/"

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        copies: int = 1,
        on_failure: OnFailure = "recache",
        validate: Validate = "never",
        **options: Any,
    ) -> None:
        settings = {name: value for name, value in options.items() if name not in _OF_FSSPEC}
        super().__init__(**{name: options[name] for name in options.keys() - settings.keys()})
        known = config.load(arguments=settings).config.roots
        roots = known if root is None else (os.path.abspath(os.fspath(root)),)
        if not roots:
            raise BadInput("no root was given; use root= or set `roots`")
        self._roots = sorted(roots, key=len, reverse=True)
        self._connecting = LazyJob(copies, on_failure, validate, settings)

    @classmethod
    def _strip_protocol(cls, path: str | list[str]) -> str | list[str]:
        stripped: str | list[str] = super()._strip_protocol(path)
        if isinstance(stripped, list):
            return stripped
        return "/" + stripped.lstrip("/")

    def _below(self, path: str) -> tuple[Files, str]:
        path = str(self._strip_protocol(path))
        for root in self._roots:
            if path == root or path.startswith(root + "/"):
                return self._connecting.files(root), path
        raise BadInput(f"{path} is not below any of the roots: {', '.join(self._roots)}")

    # ---- reading

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return what is in a directory; or about a file, if it is one."""
        files, path = self._below(path)
        try:
            names = sorted(files.listdir(path))
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        paths = [os.path.join(path, name) for name in names]
        return [_entry(files, one) for one in paths] if detail else paths

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return what the shared file system says of a file or directory."""
        files, path = self._below(path)
        return _details(path, files.stat(path))

    def _kind(self, path: str) -> str:
        try:
            return str(self.info(path)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return ""

    # Those of fsspec take every failure for "no"; a chunk that "is not there" reads as zeros.
    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is such a file or directory."""
        return bool(self._kind(path))

    def isfile(self, path: str) -> bool:
        """Whether it is a regular file."""
        return self._kind(path) == "file"

    def isdir(self, path: str) -> bool:
        """Whether it is a directory."""
        return self._kind(path) == "directory"

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Return the bytes of a file, straight from its owner, or some of them."""
        if start is None and end is None:
            files, path = self._below(path)
            return files.read(path)
        return bytes(super().cat_file(path, start, end, **kwargs))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> IO[Any]:
        if mode != "rb":
            self._refuse(path)
        files, path = self._below(path)
        opened = files.open(path)
        assert isinstance(opened, io.BufferedReader)
        return _File(opened.detach())

    def created(self, path: str) -> datetime.datetime:
        """Return when the file or its attributes last changed."""
        return _when(self.info(path)["created"])

    def modified(self, path: str) -> datetime.datetime:
        """Return when the file last changed."""
        return _when(self.info(path)["mtime"])

    # ---- writing

    def _refuse(self, path: object, *_: object, **__: object) -> NoReturn:
        raise BadInput(
            f"holdfast://{path} is read-only: write to the shared file system itself, "
            "then run `holdfast refresh` on what you replaced"
        )

    mkdir = makedirs = rmdir = rm = rm_file = _rm = cp_file = mv = touch = pipe_file = _refuse

    def put_file(self, lpath: object, rpath: object, *_: object, **__: object) -> NoReturn:
        """Refuse, as all that would change a file."""
        self._refuse(rpath)


def _entry(files: Files, path: str) -> dict[str, Any]:
    """Return what a listing says of a file, also of a link that leads nowhere."""
    try:
        return _details(path, files.stat(path))
    except OSError:
        if not os.path.islink(path):
            raise
        return _details(path, os.lstat(path))


def _details(path: str, found: os.stat_result) -> dict[str, Any]:
    return {
        "name": path,
        "size": found.st_size,
        "type": _KINDS.get(stat.S_IFMT(found.st_mode), "other"),
        "created": found.st_ctime,
        "mtime": found.st_mtime,
        "mode": found.st_mode,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "ino": found.st_ino,
        "nlink": found.st_nlink,
    }


def _when(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
