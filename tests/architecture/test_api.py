"""The public API is what docs/api.md lists: all of it is there, documented, and enough for every example."""

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_orderedkafka as package
from airflow_provider_orderedkafka import ordered_load

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


def undocumented(path: str) -> list[str]:
    """The parameters that what has this name says nothing of."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    said = found.__doc__ + (ordered_load.__doc__ if "All else is as for `ordered_load`." in found.__doc__ else "")
    parameters = () if name.endswith("Error") else inspect.signature(found).parameters
    return [each for each in parameters if each not in {"args", "kwargs"} and f":param {each}:" not in said]


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_can_be_imported_and_each_of_its_parameters_is_documented(name):
    assert undocumented(name) == []


@pytest.mark.parametrize("name", ["ordered_load", "ordered_intervals", "ordered_replay"])
def test_the_help_of_what_a_user_calls_first_fits_a_screen(name):
    lines, columns = SCREEN
    said = pydoc.plain(pydoc.render_doc(getattr(package, name))).splitlines()
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


def test_a_load_is_imported_without_airflow():
    code = f"import sys; from {PACKAGE} import OrderedLoad; print('airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_package_offers_what_it_lists_and_no_other_name():
    assert [name for name in [*package.__all__, "orderd_load"] if not hasattr(package, name)] == ["orderd_load"]
