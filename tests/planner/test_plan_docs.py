"""What the pages about `holdfast plan` show is what it says: their commands are run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.cli.plan import app as plan_app

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*DOCS.glob("models/*.md"), *DOCS.glob("how-to/plan-*.md"), DOCS / "reference" / "plan.md"]


def commands() -> list[tuple[str, str]]:
    """Every command in a console block, with the line of output below it if there is one."""
    found: dict[str, str] = {}
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.S):
            lines = block.splitlines()
            for line, following in zip(lines, [*lines[1:], ""], strict=True):
                if line.startswith("$ "):
                    shown = "" if following.startswith("$ ") else following
                    found[line[2:]] = shown or found.get(line[2:], "")
    return list(found.items())


@pytest.mark.parametrize(("command", "shown"), commands())
def test_commands_of_the_pages(command, shown, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = re.search(r"```json\n(.*?)```", (DOCS / "reference" / "plan.md").read_text(), re.S)
    Path("events.jsonl").write_text(log[1])
    Path("sacct.txt").write_text(
        "JobID|State|NNodes|ElapsedRaw|End\n"
        + "".join(
            f"{n}|{'COMPLETED' if n % 9 else 'NODE_FAIL'}|64|7200|2024-01-{1 + n % 28:02}\n"
            for n in range(90)
        )
    )
    name, *arguments = shlex.split(command)
    assert name == "holdfast"
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    if shown:
        assert result.output.splitlines()[0] == shown


def test_there_are_commands_to_run() -> None:
    assert len(commands()) >= 12
    assert sum(bool(shown) for _, shown in commands()) >= 8


def test_every_plan_has_its_page() -> None:
    names = {command.name or command.callback.__name__ for command in plan_app.registered_commands}
    assert names == {page.stem for page in DOCS.glob("models/*.md")} - {"index"}
