"""The reference pages say what the code says."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import typer
from docs_pages import DOCS, ROOT, blocks
from typer.testing import CliRunner

import holdfast
from holdfast import _core, errors
from holdfast.bench.figures import Figure, Report
from holdfast.cli.config import Shown
from holdfast.cli.main import app
from holdfast.cli.plan.logs import read_events
from holdfast.client.events import Event, Kind
from holdfast.client.messages import AgentStatus
from holdfast.client.survey import NodeStatus, SessionStatus
from holdfast.config import SETTINGS
from holdfast.integrations.fsspec import HoldfastFileSystem
from holdfast.integrations.torch import FileDataset
from holdfast.launch.background import Up
from holdfast.membership.view import Member
from holdfast.objects import Listing, ObjectInfo, Objects
from holdfast.planner.events import AnyEvent
from holdfast.planner.jobs import KINDS, SUCCEEDED
from holdfast.space.arrays import VersionArray
from holdfast.space.description import Description
from holdfast.space.space import Cell, Space
from holdfast.testing.local_agents import Node

REFERENCE = DOCS / "reference"


def section(page: Path, heading: str) -> str:
    """Return the text below a heading, up to the next one of its rank or above."""
    match = re.search(rf"^(#+) {re.escape(heading)}$", page.read_text(), re.MULTILINE)
    assert match, f"{page.name} has no heading {heading!r}"
    rest = page.read_text()[match.end() :]
    return re.split(rf"^#{{1,{len(match[1])}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows, without the backquotes around a cell."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def error_classes() -> dict[str, type[errors.HoldfastError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.HoldfastError)
    }


# ---- settings


def test_every_setting_is_documented_with_its_default() -> None:
    table = section(REFERENCE / "configuration.md", "All settings")
    documented = {row[0]: row[1] for row in rows(table)[1:]}
    assert documented == {name: one.default or "empty" for name, one in SETTINGS.items()}


# ---- command line


def leaf_commands(command: Any, name: str) -> dict[str, Any]:
    if not hasattr(command, "commands"):
        return {name: command}
    found = {}
    for word, one in command.commands.items():
        found |= leaf_commands(one, f"{name} {word}")
    return found


COMMANDS = leaf_commands(typer.main.get_command(app), "holdfast")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_its_options(name: str) -> None:
    [page] = [p for p in sorted(REFERENCE.glob("*.md")) if f"## `{name}`\n" in p.read_text()]
    text = section(page, f"`{name}`")
    options = [one for one in COMMANDS[name].params if one.param_type_name == "option"]
    names = {flag for one in options for flag in one.opts if flag != "--help"}
    defaults = {row[0].split()[0]: row[1] for row in rows(text) if row[0].startswith("--")}
    assert set(defaults) == names
    for one in options:
        if one.default not in (None, False):
            assert defaults[one.opts[0]] == str(one.default).removesuffix(".0")
    for argument in (one for one in COMMANDS[name].params if one.param_type_name == "argument"):
        assert f"`{argument.name.upper()}`" in text


@pytest.mark.parametrize(
    ("command", "prefix", "struct"),
    [
        ("up", "", Up),
        ("up", "members[].", Member),
        ("status", "", SessionStatus),
        ("status", "nodes[].", NodeStatus),
        ("config show", "", Shown),
        ("bench", "", Report),
        ("bench", "figures[].", Figure),
    ],
)
def test_json_fields_are_documented(
    command: str, prefix: str, struct: type[msgspec.Struct]
) -> None:
    text = section(REFERENCE / "cli.md", f"`holdfast {command}`")
    first_cells = {row[0] for row in rows(text)}
    assert {prefix + field for field in struct.__struct_fields__} <= first_cells


def test_tiers_and_counters_are_documented() -> None:
    text = section(REFERENCE / "cli.md", "`holdfast status`")
    with holdfast.local_cluster(nodes=1) as cluster:
        key = bytes.fromhex((cluster.directory / "key").read_text())
        socket = cluster.nodes[0].member.socket
        answer = _core.AgentClient(key).call(socket, "agent", "status", b"")
    status = msgspec.msgpack.decode(answer, type=AgentStatus)
    documented = set(re.findall(r"`(\w+)`", "".join(f"`{row[0]}`" for row in rows(text))))
    assert set(status.counted()) <= documented
    for tier in status.tiers.values():
        assert {f"nodes[].tiers.*.{field}" for field in tier} <= {row[0] for row in rows(text)}


# ---- planner

PLAN = REFERENCE / "plan.md"


def fields(text: str) -> set[str]:
    """Return the names in the first cells of the table of fields."""
    table = text.split("\n| field | |\n")[1].split("\n\n", maxsplit=1)[0]
    return {name for row in rows(table) for name in re.findall(r"\w+", row[0])}


@pytest.mark.parametrize(
    "command",
    [
        "checkpoint --local-cost 9 --shared-cost 99 --local-rate 1/d --shared-rate 0.1/d",
        "ring --nodes 16 --files 512 --virtual-nodes 10 --trials 2",
        "copies --ranks 64",
        "training --nodes 4 --files 64 --batch 16 --runs 2",
        "import --nodes 32",
        "failures --sacct sacct.txt",
    ],
)
def test_fields_of_plans_are_documented(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sacct.txt").write_text("State|NNodes|Elapsed|End\nNODE_FAIL|8|01:00:00|2024-01-01\n")
    name, *arguments = command.split()
    result = CliRunner().invoke(app, ["plan", name, *arguments, "--json"], catch_exceptions=False)
    documented = fields(PLAN.read_text()) | fields(section(PLAN, f"`holdfast plan {name}`"))
    assert documented == set(json.loads(result.output))


def test_every_plan_has_a_page_on_its_model() -> None:
    plans = {name.split()[-1] for name in COMMANDS if name.startswith("holdfast plan ")}
    assert plans == {page.stem for page in (DOCS / "models").glob("*.md")} - {"index"}


def test_the_log_is_the_one_that_plans_read(tmp_path: Path) -> None:
    text = section(PLAN, "events.jsonl")
    documented = {
        row[0]: [name.strip(" `") for name in row[1].split(",")] for row in rows(text)[1:]
    }
    assert documented == {
        event.__struct_config__.tag: [
            one.name + ("" if one.required else "`?") for one in msgspec.structs.fields(event)
        ]
        for event in get_args(AnyEvent)
    }
    [example] = [block.text for block in blocks(PLAN) if block.language == "json"]
    (tmp_path / "events.jsonl").write_text(example)
    assert {type(event) for event in read_events(tmp_path / "events.jsonl")} == set(
        get_args(AnyEvent)
    )


def test_states_of_jobs_are_counted_as_documented() -> None:
    documented = {
        state.strip(" `"): row[1]
        for row in rows(section(PLAN, "What `sacct` prints"))[1:-1]
        for state in row[0].split(",")
    }
    assert documented == KINDS | dict.fromkeys(SUCCEEDED, "success")


# ---- errors


def test_the_tree_of_errors_is_the_one_in_the_code() -> None:
    tree = re.search(r"::\n\n(.*?)\n\nEvery message", errors.__doc__ or "", re.DOTALL)
    assert tree
    page = (REFERENCE / "errors.md").read_text()
    assert textwrap.dedent(tree[1]) in page
    for name, kind in error_classes().items():
        assert re.search(rf"\b{name}\b", tree[1])
        for base in kind.__bases__:
            if not issubclass(base, errors.HoldfastError):
                assert base is Exception or f"({base.__name__})" in tree[1]


def test_every_error_has_its_exit_code_and_its_number_on_the_wire() -> None:
    numbers = _core.status_codes()
    documented = {row[0]: (row[1], row[2]) for row in rows((REFERENCE / "errors.md").read_text())}
    documented.pop("error")
    assert documented == {
        name: (str(kind.exit_code), str(numbers.get(name, "")))
        for name, kind in error_classes().items()
    }


def test_exit_codes_agree_with_the_errors() -> None:
    table = {
        row[0]: set(re.findall(r"\w+", row[1]))
        for row in rows(section(REFERENCE / "cli.md", "Exit codes"))[1:]
    }
    expected: dict[str, set[str]] = {code: set() for code in ("0", "126", "127", "130")}
    for name, kind in error_classes().items():
        expected.setdefault(str(kind.exit_code), set()).add(name)
    assert table == expected


# ---- Python API


def signature(function: Any) -> str:
    """Return the parameters as the page writes them: names and defaults, no types."""
    shown = []
    for one in inspect.signature(function).parameters.values():
        stars = {one.VAR_KEYWORD: "**", one.VAR_POSITIONAL: "*"}.get(one.kind, "")
        default = "" if one.default is one.empty else f"={one.default!r}"
        if one.name != "self":
            shown.append(f"{stars}{one.name}{default}")
    return f"({', '.join(shown)})"


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        *((kind, "python.md") for kind in (holdfast.Job, Objects, holdfast.LocalCluster, Node)),
        *((kind, "space.md") for kind in (Space, VersionArray, Description, Cell)),
    ],
)
def test_public_members_are_documented(kind: type, page: str) -> None:
    text = section(REFERENCE / page, f"`{kind.__name__}`")
    for name in (name for name in dir(kind) if not name.startswith("_")):
        value = inspect.getattr_static(kind, name)
        if inspect.isfunction(value):
            assert f"### `{name}{signature(value)}`\n" in text
        else:
            assert f"| `{name}` |" in text


@pytest.mark.parametrize("kind", [HoldfastFileSystem, FileDataset])
def test_integrations_are_documented_with_their_arguments(kind: type) -> None:
    title = f"`{kind.__name__}{signature(kind.__init__)}`"
    text = section(REFERENCE / "integrations.md", title)
    for name in inspect.signature(kind.__init__).parameters:
        assert name in ("self", "options") or f"`{name}`" in text, name


def test_public_names_are_documented() -> None:
    text = (REFERENCE / "python.md").read_text()
    for name in holdfast.__all__:
        value = getattr(holdfast, name)
        title = f"holdfast.{name}{signature(value)}" if inspect.isfunction(value) else name
        assert re.search(rf"^##+ `{re.escape(title)}`$", text, re.MULTILINE), title
    for struct in (ObjectInfo, Listing):
        assert f"## `{struct.__name__}`\n" in text
    fields = {row[0] for row in rows(section(REFERENCE / "python.md", "`ObjectInfo`"))[1:]}
    assert fields == set(ObjectInfo.__struct_fields__)


# ---- protocol


def enumerators(header: str, name: str) -> dict[str, int]:
    body = re.search(rf"enum (?:class )?{name} [^{{]*{{(.*?)}};", header, re.DOTALL)
    assert body
    return {word: int(number) for word, number in re.findall(r"(\w+) = (\d+)", body[1])}


def test_operations_flags_and_statuses_are_those_of_the_core() -> None:
    page, header = REFERENCE / "protocol.md", (ROOT / "native/rpc/frame.hpp").read_text()
    operations = {row[1]: int(row[0]) for row in rows(section(page, "Operations"))[1:]}
    assert operations == {k.lower(): v for k, v in enumerators(header, "Op").items()}
    flags = {int(row[0]) for row in rows(section(page, "Flags"))[1:]}
    assert flags == set(enumerators(header, "Flag").values()) - {31}  # kAllFlags
    statuses = {row[1]: int(row[0]) for row in rows(section(page, "Status"))[1:]}
    assert statuses == _core.status_codes()


def test_the_header_is_laid_out_as_in_the_core() -> None:
    page, header = REFERENCE / "protocol.md", (ROOT / "native/rpc/frame.hpp").read_text()
    table = rows(section(page, "Frame"))[1:15]
    layout = [(int(row[0]), int(row[1])) for row in table if row[0].isdigit() and row[1].isdigit()]
    written = re.findall(r"\b(\d+) [a-zA-Z][\w \-]*? u(\d+)\b", header.split("All numbers")[0])
    assert sorted(layout) == sorted((int(at), int(bits) // 8) for at, bits in written)


# ---- events


def test_every_kind_of_event_is_documented_with_its_fields() -> None:
    page = REFERENCE / "events.md"
    fields = {row[0] for row in rows(section(page, "Fields"))[1:]}
    assert fields == set(Event.__struct_fields__)
    kinds = {row[0]: re.findall(r"\w+", row[1]) for row in _kinds(page)}
    assert set(kinds) == set(get_args(Kind))
    assert all(set(names) <= fields for names in kinds.values())


def _kinds(page: Path) -> list[list[str]]:
    return [row for row in rows(section(page, "Kinds")) if row[0] in get_args(Kind)]
