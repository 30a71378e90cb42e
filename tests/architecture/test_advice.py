"""What the product advises works: its commands are taken as they are printed, and its arguments are there."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.snippets import PAGES, ROOT

import airflow_provider_orderedkafka
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.tools.cli import parsers

PACKAGE = Path(airflow_provider_orderedkafka.__file__).parent
TICKS = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
ASKED_FOR = re.compile(
    r"\b(?:[Ww]ith|[Nn]ame|[Ss]et|[Ss]ay|[Bb]y|[Rr]aise|[Ll]ower|leave|of|or|and|is) ([a-z_]+)=(?!=)"
)
FILLED_IN = re.compile(r"<[\w ]+>|\$\{[^}]*\}|\.\.\.|\{[\w.]+\}")
PUBLIC = {name: getattr(airflow_provider_orderedkafka, name) for name in airflow_provider_orderedkafka.__all__}
VALUES = {name: set(inspect.signature(made).parameters) for name, made in PUBLIC.items() if callable(made)}
CALL = re.compile(rf"\b({'|'.join(VALUES)})\(")

OF_OTHERS = """
    apply_function batch_id commit_cadence default_args describe_cluster java_class max_batch_size max_messages my_aws
    metrics_allow_list new_cluster on_failure_callback order_time_day otel_port partition_lag_avg partition_lag_max
    partition_lag_min post_submit_commands rewrite_data_files rollback_to_snapshot sequence_by spark_default
    statsd_exporter synchronize_partitions track_driver_via_k8s_api yarn_track_via_rm_api
"""
"""What pages name of Airflow, Spark, Iceberg and others; and columns that a table makes."""


def texts_of(source: str) -> Iterator[str]:
    """The texts of a module, with `x` for what they fill in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def texts() -> list[tuple[str, str]]:
    """All that people read, with where it stands: texts of the package, its page, and the documents."""
    code = [(path, text) for path in sorted(PACKAGE.rglob("*.py")) for text in texts_of(path.read_text("utf-8"))]
    pages = [(path, path.read_text("utf-8")) for path in [*sorted(PACKAGE.rglob("*.js")), *PAGES]]
    return [(path.name, text) for path, text in [*code, *pages]]


def advised(program: str) -> list[tuple[str, str]]:
    """The commands of a program that stand in backticks, each once, with words for what is filled in."""
    found = [(FILLED_IN.sub("x", tick), where) for where, text in texts() for tick in TICKS.findall(text)]
    return sorted({tick: where for tick, where in found if tick.startswith(f"{program} ")}.items())


def commands() -> Iterator[tuple[str, list[str]]]:
    for command, where in advised("orderedkafka"):
        _, name, *given = shlex.split(command)
        if name in parsers() and len(given) > (name == "ledger") and "--help" not in given:
            yield pytest.param(name, given, id=f"{where}: {command[:70]}")


@pytest.mark.parametrize(("name", "given"), [*commands()])
def test_a_command_that_is_advised_is_taken_as_it_is_printed(name, given):
    assert parsers()[name].parse_args(given)


def test_a_command_of_airflow_that_is_advised_is_taken_as_it_is_printed():
    from airflow.cli.cli_parser import get_parser

    taken = []
    for command, where in advised("airflow"):
        given = shlex.split(command)[1:]
        if len(given) > 2:
            assert get_parser().parse_args(given), where
            taken.append(given)
    assert ["connections", "add"] in [each[:2] for each in taken]


def keywords(text: str, at: int) -> Iterator[str]:
    """The names of the arguments of the call whose parentheses begin here."""
    depth = 1
    for part in re.findall(r"'[^']*'|\"[^\"]*\"|[(\[{]|[)\]}]|\w+=(?!=)|.", text[at:], re.DOTALL):
        depth += (part in "([{") - (part in ")]}") if len(part) == 1 else 0
        if depth == 0:
            return
        if depth == 1 and part.endswith("=") and len(part) > 1:
            yield part[:-1]


def test_a_value_is_written_with_arguments_that_it_has():
    calls = [(where, text, each) for where, text in texts() for each in CALL.finditer(text)]
    wrong = {
        f"{where}: {call[1]}({name}=)"
        for where, text, call in calls
        for name in keywords(text, call.end())
        if name not in {*VALUES[call[1]], "x"}
    }
    assert wrong == set()
    assert {"Rows", "KafkaOutput", "SparkSubmit"} <= {call[1] for _, _, call in calls}


@cache
def known() -> set[str]:
    """The names that there are in the code, but for those that are taken only to say what they are called now."""
    found: set[str] = set()
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "broker").glob("*.py"), *(ROOT / "demo").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                found.add(node.value)
    modules = [path for folder in ("dags", "spark_apps", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return found | {path.stem for path in [*PACKAGE.rglob("*.py"), *modules]} | {"spark_apps"}


def test_an_argument_that_is_asked_for_is_one():
    of_all = known() | set().union(*VALUES.values())
    asked = {
        f"{where}: {name}=" for where, text in texts() for name in ASKED_FOR.findall(text) if name not in {*of_all, "x"}
    }
    assert asked == set()


def test_a_name_in_backticks_is_one():
    there = known() | {*OF_OTHERS.split()}
    ticks = [(where, tick) for where, text in texts() for tick in TICKS.findall(text)]
    wrong = {f"{where}: {tick}" for where, tick in ticks if NAME.fullmatch(tick) and tick not in there}
    assert wrong == set()
    assert "max_bad_records" not in there


def test_what_the_help_of_read_gives_as_a_decoder_is_one():
    (shown,) = re.findall(r"such as '(\{.*?\}\})'", " ".join(parsers()["read"].format_help().split()))
    assert Decode.from_text(shown)
