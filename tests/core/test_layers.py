"""Each layer imports only from those below it, and `import holdfast` stays small."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import holdfast

ROOT = Path(holdfast.__file__).parent
PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs/internals/layers.md"


def levels(of: str) -> dict[str, int]:
    """Return the parts that the page lists, each with its height."""
    block = re.search(rf"<!-- layers: {of} -->\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block
    lines = [re.split(r"\s{2,}", line)[0].split() for line in block[1].splitlines()]
    return {name: level for level, names in enumerate(reversed(lines)) for name in names}


LEVEL = levels("python")


def imports(path: Path) -> set[str]:
    """Top-level parts of the package that a module imports, whenever it runs."""
    package = ["holdfast", *path.relative_to(ROOT).parent.parts]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        targets: list[list[str]] = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            targets = [[*module, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        for target in targets:
            if target[0] == "holdfast":
                known = len(target) > 1 and target[1] in LEVEL
                found.add(target[1] if known else "__init__")
    return found


def test_layers() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts == ("__init__",):
            continue  # names where things are, and imports them when asked
        own = parts[0]
        assert own in LEVEL, f"{own} has no layer: add it to {PAGE.name}"
        for other in imports(path) - {own}:
            assert LEVEL[other] < LEVEL[own], f"{path} ({own}) must not import {other}"


#: How a module is imported by its name.
BY_NAME = {"import_module", "__import__", "resolve_name", "run_module"}
#: Who may. `__init__` and `cli` import what is asked for; a simulation the key space it is given.
MAY_BY_NAME = {"__init__.py", "cli", "simulation/__main__.py"}
#: Programs for another Python, in a layer above their own. The command line is text wherever it is
#: made: what all launchers start is an agent with its services.
PROGRAMS = {("launch/starter.py", "services")}


def test_nothing_is_imported_by_a_string_but_at_the_top() -> None:
    """What is imported by its name no test of layers can see."""
    used = set()
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT)
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        if names & BY_NAME:
            used.add(str(name) if str(name) in MAY_BY_NAME else name.parts[0])
        texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
        for text in filter(lambda one: isinstance(one, str), texts):
            for other in re.findall(r"(?:from|import|-m) holdfast\.(\w+)", text):
                own = name.with_suffix("").parts[0]
                below = other == own or LEVEL[other] < LEVEL[own]
                assert below or (str(name), other) in PROGRAMS, f"{path} must not start {other}"
    assert used == MAY_BY_NAME
    assert all(f"from holdfast.{part} " in (ROOT / name).read_text() for name, part in PROGRAMS)


def test_the_page_lists_nothing_that_is_not_there() -> None:
    there = {
        path.stem for path in ROOT.iterdir() if path.suffix in (".py", ".pyi") or path.is_dir()
    }
    assert set(LEVEL) - there == set()
    assert set(levels("native")) == {
        path.name for path in (PROJECT / "native").iterdir() if path.is_dir()
    }


def test_native_layers() -> None:
    level = levels("native")
    for path in sorted((PROJECT / "native").rglob("*.[hc]*")):
        own = path.relative_to(PROJECT / "native").parts[0]
        for other in set(re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE)) - {own}:
            assert level[other] < level[own], f"{path} ({own}) must not include {other}"


def test_native_libraries_link_only_what_lies_below() -> None:
    level = levels("native")
    text = (PROJECT / "CMakeLists.txt").read_text()
    linked = re.findall(r"^holdfast_library\((\w+)(.*)\)", text, re.MULTILINE)
    assert {name for name, _ in linked} == {"base", "rpc", "placement", "store", "files", "agent"}
    for name, libraries in linked:
        for other in re.findall(r"hf_(\w+)", libraries):
            assert level[other] < level[name], f"hf_{name} must not link hf_{other}"


def test_no_two_classes_share_a_name() -> None:
    """Of one language, but for those inside others or private to their module."""
    python = {
        (node.name, path)
        for path in ROOT.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    begins = re.compile(r"^(?:class|struct|enum class) (?:HOLDFAST\w+\(.*?\) )?(\w+)[^;]*\{", re.M)
    native = {
        (name, path)
        for path in (PROJECT / "native").rglob("*.hpp")
        for name in begins.findall(path.read_text())
    }
    for classes in (python, native):
        assert len(classes) > 150
        for name, number in Counter(name for name, _ in classes).items():
            where = sorted(str(path) for other, path in classes if other == name)
            assert number == 1, f"{name} is in {', '.join(where)}"


def test_importing_holdfast_loads_only_what_it_must() -> None:
    code = (
        "import sys; before = set(sys.modules); import holdfast, holdfast.job; "
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split()) - sys.stdlib_module_names
    loaded.discard("typing_extensions")  # msgspec takes it where it is there
    assert loaded == {"holdfast", "msgspec"}


def test_what_tests_need_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, holdfast.testing as t; before = set(sys.modules); "
        "print(*sorted(getattr(t, name).__name__ for name in t.__all__)); "
        "print('holdfast.testing.countfs' in before, 'holdfast.launch.networks' in before)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "CountingFS Faults Networks inject\nFalse False\n"


def test_no_module_is_long() -> None:
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 500, path
