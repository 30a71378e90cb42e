"""The site is whole: every page is in its navigation and found by its search, and no link leads nowhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "LICENSE", "mkdocs.yml")


@pytest.fixture
def copied(tmp_path):
    """A copy of what the site is made of."""
    for folder in ("docs", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def built(folder):
    how = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(how, cwd=folder, env=quiet, capture_output=True, text=True, check=False)


def test_every_page_is_found_and_nothing_is_fetched_from_elsewhere(copied):
    done = built(copied)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    site = copied / ".cache" / "site"
    pages = {path.stem for path in ROOT.glob("docs/*.md")} - {"README"}
    pages |= {"index", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "RELEASING"}
    found = {
        place["location"].partition(".html")[0]
        for place in json.loads((site / "search/search_index.json").read_text())["docs"]
    }
    assert found == pages
    home = (site / "index.html").read_text()
    assert pages <= set(re.findall(r'<a href="([\w-]+)\.html" class="md-nav__link', home))
    assert not [
        fetched
        for page in site.glob("*.html")
        for fetched in re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*"', page.read_text())
    ]


def test_a_link_that_leads_nowhere_and_a_page_that_is_not_in_the_navigation_fail_the_build(copied):
    wrong = {
        "docs/audit.md": ("[x](nowhere.md)", "contains a link 'nowhere.md'"),
        "README.md": ("[x](docs/audit.md#nowhere)", "does not contain an anchor '#nowhere'"),
        "docs/alone.md": ("# Alone", "- alone.md"),
    }
    for page, (text, _) in wrong.items():
        with (copied / page).open("a") as file:
            file.write(f"\n{text}\n")
    done = built(copied)
    assert (done.returncode, done.stderr.count("WARNING")) == (1, len(wrong)), done.stderr
    assert [told for _, told in wrong.values() if told not in done.stderr] == []
