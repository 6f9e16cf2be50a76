"""More than five things in a row are told apart by their names, not by their order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast

ROOT = Path(holdfast.__file__).parent
MOST = 5


def long_structs(source: str) -> Iterator[str]:
    """Names of structs with many fields that are made by position, too."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = {ast.unparse(base) for base in node.bases}
        made = [one for one in node.decorator_list if "dataclass" in ast.unparse(one)]
        if not made and not bases & {"msgspec.Struct", "Struct", "NamedTuple"}:
            continue
        fields = [
            line
            for line in node.body
            if isinstance(line, ast.AnnAssign) and "ClassVar" not in ast.unparse(line.annotation)
        ]
        calls = [one.keywords for one in made if isinstance(one, ast.Call)]
        given = {(k.arg, ast.unparse(k.value)) for k in sum(calls, node.keywords)}
        if len(fields) > MOST and ("kw_only", "True") not in given:
            yield node.name


def long_functions(source: str) -> Iterator[str]:
    """Names of functions with many parameters that all go by position."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            names = [one.arg for one in node.args.args if one.arg != "self"]
            if len(names) > MOST and not node.args.kwonlyargs:
                yield node.name


def test_structs_of_more_than_five_fields_are_made_by_name() -> None:
    found = [
        f"{path}: {name}"
        for path in sorted(ROOT.rglob("*.py"))
        for name in long_structs(path.read_text())
    ]
    assert found == []


def test_what_the_core_is_told_in_more_than_five_words_goes_by_name() -> None:
    assert list(long_functions((ROOT / "_core.pyi").read_text())) == []


def test_the_tests_above_can_fail() -> None:
    fields = "".join(f"    f{number}: int\n" for number in range(MOST + 1))
    few = "".join(f"    f{number}: int\n" for number in range(MOST))
    assert list(long_structs(f"class A(msgspec.Struct):\n{fields}")) == ["A"]
    assert list(long_structs(f"@dataclass(frozen=True)\nclass A:\n{fields}")) == ["A"]
    assert list(long_structs(f"@dataclass\nclass A:\n{fields}")) == ["A"]
    assert list(long_structs(f"class A(NamedTuple):\n{fields}")) == ["A"]
    assert not list(long_structs(f"class A(msgspec.Struct, kw_only=True):\n{fields}"))
    assert not list(long_structs(f"@dataclass(kw_only=True)\nclass A:\n{fields}"))
    assert not list(long_structs(f"class A(msgspec.Struct):\n{few}"))
    assert list(long_functions("def put(self, a, b, c, d, e, f): ...")) == ["put"]
    assert not list(long_functions("def put(self, a, b, c, *, d, e, f): ..."))
    assert not list(long_functions("def put(self, a, b, c, d, e): ..."))
