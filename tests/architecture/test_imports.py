"""Imports point one way, the core is pure, and parsing a DAG stays cheap."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_provider_orderedkafka"

# What each layer may import of the package. What is not named here is the Airflow side.
LOADS = {"boundaries", "ledger", "ranges", "steps"}  # a load's life without Airflow
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "core": {"errors"},
    "kafka": {"core", "errors"},
    "compat.spark": set(),
    **{room: {"core", "errors", "kafka", *LOADS} for room in LOADS},
    "spark": {"compat.spark", "core", "errors", "kafka", *LOADS},
    "embedded": {"cache", "errors"},
    "cache": set(),
    "cli": {"core", "errors"},
}
# Commands for a person at this machine: they may use the embedded broker, which nothing that runs in production does.
AT_THE_DESK = {"demo", "doctor"}
AIRFLOW_SIDE = "the Airflow side"

THIRD_PARTY: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    "compat.spark": {"pyarrow", "pyspark"},
    "kafka": {"confluent_kafka", "numpy", "pyarrow"},
    **{room: set() for room in LOADS},
    "spark": {"confluent_kafka", "numpy", "py4j", "pyarrow", "pyspark"},
    "embedded": {"confluent_kafka", "cryptography", "psutil"},
    "cache": set(),
    "cli": set(),
}

# No I/O, no clock, no chance, no threads.
PURE = {
    *("__future__", "abc", "array", "base64", "bisect", "binascii", "collections", "contextlib", "copy", "dataclasses"),
    *(
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
    ),
    *("numbers", "operator", "re", "string", "struct", "textwrap", "types", "typing", "zlib"),
}
IMPURE_CALLS = {"input", "now", "open", "print", "today", "utcnow"}

# The work on Kafka itself, which only a running task does: the rest of the Airflow side imports these only inside
# functions, so no DAG file ever loads them.
AT_WORK = {"hooks.ordered_kafka", "intervals", "ranges", "replays"}
HEAVY = ("confluent_kafka", "numpy", "pandas", "pyarrow", "pyspark")


@dataclass(frozen=True)
class Import:
    """One imported module, and whether importing the importer imports it."""

    name: str
    line: int
    at_once: bool

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]

    @property
    def layer(self) -> str | None:
        """The part of the package that it belongs to; none for other packages and for the package's own root."""
        parts = self.name.split(".")
        return layer_named(parts[1:]) if parts[0] == PACKAGE.name and len(parts) > 1 else None


def imports(source: str) -> list[Import]:
    return list(_imports(ast.parse(source), at_once=True))


def _imports(node: ast.AST, *, at_once: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, f"line {child.lineno}: relative imports hide where they point"
            yield Import(_target(child), child.lineno, at_once)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), at_once=False)
            for statement in child.orelse:
                yield from _imports(ast.Module([statement], []), at_once=at_once)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, at_once=at_once and not inside)


def _target(node: ast.ImportFrom) -> str:
    # `from package import layer` imports the layer.
    if node.module == PACKAGE.name and (PACKAGE / node.names[0].name).is_dir():
        return f"{node.module}.{node.names[0].name}"
    return node.module or ""


def layer_named(parts: Sequence[str]) -> str:
    """Each module of `compat` belongs to those who use it."""
    return ".".join(parts[:2]) if parts[0] == "compat" else parts[0]


def layer_of(path: Path) -> str:
    name = layer_named(path.relative_to(PACKAGE).with_suffix("").parts)
    return name if name in LAYERS or name in AT_THE_DESK else AIRFLOW_SIDE


def modules(*layers: str) -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not layers or layer_of(path) in layers]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", modules(*LAYERS), ids=label)
def test_a_layer_imports_only_the_layers_below_it(path):
    layer = layer_of(path)
    wrong = [i for i in imports(path.read_text()) if i.layer and i.layer not in LAYERS[layer] | {layer}]
    assert not wrong


@pytest.mark.parametrize("path", modules(*THIRD_PARTY), ids=label)
def test_a_layer_uses_only_its_own_third_party_packages(path):
    allowed = THIRD_PARTY[layer_of(path)] | {PACKAGE.name}
    wrong = [i for i in imports(path.read_text()) if i.top not in sys.stdlib_module_names and i.top not in allowed]
    assert not wrong


@pytest.mark.parametrize("path", modules("core"), ids=label)
def test_the_core_uses_only_the_pure_part_of_the_standard_library(path):
    wrong = [i for i in imports(path.read_text()) if i.top != PACKAGE.name and i.top not in PURE]
    assert not wrong


@pytest.mark.parametrize("path", modules("core"), ids=label)
def test_the_core_asks_no_clock_and_touches_no_file(path):
    called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {getattr(function, "attr", getattr(function, "id", None)) for function in called}
    assert not names & IMPURE_CALLS


@pytest.mark.parametrize("path", modules(AIRFLOW_SIDE, *AT_THE_DESK), ids=label)
def test_only_spark_applications_import_spark(path):
    wrong = [
        i for i in imports(path.read_text()) if i.top in {"pyspark", "py4j"} or i.layer in {"compat.spark", "spark"}
    ]
    assert not wrong


@pytest.mark.parametrize("path", modules(AIRFLOW_SIDE), ids=label)
def test_nothing_in_production_imports_the_embedded_broker(path):
    assert not [i for i in imports(path.read_text()) if i.layer in {"embedded", *AT_THE_DESK}]


@pytest.mark.parametrize("path", modules(AIRFLOW_SIDE), ids=label)
def test_the_airflow_side_imports_heavy_packages_only_inside_functions(path):
    assert not [i for i in imports(path.read_text()) if i.top in HEAVY and i.at_once]


def test_every_dag_and_the_airflow_side_load_nothing_heavy(tmp_path):
    """What the rules above cannot see: one light module that imports a heavy one through others."""
    dags = [str(path) for path in sorted((ROOT / "dags").glob("*.py"))]
    at_work = {f"{PACKAGE.name}.{name}" for name in AT_WORK}
    names = sorted({module_name(path) for path in modules(AIRFLOW_SIDE)} - at_work)
    look = f"""
import importlib, json, runpy, sys
import airflow.sdk
heavy, loads = set({HEAVY!r}), {{}}
def note(name):
    loads[name] = sorted(heavy & sys.modules.keys())
    heavy.difference_update(loads[name])
note("airflow.sdk")
for path in {dags!r}:
    runpy.run_path(path)
    note(path)
for name in {names!r}:
    importlib.import_module(name)
    note(name)
print(json.dumps(loads))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", look],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loads = json.loads(done.stdout.splitlines()[-1])
    assert loads.keys() == {"airflow.sdk", *dags, *names}
    assert {name: heavy for name, heavy in loads.items() if heavy} == {}


def test_the_reader_of_imports_sees_what_it_has_to():
    source = """
import numpy
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import pyarrow
else:
    import json
try:
    from confluent_kafka import Consumer
except ImportError:
    pass
class Reader:
    import time
    def read(self):
        from airflow_provider_orderedkafka.spark.source import Source
async def later():
    import pyspark.sql
from airflow_provider_orderedkafka import kafka
"""
    assert [(i.name, i.at_once, i.layer) for i in imports(source)] == [
        ("numpy", True, None),
        ("typing", True, None),
        ("pyarrow", False, None),
        ("json", True, None),
        ("confluent_kafka", True, None),
        ("time", True, None),
        ("airflow_provider_orderedkafka.spark.source", False, "spark"),
        ("pyspark.sql", False, None),
        ("airflow_provider_orderedkafka.kafka", True, "kafka"),
    ]
