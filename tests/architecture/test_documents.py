"""The documents stay true: what they list is what there is."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FIRST_CELL = re.compile(r"^\| (`[^|]+) \|", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def named(page: str, heading: str) -> set[str]:
    """What the first cells of the tables below a heading name."""
    text = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {name for cell in FIRST_CELL.findall(text) for name in re.findall(r"`([^`]+)`", cell)}


def test_the_architecture_lists_every_module_and_no_other():
    lines = runpy.run_path(str(ROOT / "scripts" / "architecture.py"))["tables"]()
    modules = set(re.findall(r"^\| `([^`]+\.py)`", lines, re.MULTILINE))
    listed = {name for name in named("ARCHITECTURE.md", "Where everything lives") if name.endswith(".py")}
    assert listed == modules, "run: python scripts/architecture.py"


OPTIONS = runpy.run_path(str(ROOT / "scripts" / "options.py"))


@pytest.mark.parametrize(("page", "table"), OPTIONS["PAGES"].items())
def test_a_page_lists_every_option_as_it_is(page, table):
    assert OPTIONS["written"](page, table) == (ROOT / page).read_text(), "run: python scripts/options.py"
    assert {option.name for option in table.options} <= named(page, "Options")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page):
    targets = [target for target in LINK.findall(page.read_text()) if not target.startswith("http")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_index_of_the_documents_has_every_page():
    linked = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"} <= linked
