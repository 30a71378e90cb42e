"""The documents stay true: what they list is what there is."""

import re
import runpy
from pathlib import Path

import pytest
from support.sources import IN_ROOMS, PACKAGE, sources

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FIRST_CELL = re.compile(r"^\| (`[^|]+) \|", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def named(page: str, heading: str) -> set[str]:
    """What the first cells of the tables below a heading name."""
    text = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {name for cell in FIRST_CELL.findall(text) for name in re.findall(r"`([^`]+)`", cell)}


def test_the_architecture_names_every_room_and_no_other():
    listed = {name.rstrip("/") for name in named("ARCHITECTURE.md", "The rooms") if name.endswith("/")}
    folders = {str(path.parent.relative_to(PACKAGE)) for path in sources() if path.parent != PACKAGE}
    rooms = {folder for folder in folders if folder.partition("/")[0] in IN_ROOMS and not folder.startswith("tools/")}
    assert listed == rooms - {"kafka"}


def test_the_architecture_names_only_what_is_there():
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## To change something")[2]
    files = re.findall(r"`([a-z_/]+(?:\.py|/))`", text)
    folders = (ROOT, PACKAGE, PACKAGE / "core" / "order", PACKAGE / "kafka" / "write", PACKAGE / "spark" / "connector")
    assert files
    assert [name for name in files if not any((folder / name).exists() for folder in folders)] == []


OPTIONS = runpy.run_path(str(ROOT / "scripts" / "options.py"))


@pytest.mark.parametrize("page", OPTIONS["PAGES"], ids=lambda path: path.name)
def test_a_page_lists_options_as_they_are(page):
    assert OPTIONS["written"](page.read_text()) == page.read_text(), "run: python scripts/options.py"


def test_every_option_is_in_one_table_of_the_documents():
    listed = [found[2] for page in OPTIONS["PAGES"] for found in OPTIONS["MARKED"].finditer(page.read_text())]
    assert sorted(listed) == sorted(OPTIONS["TABLES"])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page):
    targets = [target for target in LINK.findall(page.read_text()) if not target.startswith("http")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_index_of_the_documents_has_every_page():
    linked = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"} <= linked
