"""The public API is what docs/api.md lists: all of it is there, documented, and enough for every example."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "airflow_provider_orderedkafka"
HEADINGS = ("What stays", "What may change in a minor release")
API = (ROOT / "docs" / "api.md").read_text()
STAYS, MAY_CHANGE = (API.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] for heading in HEADINGS)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [*sorted(ROOT.glob("dags/*.py")), *sorted(ROOT.glob("spark_apps/*.py")), *PAGES]
ROWS_THAT_STAY = 17
NAMES = 51
SCREEN = (24, 120)
"""Lines and columns."""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def named(cell: str) -> list[str]:
    """The names of a row; those after the first may begin with a dot."""
    first, *others = re.findall(r"`([\w.]+)`", cell)
    return [first, *(f"{first.rpartition('.')[0]}{other}" for other in others)]


def rows(text: str) -> list[list[str]]:
    return [named(cell) for cell in re.findall(rf"^\| (`{PACKAGE}\.[^|]+) \|", text, re.MULTILINE)]


PUBLIC = [name for row in rows(API) for name in row]
UNDOCUMENTED = f"""
import importlib, inspect
from {PACKAGE} import ordered_load
for path in {PUBLIC!r}:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    said = found.__doc__ + (ordered_load.__doc__ if "All else is as for `ordered_load`." in found.__doc__ else "")
    for parameter in {{}} if name.endswith("Error") else inspect.signature(found).parameters:
        if parameter not in {{"args", "kwargs"}} and f":param {{parameter}}:" not in said:
            print(path, parameter)
"""


def printed(code: str, home: Path) -> list[str]:
    """What the code prints in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_public_name_can_be_imported_and_each_of_its_parameters_is_documented(tmp_path):
    assert printed(UNDOCUMENTED, tmp_path) == []


FIRST = ("ordered_load", "ordered_intervals", "ordered_replay")


@pytest.fixture(scope="module")
def helps(tmp_path_factory):
    """What `help()` says of each, in one process."""
    code = f"import pydoc, {PACKAGE} as package\nfor name in {FIRST!r}: print(f'= {{name}}'); " + (
        "print(pydoc.plain(pydoc.render_doc(getattr(package, name))))"
    )
    said = "\n".join(printed(code, tmp_path_factory.mktemp("airflow")))
    return {
        name: text.splitlines()[1:] for name, text in zip(FIRST, re.split("^= ", said, flags=re.M)[1:], strict=True)
    }


@pytest.mark.parametrize("name", FIRST)
def test_the_help_of_what_a_user_calls_first_fits_a_screen(name, helps):
    lines, columns = SCREEN
    said = helps[name]
    assert any(f"{name}(" in line for line in said)
    assert sum(-(-max(len(line), 1) // columns) for line in said) <= lines


def test_few_names_are_public_and_fewer_stay():
    assert 10 < len(rows(STAYS)) <= ROWS_THAT_STAY
    assert rows(STAYS) + rows(MAY_CHANGE) == rows(API)
    assert len(set(PUBLIC)) == len(PUBLIC) <= NAMES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_import_public_names_only(path):
    text = path.read_text()
    sources = [text] if path.suffix == ".py" else BLOCK.findall(text)
    imported = [
        f"{node.module}.{alias.name}"
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
    ]
    assert [name for name in imported if name not in PUBLIC] == []


def test_a_load_is_imported_without_airflow(tmp_path):
    assert printed(f"import sys; from {PACKAGE} import OrderedLoad; print('airflow' in sys.modules)", tmp_path) == [
        "False"
    ]


def test_the_package_offers_what_it_lists_and_no_other_name(tmp_path):
    code = f"""
import {PACKAGE} as package
print([name for name in [*package.__all__, "orderd_load"] if not hasattr(package, name)])
"""
    assert printed(code, tmp_path) == ["['orderd_load']"]
