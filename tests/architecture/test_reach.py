"""Only `compat` reaches into what other packages do not show: elsewhere no name of theirs begins with an underscore."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "airflow_provider_orderedkafka"
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if "compat" not in path.relative_to(PACKAGE).parts]
DOCUMENTED = ("os._exit", "KafkaError._")
"""Public all the same: the errors of Kafka's client itself are called like that."""
OF_NAMED_TUPLES = {"_asdict", "_replace"}

# Names without an underscore that no documentation of Airflow's and Spark's promises.
INNER = (
    *("airflow.models", "airflow.sdk.definitions", "airflow.sdk.execution_time", "airflow.security", "airflow.state"),
    *("airflow.stats", "airflow.utils", "pyspark.sql.pandas.types"),
)
AT_THE_DESK = {"tools"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def reached(source: str) -> list[str]:
    """The private names of others that a module uses."""
    tree = ast.parse(source)
    return [*_attributes(tree, set(_defined(tree))), *_imported(tree)]


def _attributes(tree: ast.AST, own: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            said = ast.unparse(node)
            documented = said.startswith(DOCUMENTED) or node.attr in OF_NAMED_TUPLES
            if not documented and (node.attr not in own or said.startswith("super()")):
                yield said


def _defined(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives to what is its own: functions, classes, fields, and attributes that it sets."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if any(map(is_private, name.split("."))))


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    froms = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return froms | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_no_module_uses_a_private_name_of_another(path):
    assert reached(path.read_text()) == []


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_no_module_in_production_imports_inner_modules_of_airflow_or_spark(path):
    if path.relative_to(PACKAGE).parts[0] not in AT_THE_DESK:
        assert [name for name in imported(path) if name.startswith(INNER)] == []


def test_each_function_that_reaches_into_airflow_says_in_one_sentence_what_is_missing_there():
    tree = ast.parse((PACKAGE / "compat" / "airflow.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = {
        each.name: [ast.unparse(line) for line in each.decorator_list] for each in functions if _imports_airflow(each)
    }
    assert len(found) > 10
    assert {name for name, decorators in found.items() if decorators != ["reaching"]} == set()


def _imports_airflow(function: ast.FunctionDef) -> bool:
    said = [node for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    by_name = any(isinstance(node, ast.Name) and node.id == "import_module" for node in ast.walk(function))
    return by_name or any((node.module or "").startswith("airflow.") for node in said)


@pytest.mark.parametrize(
    "source",
    [
        "session._jsc.sc()",
        "frame.sparkSession._jvm",
        "hook._conf = {}",
        "class A:\n    def _build(self):\n        return super()._build()",
        "from airflow.sdk.definitions._internal.contextmanager import DagContext",
        "def f():\n    from airflow.sdk import _private",
        "import pyspark._globals",
    ],
)
def test_the_reader_of_names_sees_what_it_has_to(source):
    assert reached(source)


@pytest.mark.parametrize(
    "source",
    [
        "self.__dict__",
        "class A:\n    def __init__(self):\n        self._a = 1\n    def f(self, other):\n        return other._a",
        "class A:\n    _a: int\n    def f(self):\n        return self._a",
        "import os\nos._exit(1)",
    ],
)
def test_what_is_a_module_s_own_it_may_use(source):
    assert reached(source) == []


JVM = {
    "jvm",
    "new_array",
    "rdd",
    "sparkContext",
    "_ensure_initialized",
    "_jdf",
    "_jsc",
    "_jsparkSession",
    "_python_includes",
}
"""What a session of Spark Connect has not."""
WHY = {
    "jobs without a shuffle": {"engine.collected", "query.stop", "query._name_jobs"},
    "whether any executor": {"spark.tasks_running"},
    "which tasks": {"spark.failed_tasks"},
    "the analysed": {"spark.volatile", "spark.executed_plan"},
    "accumulators": {"engine.counter"},
    "Hadoop's file systems": {
        *("spark.gateway", "spark.hadoop_configuration"),
        *(f"hadoop_state.{each}" for each in ("__init__", "_read", "_instead", "_how", "_path")),
    },
    "the id of an Iceberg table": {"spark.iceberg_table"},
    "how the session was started": {
        *("starting.check_session", "starting.check_location", "starting.check_executors", "spark.shipped_names")
    },
    "what a plan does meanwhile": {
        *(
            "query.within",
            "query.spent",
            "spark.running_plans",
            "spark.time_of_tasks",
            "query._start",
            "engine.cores",
            "ordering.keep_order",
        ),
        *("attempt._writer", "spark.connect_to_the_jvm"),
    },
}
"""The functions that reach for it, by the reason on the page."""


def needing_the_jvm() -> set[str]:
    paths = [*(PACKAGE / "spark").rglob("*.py"), PACKAGE / "compat" / "spark.py"]
    functions = [(path, node) for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    return {
        f"{path.stem}.{each.name}" for path, each in functions if isinstance(each, ast.FunctionDef) and _in_java(each)
    }


def _in_java(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in JVM for node in ast.walk(function))


def test_the_page_says_why_each_function_that_needs_the_jvm_does():
    page = (PACKAGE.parent / "docs" / "where-spark-runs.md").read_text()
    said = {what: int(count) for what, count in re.findall(r"^\| (.+?) \| .+ \| (\d+) \|$", page, re.MULTILINE)}
    assert {what: len(functions) for what, functions in WHY.items()} == {
        next(each for each in WHY if what.startswith(each)): count for what, count in said.items()
    }
    assert needing_the_jvm() == {each for functions in WHY.values() for each in functions}
    assert f"{len(needing_the_jvm())} functions reach" in page
