"""The site is whole: every page is in its navigation and found by its search, and no link leads nowhere."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sources import PACKAGE

from airflow_provider_orderedkafka import errors
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE, SINK
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.commands.explain import CODES

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "LICENSE", "mkdocs.yml")
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))


@pytest.fixture
def copied(tmp_path):
    """A copy of what the site is made of."""
    for folder in ("docs", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / PACKAGE.name).symlink_to(PACKAGE)
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
    pages |= {Path(name).stem for name in REFERENCE["PAGES"]}
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
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_the_reference_has_each_public_name_with_its_parameters_and_their_defaults():
    values, operators = (REFERENCE["PAGES"][name][1]() for name in ("values.md", "operators.md"))
    named = set(re.findall(r"^### (\w+)$", values + operators, re.MULTILINE))
    assert {each.name for each in REFERENCE["public"]()} - named == {"OrderedKafkaError", "exit_code"}
    assert re.search(r"^\| `grace` \| `'5s'` \| How far behind the present a run ends", values, re.MULTILINE)
    assert re.search(r"^\| `code` \|  \| The folder", values, re.MULTILINE)
    assert re.search(r"^\| `deferrable` \| `True` \| Whether Airflow's triggerer waits", values, re.MULTILINE)
    assert re.search(r"^\| `poke_interval` \| `\d", operators, re.MULTILINE), "a constant by its value"


def test_the_reference_has_each_option_command_exit_code_and_error():
    options, commands, failures = (REFERENCE["PAGES"][name][1]() for name in ("options.md", "commands.md", "errors.md"))
    tables = (APPLICATION_SOURCE, APPLICATION_SINK, SINK)
    listed = set(re.findall(r"^\| `([^`]+)` \|", options, re.MULTILINE))
    assert {name for table in tables for name in (*table.instead, *(each.name for each in table.options))} <= listed
    assert set(re.findall(r"^## orderedkafka ([\w-]+)$", commands, re.MULTILINE)) == set(cli.COMMANDS)
    assert "### orderedkafka ledger rewind\n" in commands
    assert set(map(int, re.findall(r"^\| `(\d+)` \|", failures, re.MULTILINE))) == set(CODES)
    assert set(re.findall(r"^\| `(\w+Error)` \| `\d+` \|", failures, re.MULTILINE)) == {
        name for name in vars(errors) if name.endswith("Error")
    }
