"""Each layer imports only from those below it, and `import holdfast` stays small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import holdfast

ROOT = Path(holdfast.__file__).parent

#: From the bottom to the top; names on one line may not import each other, except themselves.
LAYERS = [
    {"_core"},
    {"errors"},
    {"units"},
    {"config"},
    {"plots"},
    {"placement"},
    {"membership"},
    {"restoration"},
    {"session"},
    {"client"},
    {"launch"},
    {"agent"},
    {"testing"},
    {"mpi"},
    {"planner"},
    {"objects", "files", "replicas"},
    {"job"},
    {"__init__"},
    {"integrations"},
    {"simulation"},
    {"bench"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


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
        assert own in LEVEL, f"{own} has no layer: add it to LAYERS"
        for other in imports(path) - {own}:
            assert LEVEL[other] < LEVEL[own], f"{path} ({own}) must not import {other}"


def test_importing_holdfast_loads_only_what_it_must() -> None:
    code = (
        "import sys; before = set(sys.modules); import holdfast, holdfast.job; "
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split()) - sys.stdlib_module_names
    loaded.discard("typing_extensions")  # msgspec takes it where it is there
    assert loaded == {"holdfast", "msgspec"}


def test_no_module_is_long() -> None:
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 500, path
