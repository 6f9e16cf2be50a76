"""Settings, from where people put them.

An argument beats a command-line flag, which beats ``HOLDFAST_*`` in the environment, which beats
the job's ``holdfast.toml``, which beats the user's ``config.toml``, which beats the default.
Unknown names are refused: a misspelt setting that is silently ignored costs a day.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from . import _core
from .errors import BadInput
from .units import parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from pathlib import Path

TierName = Literal["memory", "disk"]
#: As people call them.
TIERS = {"memory": _core.Tier.MEMORY, "disk": _core.Tier.DISK}

PREFIX = "HOLDFAST_"
#: What `holdfast run` tells the shim; no settings.
SHIM_PREFIX = PREFIX + "SHIM_"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Resolved settings; `docs/reference/configuration.md` lists them."""

    session: str
    node: str
    run_dir: str
    memory_dir: str
    disk_dir: str
    memory: int | None
    disk: int | None
    huge_pages: bool
    launcher: str
    hostfile: str
    ssh: str
    start_within: float
    listen: str
    interface: str
    port: int
    staging: int
    spares: int
    rack: str
    congestion: str
    scrub_rate: int
    virtual_nodes: int
    deadline: float
    avoid: float
    put_retry_for: float
    hand: bool
    probe_period: float
    restore_rate: int
    partition_wait: float
    metrics_port: int
    metrics_file: str
    file_tier: str
    file_largest: int | None
    file_settled: float
    file_deadline: float
    file_strikes: int
    roots: tuple[str, ...]
    tree_degree: int
    tree_largest: int
    tree_tier: str
    tree_ttl: float
    spread_roots: tuple[str, ...]
    mount_stuck_after: float


class Setting(msgspec.Struct, frozen=True):
    """How one setting is read."""

    default: str
    parse: Callable[[Any], Any]
    help: str


def _text(value: Any) -> str:
    return str(value)


def _name(value: Any) -> str:
    text = str(value)
    plain = all(c.isalnum() or c in "-_." for c in text)
    if not plain or not text[:1].isalnum() or len(text) > 40:  # it names a directory: no '..'
        raise BadInput(
            f"{text!r} is not a valid name; use up to 40 letters, digits, '-', '_' and "
            "'.', a letter or digit first"
        )
    return text


def _tier(value: Any) -> str:
    if value not in TIERS:
        raise BadInput(f"{value!r} is not a tier; use memory or disk")
    return str(value)


def _absolute_path(value: Any) -> str:
    return os.path.abspath(str(value)) if value else ""


def _directories(value: Any) -> tuple[str, ...]:
    # In TOML a list is the natural way to write several.
    parts = value if isinstance(value, list | tuple) else str(value).split(":")
    if not all(isinstance(part, str) for part in parts):
        raise BadInput(f"{value!r} is not a list of directories; write it like /data:/more")
    return tuple(os.path.abspath(part) for part in parts if part)


def _capacity(value: Any) -> int | None:
    return None if value == "auto" else parse_size(value)


def _switch(value: Any) -> bool:
    text = str(value).lower()
    if text not in ("on", "off", "true", "false"):
        raise BadInput(f"{value!r} is neither on nor off")
    return text in ("on", "true")


def _count(value: Any) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise BadInput(f"{value!r} is not a whole number") from None
    if not 0 <= number < 1 << 16:
        raise BadInput(f"{value!r} is not between 0 and 65535")
    return number


def _positive(value: Any) -> int:
    number = _count(value)
    if number < 1:
        raise BadInput(f"{value!r} is too small; use at least 1")
    return number


def _degree(value: Any) -> int:
    number = _count(value)
    if number < 2:
        raise BadInput(f"{value!r} is too small for a tree; use at least 2")
    return number


def _positive_size(value: Any) -> int:
    size = parse_size(value)
    if size < 1:
        raise BadInput(f"{value!r} is not more than 0; write it like 32 MiB")
    return size


def _numeric_address(value: Any) -> str:
    import socket  # noqa: PLC0415 - an agent, which must start fast, parses no settings

    text = str(value)
    if text == "auto":
        return text
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, text.strip("[]"))
            return text
    raise BadInput(f"{text!r} is not a numeric address; write it like 10.0.0.7 or [fd00::7]")


def _positive_time(value: Any) -> float:
    seconds = parse_time(value)
    if seconds <= 0:
        raise BadInput(f"{value!r} is not more than 0; write it like 2 s")
    return seconds


def _positive_rate(value: Any) -> int:
    rate = int(parse_rate(value))
    if rate < 1:
        raise BadInput(f"{value!r} is not more than 0; write it like 100 MB/s")
    return rate


SETTINGS: dict[str, Setting] = {
    "session": Setting("auto", _name, "name of the session; auto: slurm-JOB in a job, else local"),
    "node": Setting("", _text, "node to connect through if this host has several, e.g. node-2"),
    "run_dir": Setting(
        "", _text, "directory for sessions; empty: $XDG_RUNTIME_DIR or the system's"
    ),
    "memory_dir": Setting("/dev/shm", _text, "tmpfs that holds the memory tier"),  # noqa: S108
    "disk_dir": Setting("", _text, "node-local disk that holds the disk tier; empty: $TMPDIR"),
    "memory": Setting("auto", _capacity, "capacity of a node's memory tier"),
    "disk": Setting("auto", _capacity, "capacity of a node's disk tier"),
    "huge_pages": Setting("on", _switch, "huge pages for the memory tier where Linux has them"),
    "launcher": Setting("auto", _text, "what starts the agents: hostfile, openmpi, slurm, local"),
    "hostfile": Setting("", _absolute_path, "file with the hosts on which to start agents by ssh"),
    "ssh": Setting("ssh -o BatchMode=yes", _text, "command that runs another command on a host"),
    "start_within": Setting("30 s", _positive_time, "time limit for agents to start"),
    "listen": Setting("auto", _numeric_address, "numeric address on which an agent listens"),
    "interface": Setting("", _text, "network interface on which agents listen, e.g. hsn0 or hsn*"),
    "port": Setting("0", _count, "first port to try; 0: derived from the session's name"),
    "staging": Setting("0", _count, "number of staging nodes: the last ones before the spares"),
    "spares": Setting("0", _count, "number of spares, the last nodes: they own no objects"),
    "rack": Setting(
        "", _text, "rack of an agent's host: a label that it shares with its neighbours"
    ),
    "congestion": Setting(
        "auto", _text, "TCP congestion control; auto: the system's unless it is BBR"
    ),
    "scrub_rate": Setting(
        "16 MiB/s", lambda v: int(parse_rate(v)), "rate at which copies are re-read and verified"
    ),
    "virtual_nodes": Setting("100", _positive, "points of each node on the hash ring"),
    "deadline": Setting("2 s", _positive_time, "silence after which an agent counts as failed"),
    "avoid": Setting("5 s", parse_time, "how long a failed agent is avoided"),
    "put_retry_for": Setting(
        "15 s", parse_time, "how long a put or a drop is retried while a failed owner is replaced"
    ),
    "hand": Setting(
        "on", _switch, "whether programs write large objects to files of their own node's agent"
    ),
    "probe_period": Setting(
        "0.4 s",
        _positive_time,
        "how often an agent probes another; detecting a death takes a few periods",
    ),
    "restore_rate": Setting(
        "512 MiB/s", _positive_rate, "rate at which a node fetches lost copies"
    ),
    "partition_wait": Setting(
        "60 s", parse_time, "how long restoring waits when over a third of the nodes vanish at once"
    ),
    "metrics_port": Setting(
        "0", _count, "loopback port for OpenMetrics, of the first agent; 0: none"
    ),
    "metrics_file": Setting(
        "", _text, "file for OpenMetrics when an agent ends; {node} in it is the node's name"
    ),
    "file_tier": Setting("disk", _tier, "tier for copies of files: memory or disk"),
    "file_largest": Setting(
        "auto", _capacity, "larger files are not cached; auto: a quarter of the tier"
    ),
    "file_settled": Setting(
        "60 s", parse_time, "files changed less than this ago are served but not kept"
    ),
    "file_deadline": Setting(
        "0.5 s", _positive_time, "shortest silence after which an owner of files is given up"
    ),
    "file_strikes": Setting(
        "2", _positive, "consecutive missed deadlines after which an owner of files is avoided"
    ),
    "roots": Setting(
        "", _directories, "directories whose files programs read from copies, separated by ':'"
    ),
    "spread_roots": Setting(
        "", _directories, "roots whose files a mount reads from their owners, not down a tree"
    ),
    "mount_stuck_after": Setting(
        "10 s",
        _positive_time,
        "how long a mount may be stuck before it is aborted and mounted again",
    ),
    "tree_degree": Setting("8", _degree, "nodes in its rack that a node passes a broadcast on to"),
    "tree_largest": Setting(
        "32 MiB", _positive_size, "larger files are broadcast in parts, directly from their owner"
    ),
    "tree_tier": Setting("memory", _tier, "tier for copies of broadcast files: memory or disk"),
    "tree_ttl": Setting(
        "0 s", parse_time, "how long broadcast copies are trusted; 0: until refreshed"
    ),
}

#: Names that settings once had.
RENAMED = {
    "large_pages": ("huge_pages",),
    "mount_patience": ("mount_stuck_after",),
    "patience": ("put_retry_for",),
    "role": ("staging", "spares"),
}


class Resolved(msgspec.Struct, frozen=True):
    """The configuration and, for each setting, its value as written and where that was."""

    config: Config
    written: dict[str, Any]
    origins: dict[str, str]


def load(
    arguments: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Resolved:
    """Merge all sources; None among `arguments` and `flags` means not given.

    `settings` are those given with --set, which are flags as well.
    """
    environment = os.environ if environment is None else environment
    written: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
    origins = dict.fromkeys(SETTINGS, "default")

    def apply(values: Mapping[str, Any], origin: Callable[[str], str]) -> None:
        for name, value in values.items():
            if name in RENAMED:
                now = " and ".join(map(repr, RENAMED[name]))
                raise BadInput(f"{origin(name)} sets {name!r}, which is now {now}")
            if name not in SETTINGS:
                raise BadInput(
                    f"{origin(name)} sets {name!r}, which is not a setting{suggest(name)}"
                )
            written[name], origins[name] = value, origin(name)

    for path in (user_file(environment), job_file(environment)):
        if path is not None:
            apply(_read_toml(path), lambda _name, path=path: str(path))  # type: ignore[misc]
    apply(_from_environment(environment), lambda name: PREFIX + name.upper())
    apply(_given(flags), lambda name: "--" + name.replace("_", "-"))
    apply(_given(settings), lambda name: f"--set {name}")
    apply(_given(arguments), lambda name: f"argument {name}")

    parsed = {}
    for name, setting in SETTINGS.items():
        try:
            parsed[name] = setting.parse(written[name])
        except BadInput as error:
            raise BadInput(f"{name} (from {origins[name]}): {error}") from None
    if parsed["session"] == "auto":
        job = environment.get("SLURM_JOB_ID")
        parsed["session"] = f"slurm-{job}" if job else "local"
    return Resolved(Config(**parsed), written, origins)


def user_file(environment: Mapping[str, str]) -> Path | None:
    """Return the user's configuration file, if there is one."""
    from pathlib import Path  # noqa: PLC0415 - an agent, which must start fast, reads no files

    base = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(base) / "holdfast" / "config.toml"
    return path if _is_file(path) else None


def job_file(environment: Mapping[str, str]) -> Path | None:
    """Return the job's configuration file: the one named, or `holdfast.toml` here."""
    from pathlib import Path  # noqa: PLC0415

    named = environment.get(PREFIX + "CONFIG")
    if named:
        if not _is_file(Path(named)):
            raise BadInput(f"{PREFIX}CONFIG names {named}, which is not a file")
        return Path(named)
    path = Path("holdfast.toml")
    return path if _is_file(path) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # it is not missing: what it says must not go unheard
        raise BadInput(
            f"cannot read the settings in {path}: {error.strerror}; fix that, or point "
            f"XDG_CONFIG_HOME or {PREFIX}CONFIG to another place"
        ) from None


def _given(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if value is not None}


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name[len(PREFIX) :].lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX)
        and name != PREFIX + "CONFIG"
        and not name.startswith(SHIM_PREFIX)
    }


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):  # imported here: an agent, which must start fast, needs neither
        import tomllib  # noqa: PLC0415
    else:
        import tomli as tomllib  # noqa: PLC0415
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path} as TOML: {error}") from None


def suggest(name: str) -> str:
    """Return the end of a sentence about an unknown setting: which one was perhaps meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where somebody mistyped

    close = get_close_matches(name, SETTINGS, n=1)
    return (
        f"; did you mean {close[0]!r}?" if close else "; `holdfast config show` lists all settings"
    )
