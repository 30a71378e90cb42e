"""Every snippet of the documents is read by what takes it: nothing that a person copies is a mistake at first sight."""

import configparser
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.snippets import PAGES, ROOT, commands, snippets

import airflow_provider_orderedkafka
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.spark.application.command import read_arguments

SNIPPETS = [(page.name, kind, text) for page in PAGES for kind, text in snippets(page)]
NAMED = re.compile(r"^(\S+\.py)$")
EXTRAS = re.compile(r"(?:\.|airflow-provider-orderedkafka)\[([\w,]+)\]")
TO_BE_FILLED_IN = "..."
OF_OTHERS = {"aws", "cd", "cp", "export", "java", "jq", "kubectl", "mkdir", "mvn", "pip", "python", "tail", "tar", "uv"}
"""Programs that are asked nothing here; Airflow is, where it is started anyway, and `orderedkafka` with all pages."""

EVERYWHERE = {"DAG", "orders", *airflow_provider_orderedkafka.__all__}
"""What a snippet of a DAG may use without saying where it comes from: it is in the first one of most pages."""


def shell(text: str) -> None:
    """Bash can read it, and each command is of a program that is known here."""
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for words in commands(text):
        program, *given = words
        TAKEN_BY.get(program, known)(program, given)


def known(program: str, _: list[str]) -> None:
    assert program in OF_OTHERS | {"airflow", "orderedkafka"}, f"what is {program!r}?"


def application(_: str, given: list[str]) -> None:
    """What is behind the application is what it takes."""
    names = [word for word in given if NAMED.match(word) and "=" not in word]
    if not names or TO_BE_FILLED_IN in given:
        return
    place = given.index(names[0])
    read_arguments(given[place + 1 :], Path(names[0]).name)


def target(_: str, given: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert [word for word in given if "=" not in word and word not in targets] == []


TAKEN_BY: dict[str, Callable[[str, list[str]], None]] = {
    "spark-submit": application,
    "make": target,
    ".ci/run": lambda *_: None,
    ".venv/bin/python": lambda *_: None,
    ".venv/bin/pre-commit": lambda *_: None,
}


def unit(text: str) -> None:
    """Units of systemd: each section has settings."""
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text.replace("\\\n", " "))
    for section in found.sections():
        assert found.options(section)


def manifest(text: str) -> None:
    """YAML; and if it runs an application, with arguments that it takes."""
    for document in yaml.safe_load_all(text):
        for container in containers(document):
            application("", [str(word) for word in (*container["command"], *container.get("args", ()))])


def containers(found: Any) -> list[dict[str, Any]]:
    """All that have a command, wherever they are."""
    if isinstance(found, dict):
        own = [found] if isinstance(found.get("command"), list) else []
        return own + [each for value in found.values() for each in containers(value)]
    return [each for value in found for each in containers(value)] if isinstance(found, list) else []


def times(text: str) -> None:
    """Lines of a crontab: five fields, and a command."""
    for line in text.splitlines():
        if line and not re.match(r"#|\w+=", line):
            *fields, command = line.split(None, 5)
            assert all(re.fullmatch(r"[\d*/,-]+", field) for field in fields)
            assert len(fields) == 5
            subprocess.run(["bash", "-n", "-c", command], check=True)


READERS: dict[str, Callable[[str], Any]] = {
    "python": lambda text: compile(text, "page", "exec"),
    "sh": shell,
    "json": json.loads,
    "yaml": manifest,
    "ini": unit,
    "cron": times,
    "sql": lambda text: text,
    "text": lambda text: text,
}
"""By the language of a fence. SQL is read by Spark, in tests/integration/test_pages.py; text is what programs print."""


@pytest.mark.parametrize(("page", "kind", "text"), SNIPPETS, ids=[f"{page}-{kind}" for page, kind, _ in SNIPPETS])
def test_a_snippet_is_what_its_language_takes(page, kind, text, monkeypatch):
    monkeypatch.delenv(OPTIONS_VARIABLE, raising=False)
    assert kind in READERS, f"say what this is, one of {', '.join(READERS)}: {text}"
    READERS[kind](text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_name_that_python_on_a_page_uses_comes_from_that_page(page, tmp_path):
    code = tmp_path / "page.py"
    code.write_text("\n\n".join(text for _, text in snippets(page, "python")))
    built_in = json.dumps(sorted(EVERYWHERE | {"message"}))
    how = ["--isolated", "--select", "F821", "--config", f"builtins={built_in}", "--output-format", "concise"]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *how, code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_extras_that_are_installed_on_a_page_are_there():
    there = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {name for page in PAGES for found in EXTRAS.findall(page.read_text("utf-8")) for name in found.split(",")}
    assert named - set(there) == set()
    assert "spark" in named


def test_what_a_stream_s_checkpoint_says_is_a_start(tmp_path):
    """As Spark's own connector writes it: an offset for each batch that was begun, a commit for each that was ended."""
    (page,) = [page for page in PAGES if page.name == "migration.md"]
    (_, command), (_, printed) = snippets(page, "sh", "json")[:2]
    ends = [{"orders": {"0": 7, "1": 9}, "refunds": {"0": 2}}, json.loads(printed), {"orders": {"0": 200_000}}]
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ".9.crc").touch()
    for number, end in zip((9, 10, 11), ends, strict=True):
        settings = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{settings}\n{json.dumps(end)}")
    for number in (9, 10):
        (tmp_path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    asked = command.replace("/data/checkpoints/old-orders", str(tmp_path))
    done = subprocess.run(["bash", "-euc", asked], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ends[1]
    airflow_provider_orderedkafka.OrderedLoad("orders", topics=["orders", "refunds"], start=json.loads(done.stdout))
