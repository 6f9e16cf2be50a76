from datetime import datetime, timezone

from holdfast.bench.figures import Report, at_least, at_most
from holdfast.bench.page import render, soaks

WHEN = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)


def page(report):
    return render([report], "a machine", "abc123", WHEN)


def test_the_page_says_when_and_where_and_what():
    figures = [
        at_most("get | small", 1.5, 2, "x its time", "ping-pong"),
        at_least("rate", 0.5, 2, "x its rate", "Redis"),
        at_least("other", None, 2, "x its rate", "Redis"),
    ]
    text = page(Report("core", figures, {"raw": 12345.6}, notes=["Something is missing."]))
    assert "- date: 2026-01-02 03:04 UTC\n- commit: `abc123`\n- machine: a machine\n" in text
    assert "## core\n" in text
    assert "| get \\| small | 1.5 x its time | at most 2 | yes | ping-pong |\n" in text
    assert "| rate | 0.5 x its rate | at least 2 | **no** | Redis |\n" in text
    assert "| other | not measured | at least 2 |  | Redis |\n" in text
    assert "- raw: 12,346\n" in text
    assert text.endswith("Something is missing.\n")
    assert "invalid" not in text


def test_an_invalid_run_is_marked():
    text = page(Report("core", [], invalid=["the machine was busy"]))
    assert '!!! warning "This run is invalid"\n\n    - the machine was busy\n' in text


def test_the_soaks_of_the_page_before_are_kept(tmp_path):
    before = tmp_path / "page.md"
    assert soaks(before) == ""
    before.write_text("# Benchmarks\n\n## core\n\nformer\n\n## Soaks\n\n1,000 kills.\n")
    text = render([Report("core", [])], "a machine", "abc123", WHEN, soaks=soaks(before))
    assert text.endswith("\n\n## Soaks\n\n1,000 kills.\n")
    assert "former" not in text
