"""The site is whole: every page is in its navigation and found by its search, and no link leads nowhere."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.sources import PACKAGE

from airflow_provider_orderedkafka import errors
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE, SINK
from airflow_provider_orderedkafka.tools import cli

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "LICENSE", "mkdocs.yml")
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))


@pytest.fixture
def copied(tmp_path):
    """A copy of what the site is made of."""
    return copy(tmp_path)


def copy(folder):
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(ROOT / name, folder)
    (folder / PACKAGE.name).symlink_to(PACKAGE)
    return folder


def built(folder):
    how = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(how, cwd=folder, env=quiet, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning."""
    folder = copy(tmp_path_factory.mktemp("site"))
    done = built(folder)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    return folder / ".cache" / "site"


@pytest.fixture
def served(site):
    """Its address, while it is served."""
    with serving(site) as address:
        yield address


@contextmanager
def serving(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_page_is_found_and_nothing_is_fetched_from_elsewhere(site):
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


@pytest.mark.parametrize(("preferred", "scheme"), [("light", "default"), ("dark", "slate")])
def test_each_page_fits_a_telephone_in_light_and_dark_with_its_pictures(site, chromium, tmp_path, preferred, scheme):
    shown = shutil.copytree(site, tmp_path / "site")
    index = shown / "search" / "search_index.json"  # of which each page would make an index of all pages
    index.write_text(json.dumps({**json.loads(index.read_text()), "docs": []}))
    with serving(shown) as served, chromium.tab() as tab:
        tab.size(420)
        tab.prefer(preferred)  # once: the theme keeps what it has found first
        for page in sorted(site.glob("*.html"))[preferred == "dark" :: 2]:
            tab.open(f"{served}/{page.name}", until="article")
            tab.until(f"document.body.dataset.mdColorScheme === {scheme!r}")
            tab.until("[...document.images].every((each) => each.complete)")
            wide, missing = tab.ask(WIDTH), tab.ask(MISSING_PICTURES)
            assert (page.name, wide, missing) == (page.name, 420, [])
        assert tab.errors == []


WIDTH = "document.scrollingElement.scrollWidth"
MISSING_PICTURES = "[...document.images].filter((each) => !each.naturalWidth).map((each) => each.src)"


def test_a_word_that_is_typed_into_the_search_leads_to_its_page(served, chromium):
    with chromium.tab() as tab:
        tab.size(1300)
        tab.open(f"{served}/index.html", until="input.md-search__input")
        tab.until("document.readyState === 'complete'")  # before that, nobody listens to what is typed
        tab.ask("document.querySelector('input.md-search__input').focus()")
        tab.do("Input.insertText", text="murmu")
        for kind in ({"type": "keyDown", "text": "r"}, {"type": "keyUp"}):  # a key is what the search waits for
            tab.do("Input.dispatchKeyEvent", key="r", **kind)
        tab.until("document.querySelector('.md-search-result__link')?.checkVisibility()")
        assert "writing.html" in tab.ask("document.querySelector('.md-search-result__link').href")
        tab.press("Enter")
        tab.until("location.pathname == '/writing.html' && document.querySelector('article')")


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
    assert [message for _, message in wrong.values() if message not in done.stderr] == []


def test_the_reference_has_each_public_name_with_its_parameters_and_their_defaults():
    values, operators = (REFERENCE["PAGES"][name][1]() for name in ("values.md", "operators.md"))
    named = set(re.findall(r"^### (\w+)$", values + operators, re.MULTILINE))
    assert {each.name for each in REFERENCE["public"]()} - named == {"OrderedKafkaError", "exit_code"}
    assert re.search(r"^\| `grace` \| `'5s'` \| How far behind the present a run ends", values, re.MULTILINE)
    assert re.search(r"^\| `code` \|  \| The folder", values, re.MULTILINE)
    assert re.search(r"^\| `deferrable` \| `True` \| Whether Airflow's triggerer waits", values, re.MULTILINE)
    assert re.search(r"^\| `poke_interval` \| `\d", operators, re.MULTILINE), "a constant by its value"


def test_the_reference_has_each_option_command_and_error():
    options, commands, failures = (REFERENCE["PAGES"][name][1]() for name in ("options.md", "commands.md", "errors.md"))
    tables = (APPLICATION_SOURCE, APPLICATION_SINK, SINK)
    listed = set(re.findall(r"^\| `([^`]+)` \|", options, re.MULTILINE))
    assert {name for table in tables for name in (*table.instead, *(each.name for each in table.options))} <= listed
    assert set(re.findall(r"^## orderedkafka ([\w-]+)$", commands, re.MULTILINE)) == set(cli.COMMANDS)
    assert "### orderedkafka ledger rewind\n" in commands
    assert set(re.findall(r"^\| `(\w+Error)` \| \d+ \|", failures, re.MULTILINE)) == {
        name for name in vars(errors) if name.endswith("Error")
    }
