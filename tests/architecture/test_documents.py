"""The documents stay true: what they list is what there is."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from support.registry import ARTIFACT, VERSION
from support.sources import IN_ROOMS, PACKAGE, sources

from airflow_provider_orderedkafka import KafkaOutput, errors
from airflow_provider_orderedkafka.job import RULES
from airflow_provider_orderedkafka.tools import cli

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


def test_the_table_of_what_may_change_between_two_attempts_says_what_the_rules_say():
    text = (ROOT / "docs" / "airflow.md").read_text().partition("### What may change between two attempts\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)
    said = {name: [set(re.findall(r"`(\w+)`", cell)) for cell in cells] for name, *cells in rows}
    stays, may_change = said.pop("KafkaOutput")
    assert (stays, may_change) == (of_rule(KafkaOutput, "stays"), of_rule(KafkaOutput, "grows", "ends", "free"))
    others = {kind: [of_rule(kind, "stays"), of_rule(kind, "grows", "free")] for kind in RULES}
    assert said == {kind.__name__: cells for kind, cells in others.items() if kind.__name__ in said}
    assert said.keys() == {"Rows", "IcebergOutput", "DeltaOutput", "FilesOutput"}


def of_rule(kind: type, *rules: str) -> set[str]:
    return {name for name, rule in RULES[kind].items() if rule in rules}


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


def first_cells_of_troubles(heading: str) -> list[str]:
    text = (ROOT / "docs" / "trouble.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)[2:]


def test_each_message_that_the_page_of_troubles_has_is_said_somewhere():
    texts = [path.read_text() for path in sources()]
    messages = first_cells_of_troubles("By message")
    assert messages
    assert [each for each in messages if not any(each in text for text in texts)] == []


def test_the_page_of_troubles_has_each_exit_code():
    listed = {int(code) for cell in first_cells_of_troubles("By exit code") for code in cell.split(", ")}
    assert listed == {0, 1, *(value for value in vars(errors).values() if isinstance(value, int))}


def test_there_is_one_glossary_and_it_has_each_word_once():
    assert [page.name for page in PAGES if "\n| word | " in page.read_text()] == ["words.md"]
    rows = re.findall(r"^\| ([^|]+) \| ", (ROOT / "docs" / "words.md").read_text(), re.MULTILINE)
    words = [word for row in rows if row not in {"word", "---"} for word in row.split(", ")]
    assert {"load", "cut", "lease", "work"} <= set(words)
    assert len(words) == len(set(words))


FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
ALONE = re.compile(r"^orderedkafka [^|#\n]+", re.MULTILINE)
INLINE = re.compile(r"`(orderedkafka [^`\n]+)`")
PLACEHOLDER = re.compile(r"<([\w -]+)>")


def test_the_registry_to_try_is_the_one_that_the_tests_run():
    text = (ROOT / "docs" / "decoding.md").read_text()
    assert f"-Dartifact={ARTIFACT} " in text
    assert f"apicurio-registry-app-{VERSION}-all.tar.gz" in text


def commands(page: Path) -> list[tuple[str, bool]]:
    """The commands that a page shows, and whether each is whole: a text may name one without its arguments."""
    text = page.read_text().replace("\\\n", " ")
    whole = [found for block in FENCED.findall(text) for found in ALONE.findall(block)]
    return [*((each, True) for each in whole), *((each, False) for each in INLINE.findall(text))]


WRITTEN = sorted({(page.name, *found) for page in PAGES if page.name != "CHANGELOG.md" for found in commands(page)})


@pytest.mark.parametrize(("page", "command", "whole"), WRITTEN)
def test_a_command_that_a_page_shows_is_one_that_there_is(page, command, whole, capsys):
    name, *given = shlex.split(PLACEHOLDER.sub("a", command).replace(" -2h", "=-2h"))[1:]
    try:
        _, unknown = cli.parsers()[name].parse_known_args(given)
    except SystemExit as ended:
        unknown = [] if ended.code == 0 else [capsys.readouterr().err]
    lacking = "required" in "".join(unknown) and not whole
    assert lacking or unknown == []
