"""The core is pure, each part uses its own packages alone, and parsing a DAG stays cheap."""

import ast
import json
import os
import subprocess
import sys

import pytest
from support.sources import AIRFLOW_SIDE, PACKAGE, ROOT, imports, imports_of, in_rooms, label, module_name, tree_of

THIRD_PARTY: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    "load": set(),
    "audit": {"confluent_kafka", "cramjam", "deltalake", "fastavro", "numpy", "pyarrow", "pyiceberg"},
    "job": set(),
    "decoding": {"confluent_kafka", "fastavro", "google", "numpy", "pyarrow"},
    "kafka": {"confluent_kafka", "numpy", "pyarrow"},
    "loads": set(),
    "compat.spark": {"pandas", "pyarrow", "pyspark"},
    "spark": {"confluent_kafka", "numpy", "pandas", "py4j", "pyarrow", "pyspark"},
    "tools.cli": set(),
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
        "inspect",
        "itertools",
        "json",
        "math",
    ),
    *("numbers", "operator", "re", "string", "struct", "textwrap", "types", "typing", "zlib"),
}
IMPURE_CALLS = {"input", "now", "open", "print", "today", "utcnow"}

# The work on Kafka itself, which only a running task does: the rest imports these inside functions, so no DAG file ever
# loads them.
AT_WORK = {"hooks.ordered_kafka", "loads.mirror", "loads.ranges", "loads.previews"}
HEAVY = ("confluent_kafka", "numpy", "pandas", "pyarrow", "pyspark")


@pytest.mark.parametrize("path", in_rooms(*THIRD_PARTY), ids=label)
def test_a_room_uses_only_its_own_third_party_packages(path):
    allowed = next(packages for room, packages in THIRD_PARTY.items() if path in in_rooms(room)) | {PACKAGE.name}
    wrong = [i for i in imports_of(path) if i.top not in sys.stdlib_module_names and i.top not in allowed]
    assert not wrong


@pytest.mark.parametrize("path", in_rooms("core"), ids=label)
def test_the_core_uses_only_the_pure_part_of_the_standard_library(path):
    assert not [i for i in imports_of(path) if i.top != PACKAGE.name and i.top not in PURE]


@pytest.mark.parametrize("path", in_rooms("core"), ids=label)
def test_the_core_asks_no_clock_and_touches_no_file(path):
    called = [node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    names = {getattr(function, "attr", getattr(function, "id", None)) for function in called}
    assert not names & IMPURE_CALLS


@pytest.mark.parametrize("path", in_rooms(AIRFLOW_SIDE, "tools"), ids=label)
def test_only_spark_applications_import_pyspark(path):
    assert not [i for i in imports_of(path) if i.top in {"pyspark", "py4j"}]


@pytest.mark.parametrize("path", in_rooms(AIRFLOW_SIDE), ids=label)
def test_the_airflow_side_imports_heavy_packages_only_inside_functions(path):
    assert not [i for i in imports_of(path) if i.top in HEAVY and i.at_once]


def test_every_dag_and_the_airflow_side_load_nothing_heavy(tmp_path):
    """What the rules above cannot see: one light module that imports a heavy one through others."""
    dags = [str(path) for path in sorted((ROOT / "dags").glob("*.py"))]
    at_work = {f"{PACKAGE.name}.{name}" for name in AT_WORK}
    names = sorted({module_name(path) for path in in_rooms("load", "loads", AIRFLOW_SIDE)} - at_work)
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


@pytest.mark.parametrize(
    "wanted",
    ["import ordered_load", "import load_params"]
    + [f".{name}" for name in ("operators.commit", "sensors.offsets", "triggers.offsets")],
)
def test_what_runs_in_airflow_says_without_one_in_one_sentence_how_to_install_it(wanted, tmp_path):
    statement = f"from {PACKAGE.name} {wanted}" if " " in wanted else f"import {PACKAGE.name}{wanted}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; sys.modules['airflow'] = None; {statement}"],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError")
    assert "'airflow.sdk'" in last
    assert "pip install 'airflow-provider-orderedkafka[airflow]'" in last


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
        from airflow_provider_orderedkafka.spark.connector.source import Source
async def later():
    import pyspark.sql
from airflow_provider_orderedkafka import kafka
from .source import Source
from . import options
from ...core import lanes
"""
    connector = "airflow_provider_orderedkafka.spark.connector"
    assert [(i.name, i.at_once, i.room) for i in imports(source, connector)] == [
        ("numpy", True, None),
        ("typing", True, None),
        ("pyarrow", False, None),
        ("json", True, None),
        ("confluent_kafka", True, None),
        ("time", True, None),
        ("airflow_provider_orderedkafka.spark.connector.source", False, "spark.connector"),
        ("pyspark.sql", False, None),
        ("airflow_provider_orderedkafka.kafka", True, "kafka"),
        (f"{connector}.source", True, "spark.connector"),
        (f"{connector}.options", True, "spark.connector"),
        ("airflow_provider_orderedkafka.core.lanes", True, "core"),
    ]
