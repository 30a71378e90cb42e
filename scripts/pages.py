"""What mkdocs asks while it builds the site: its navigation, and the pages that lie beside docs/."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
"""Its headings are the sections of the navigation, its links their pages."""

NAMES = {"README.md": "index.md"}
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "LICENSE")
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+\.md)\)")
PLACE = re.compile(r"(?<=\]\()(?:\.\./|docs/)?([\w./-]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation."""
    sections = INDEX.read_text("utf-8").split("\n## ")[1:]
    config.nav = [{section.partition("\n")[0]: _pages(section)} for section in sections]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages beside docs/."""
    for name in BESIDE:
        files.append(File.generated(config, _place(name), abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to where the pages are on the site, where all lie side by side."""
    return PLACE.sub(lambda found: _place(found[1]), markdown)


def _pages(section: str) -> list[dict[str, str]]:
    return [{title: _place(place)} for title, place in LINK.findall(section)]


def _place(name: str) -> str:
    name = name.removeprefix("../")
    return NAMES.get(name, name)
