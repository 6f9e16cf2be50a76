"""`holdfast mount`, `holdfast umount`, and what mount(8) calls for `-t fuse.holdfast`."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Annotated, NoReturn

import typer

from ..errors import BadInput, HoldfastError
from ..files.mount import control
from .output import AsJson, Session, Set, configure, print_json, sentence

#: Options of mount(8) that say what is so anyway, or are its own affair.
_IGNORED = {"ro", "nosuid", "nodev", "defaults", "auto", "noauto", "user", "users", "nofail"}
_IGNORED |= {"_netdev", "exec", "relatime", "noatime", "dev", "suid"}
#: Those of ours that are lists.
_ROOT = "root"


def mount(
    mnt: Annotated[str, typer.Argument(help="An empty directory.")],
    root: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR", help="Directory to show below MNT (default: the setting `roots`)."
        ),
    ] = None,
    session: Session = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Show directories of the shared file system at MNT, read-only, from the copies on the nodes.

    The root /sw/env appears as MNT/sw/env. It stays until `holdfast umount` or `holdfast down`.
    """
    done = control.start(configure(settings, session=session), mnt, root or ())
    if as_json:
        print_json(done)
        return
    for one in done.roots:
        print(f"{one.path} is mounted at {done.point}{one.path}.")


def umount(
    mnt: Annotated[str, typer.Argument(help="The mount point.")],
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Detach even while programs use it; their accesses fail.")
    ] = False,
    session: Session = None,
    settings: Set = None,
) -> None:
    """Unmount what `holdfast mount` mounted."""
    place = control.stop(configure(settings, session=session), mnt, lazy)
    print(f"{place} is unmounted.")


def helper() -> NoReturn:
    """Be /sbin/mount.fuse.holdfast: SOURCE MNT [-sfnv] [-o OPTION,...] [-t TYPE]."""
    try:
        source, point, options = _read(sys.argv[1:])
        roots = options.pop(_ROOT, [])
        roots += [part for part in source.split(":") if part.startswith("/")]
        config = configure([f"{name}={value[-1]}" for name, value in options.items()])
        control.start(config, point, roots)
    except (HoldfastError, OSError) as error:
        said = error if isinstance(error, HoldfastError) else sentence(error)
        print(f"mount.fuse.holdfast: {said}", file=sys.stderr)
        sys.exit(32)  # what mount(8) calls a failed mount
    sys.exit(0)


def _read(words: list[str]) -> tuple[str, str, dict[str, list[str]]]:
    """Return source, mount point and those options that are ours."""
    if len(words) < 2:
        raise BadInput(
            "name the directory to mount and the mount point: mount.fuse.holdfast DIR MNT"
        )
    source, point, *rest = words
    options: dict[str, list[str]] = {}
    for flag, value in pairwise(rest):
        if flag == "-o":
            for option in value.split(","):
                name, equals, text = option.partition("=")
                if equals:
                    options.setdefault(name, []).append(text)
                elif name not in _IGNORED:
                    raise BadInput(f"there is no mount option {name!r}")
    return source, point, options
