"""The site builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from docs_pages import DOCS, PAGES, ROOT


def test_the_site_builds_strictly_and_needs_no_network(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert built.returncode == 0, built.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"?([^\"\s>]+)", page.read_text()
        )
        elsewhere = [url for url in loaded if re.match(r"(?:https?:)?//", url)]
        assert not elsewhere, f"{page.relative_to(tmp_path)} loads {elsewhere}"


def test_links_in_the_read_me_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            assert target.startswith("https://") or (ROOT / target).exists(), target


def test_every_page_says_what_it_is() -> None:
    for page in PAGES:
        assert page.read_text().startswith("# "), f"{page.name} has no title"


def test_the_picture_is_well_formed_and_describes_itself() -> None:
    from xml.etree import ElementTree

    root = ElementTree.parse(DOCS / "assets/architecture.svg").getroot()
    names = {element.tag.rpartition("}")[2] for element in root}
    assert {"title", "desc"} <= names
