"""A job is told as options in one place, and read from options in one other: nobody else names them."""

import ast
from functools import cache

import pytest
from support.sources import PACKAGE, imported_from, label, package_of, sources, tree_of

from airflow_provider_orderedkafka.spark.application.command import ARGUMENTS
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE, SINK

TABLES = (APPLICATION_SOURCE, APPLICATION_SINK, SINK)
NAMES = {option.name for table in TABLES for option in table.options if option.name != option.name.lower()}
"""The options that no other thing is called like."""

IN_ANY_CASE = NAMES | {name.lower() for name in NAMES}
"""Options are read in any case."""

FLAGS = {flag for arguments in ARGUMENTS.values() for flag, *_ in arguments}
WITH_A_WORK = {
    "launch.py": {"--work"},
    "job.py": {"--option", "--sink-option"},
    "operators/submit.py": {"--work", "--attempt"},
}
"""What Airflow's side passes: the work, and where Kafka is."""

SPEAKERS = (
    *("core/notation/subscriptions.py", "spark/connector", "spark/application/command.py"),
    *("tools", "reader.py"),
)

HOMES = {"airflow_provider_orderedkafka.job", "airflow_provider_orderedkafka.outputs"}
OTHER_FORMS = {
    "Job": {"job.py", "parsing.py", "spark/application/command.py"},
    "Work": {"operators/resolve.py", "operators/submit.py", "spark/application/command.py"},
    "named": {"job.py", "parsing.py", "spark/application/command.py"},
}
"""Who makes one, or reads it from a text: parsing checks one, works travel from the operators to the command line."""


def inside(path):
    return str(path.relative_to(PACKAGE))


def listeners():
    return [path for path in sources() if not inside(path).startswith(SPEAKERS)]


def texts_of(path):
    """The constants, and the beginnings of texts with something in them."""
    found = {each.value for each in ast.walk(tree_of(path)) if isinstance(each, ast.Constant)}
    texts = {each for each in found if isinstance(each, str)}
    return texts | {text.partition("=")[0] for text in texts}


@pytest.mark.parametrize("path", listeners(), ids=label)
def test_no_module_but_those_that_read_a_command_line_names_an_option_or_a_flag(path):
    assert texts_of(path) & (IN_ANY_CASE | FLAGS) == WITH_A_WORK.get(inside(path), set())


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_a_job_is_made_and_read_in_few_places_and_nowhere_else(name):
    found = {inside(path) for path in sources() if name in called_of_the_job(path)}
    assert found == OTHER_FORMS[name]


@cache
def called_of_the_job(path):
    """Those names of the job's and the outputs' modules that a module calls, or calls a maker of."""
    tree = tree_of(path)
    froms = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    ours = {name.name for each in froms if imported_from(each, package_of(path)) in HOMES for name in each.names}
    calls = [each.func for each in ast.walk(tree) if isinstance(each, ast.Call)]
    makers = [f.value for f in calls if isinstance(f, ast.Attribute) and f.attr.startswith("from_")]
    names = ours | {"Job"} if inside(path) == "job.py" else ours
    return names & {each.id for each in (*calls, *makers) if isinstance(each, ast.Name)}


def test_those_that_read_a_command_line_name_them():
    found = texts_of(PACKAGE / "spark" / "application" / "command.py") | texts_of(
        PACKAGE / "spark" / "connector" / "option_tables.py"
    )
    assert found >= NAMES
