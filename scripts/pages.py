"""What mkdocs asks while it builds the site: its navigation, and pages from elsewhere than docs/."""

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import reference  # noqa: E402 - found by the line above

INDEX = ROOT / "docs" / "README.md"
"""Its headings are the sections of the navigation, its links their pages; the section of the reference has more."""

NAMES = {"README.md": "index.md"}
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "LICENSE")
LINK = re.compile(r"^\| \[([^\]]+)\]\(([^)]+\.md)\)", re.MULTILINE)
PLACE = re.compile(r"(?<=\]\()(?:\.\./|docs/)?([\w./-]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation."""
    sections = INDEX.read_text("utf-8").split("\n## ")[1:]
    config.nav = [{title: _pages(title, text)} for title, _, text in (each.partition("\n") for each in sections)]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages beside docs/, and those that are made of the code."""
    for name in BESIDE:
        files.append(File.generated(config, _place(name), abs_src_path=str(ROOT / name)))
    for name, (_, made) in reference.PAGES.items():
        files.append(File.generated(config, name, content=made()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Lead links to where the pages are on the site, where all lie side by side; widen the start page."""
    if page.file.src_uri == NAMES["README.md"]:
        page.meta["hide"] = ["toc"]
    return PLACE.sub(lambda found: _place(found[1]), markdown)


def _pages(section: str, text: str) -> list[dict[str, str]]:
    found = [{title: _place(place)} for title, place in LINK.findall(text)]
    made = [{title: name} for name, (title, _) in reference.PAGES.items()]
    return [*found, *made] if section == "Reference" else found


def _place(name: str) -> str:
    name = name.removeprefix("../")
    return NAMES.get(name, name)
