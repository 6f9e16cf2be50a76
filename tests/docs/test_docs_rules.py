"""docs/explanation/rules.md: each rule has its tests, and whoever names a rule finds it there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/rules.md").read_text()
RULES = {
    int(number): text
    for number, text in re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", PAGE, re.M | re.S)
}


def test_each_rule_names_tests_that_exist() -> None:
    assert list(RULES) == list(range(1, 13))
    for number, text in RULES.items():
        named = re.findall(r"^- `(tests/[\w/]+\.(?:py|cpp))(?:::(\w+))?`(?:: (.+))?$", text, re.M)
        assert len(named) == len(re.findall("^- ", text, re.M)) > 0, number
        for file, test, case in named:
            content = (ROOT / file).read_text()
            if test:
                assert f"def {test}(" in content, test
            if case:
                assert f'TEST_CASE("{case}")' in content, case


def test_every_rule_that_is_referred_to_is_there() -> None:
    for directory in ("src/holdfast", "native", "tests", "docs"):
        for path in (ROOT / directory).rglob("*"):
            if path.suffix in (".py", ".cpp", ".hpp", ".c", ".h", ".md"):
                for number in re.findall(r"\b[Rr]ules? (\d+)\b", path.read_text()):
                    assert int(number) in RULES, path
