"""Files that the kernel knows through the mount, against the same files seen directly.

Both sides are asked for paths relative to the top, so that both walk through as many directories.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

from ...errors import HoldfastError
from ...units import format_size
from .. import programs
from ..core.setup import ReportPart
from ..figures import Figure, at_least, at_most
from ..measure import Samples, interleave
from .setup import Sizes
from .setup import mounted as mounts

#: Which side -> the directory that it sees.
Tops = dict[str, str]

SMALL = 4096
_IN_A_DIRECTORY = 100
_AT_ONCE = 1 << 20  # what one read of a large file asks for
#: What is done to each file, the most it may take of what it takes directly, and Copper's.
_LIMITS = {"stat": (1.3, "200"), "read": (1.5, "140"), "missing": (1.3, "100")}
_NAMES = {"stat": "stat", "read": "open and read of 4 KB", "missing": "stat of a missing name"}


def run(sizes: Sizes) -> ReportPart:
    """Measure small files and large ones."""
    with tempfile.TemporaryDirectory(prefix="hf") as directory:
        root = os.path.realpath(directory)
        names = small_files(Path(root), sizes.files)
        for size in sizes.large:
            Path(root, f"large-{size}").write_bytes(os.urandom(size))
        with mounts(root) as mounted:
            mounted.pin(programs.two_cores()[0])
            tops = {"direct": root, "mount": mounted.path(root)}
            part = _small(sizes, tops, names)
            part.figures += _large(sizes, tops)
            return part


def small_files(top: Path, count: int) -> list[str]:
    """Make small files in some directories; return their paths below `top`."""
    content = os.urandom(SMALL)
    paths = []
    for number in range(count):
        directory = top / f"{number // _IN_A_DIRECTORY:03}"
        if number % _IN_A_DIRECTORY == 0:
            directory.mkdir(parents=True)
        path = directory / f"{number:06}"
        path.write_bytes(content)
        paths.append(f"{directory.name}/{path.name}")
    return paths


def _small(sizes: Sizes, tops: Tops, paths: list[str]) -> ReportPart:
    part = ReportPart([])
    for kind, (limit, copper) in _LIMITS.items():
        asked = [path + ".none" for path in paths] if kind == "missing" else paths
        times = _compare(sizes, tops, kind, asked, SMALL)
        direct = f"direct, {times.middle('direct') * 1e6:.2g} µs; Copper {copper}"
        name = f"warm {_NAMES[kind]}, {sizes.files:,} files"
        ratio = times.ratio("mount", "direct")
        part.figures.append(at_most(name, ratio, limit, "x its time", direct))
        part.baselines[f"{_NAMES[kind]}, directly"] = 1 / times.middle("direct")
    return part


def _large(sizes: Sizes, tops: Tops) -> list[Figure]:
    figures = []
    for size in sizes.large:
        times = _compare(sizes, tops, "read", [f"large-{size}"], _AT_ONCE)
        rate = format_size(size / times.middle("direct"))
        name = f"warm read of a file of {size // 1_000_000} MB"
        ratio = 1 / times.ratio("mount", "direct")
        figures.append(at_least(name, ratio, 0.9, "x its rate", f"direct, {rate}/s"))
    return figures


def _compare(sizes: Sizes, tops: Tops, kind: str, paths: list[str], at_once: int) -> Samples:
    lines, core = "\n".join(paths).encode(), programs.two_cores()[1]
    for path in (f"{top}/{path}" for top in tops.values() for path in paths):
        _touch(path, kind)

    def turn(top: str) -> float:
        arguments = (kind, sizes.turn_ms, at_once, top)
        return programs.client(core, "path_loop", *arguments, stdin=lines).seconds

    return interleave({side: partial(turn, top) for side, top in tops.items()}, sizes.rounds)


def _touch(path: str, kind: str) -> None:
    """Let the kernel have seen it once."""
    if kind != "missing":
        with open(path, "rb", buffering=0) as file:
            while file.read(_AT_ONCE):
                pass
    elif os.path.exists(path):
        raise HoldfastError(f"{path} is there, and should not be")
