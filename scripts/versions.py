"""Runs some tests with each supported version of Spark, Airflow, Kafka and the table formats: one of them varies.

    python scripts/versions.py [--only AXIS] [--ends] [--write] [--workers N] [name ...]

Each environment is built anew in `.cache/versions`, with the wheel as a user installs it; the tests are the checkout's.
Prints a table; `--write` puts its rows into README.md. Ends with 1 if a test fails or an environment cannot be built.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from airflow_provider_orderedkafka.outputs import PACKAGES as FORMATS

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".cache" / "versions"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SECONDS = 3_000
"""The longest that the tests of a row may take: many times what they need on a machine that does nothing else."""

KAFKA, SPARK, PACKAGES = (f"ORDEREDKAFKA_TEST_{each}" for each in ("KAFKA", "SPARK", "PACKAGES"))
"""Variables by which tests are told what to start, in place of the usual: a Kafka, a Spark and a table format."""

NO_FAILURES = ("-W", "default")
"""What other versions warn of."""

PYTEST = ("-q", "--timeout=1200", "--durations=15", *NO_FAILURES)
SUMMARY = re.compile(r"^(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", re.MULTILINE)
TESTS_FAILED = 1
PASSED, SKIPPED = re.compile(r"(\d+) passed"), re.compile(r"(\d+) skipped")
MARKED = re.compile(r"(?<=<!-- versions -->\n).*?(?=<!-- end of versions -->)", re.DOTALL)
HEAD = ("| version | together with | tests |", "| --- | --- | --- |")


@dataclass(frozen=True, slots=True)
class Environment:
    """What is installed, and which tests run there.

    Without `requirements` it is the environment of the checkout. `until` is a day: nothing that was released later is
    installed. An Airflow's constraints name what there was when it was released, so this comes close to them.
    """

    axis: str
    name: str
    tests: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    until: str = ""
    options: tuple[str, ...] = ()
    python: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Where it is built."""
        return PLACE / self.name.replace(" ", "-").lower() if self.requirements else ROOT / ".venv"

    @property
    def loads(self) -> Path:
        """The environment that loads run in: the tests of a format make one of their own."""
        return ROOT / ".cache" / f"pyspark-{self.variables[SPARK]}" if SPARK in self.variables else self.home


def _spark(version: str, *beside: str, python: str = "") -> Environment:
    """A cluster's environment: no Airflow; the wheel without its dependencies, and what executors import."""
    return Environment("spark", f"Spark {version}", APPLICATIONS, (f"pyspark=={version}", *beside), python=python)


def _airflow(version: str, spark: str, until: str = "", note: str = "", options: tuple[str, ...] = ()) -> Environment:
    requirements = (f"apache-airflow=={version}", f"pyspark=={spark}", f"pyspark-client=={spark}")
    return Environment("airflow", f"Airflow {version}{note}", TASKS, requirements, until, options)


def _kafka(version: str) -> Environment:
    tests = (f"{WHOLE_WAY}[{version}]", *BROKER)
    return Environment("kafka", f"Kafka {version}", tests, variables={KAFKA: version})


def _formats() -> Iterator[Environment]:
    """Each table format with each Spark that it is made for; PyPI's Spark 3.5 is one of Scala 2.12."""
    sparks = {_minor(version): version for version in SPARKS}
    for kind in ("delta", "iceberg"):
        package = FORMATS[kind]
        for spark, version in package.versions.items():
            name = f"{package.title} {_minor(version)} with Spark {spark}"
            named = package.of(spark, "2.12" if spark == "3.5" else "2.13")
            tests = (*LAKES, "-m", "not nightly", "-k", kind)
            yield Environment("format", name, tests, variables={SPARK: sparks[spark], PACKAGES: named})


def _minor(version: str) -> str:
    return version.rpartition(".")[0]


MARK = "pytest.mark.versions"
MARKED_FILES = sorted(path for path in ROOT.glob("tests/integration/test_*.py") if MARK in path.read_text("utf-8"))
APPLICATIONS = (*(str(path.relative_to(ROOT)) for path in MARKED_FILES), "-m", "versions")
"""No more than these files are imported: others need what a cluster does not have."""

TASKS = (
    "tests/airflow/test_provider.py",
    "tests/airflow/test_parsing.py",
    "tests/airflow/test_ledger_store.py",
    "tests/airflow/test_ledger_location.py",
    "tests/airflow/test_watcher.py",
    "tests/airflow/test_waiting.py",
    "tests/airflow/test_load_group.py::test_a_run_loads_what_is_there_and_the_ledger_says_so",
    "tests/airflow/test_load_group.py::test_an_error_that_a_retry_cannot_mend_is_not_retried",
    "tests/airflow/test_opentelemetry.py",
    "tests/airflow/test_page.py",
    "tests/airflow/test_page_of_failures.py",
    "tests/airflow/test_pages.py",
    "tests/airflow/test_status.py",
    "tests/airflow/test_examples.py::test_the_form_of_every_example_can_be_sent_as_it_stands",
    "tests/airflow/test_modes.py::test_a_cleared_interval_emits_its_event_again_or_is_reloaded_whole_as_its_load_says",
    "tests/airflow/test_another_airflow.py::test_a_range_that_an_older_airflow_began_is_finished_after_the_upgrade",
)
"""What Airflow makes of a DAG, runs of each kind with a quick application, the page, and an upgrade from the oldest."""

BROWSERS, NO_BROWSER = ("chromium", "google-chrome"), "there is no Chromium to look at the page: run scripts/browser"

BROKER = tuple(f"tests/integration/test_{each}.py" for each in ("offsets", "reader", "writing", "replays", "mirror"))
"""What this package asks of a broker, and tells it."""

LAKES = tuple(
    f"tests/fault/test_lakes.py::{each}"
    for each in (
        "test_a_table_is_made_by_day_and_each_batch_is_one_commit_and_one_file_in_order",
        "test_an_attempt_that_dies_around_its_commit_leaves_each_row_there_once",
    )
)
"""What a table looks like, and what an attempt leaves in it that dies around a commit."""

WHOLE_WAY = "tests/fault/test_kafka_versions.py::test_a_load_goes_its_whole_way_on_a_secured_kafka_of_each_version"

LOWEST = ("--resolution", "lowest-direct", "--extra", "spark", "-r", "pyproject.toml")

SPARKS = ("3.5.8", "4.0.4", "4.1.3", "4.2.0", "4.3.0")

ENVIRONMENTS = (
    _spark(SPARKS[0], "pyarrow<19", "numpy<2", "pandas<2.3", "setuptools<81", python="python3.11"),
    *map(_spark, SPARKS[1:]),
    _airflow("3.1.8", "4.0.0", "2026-03-12", " with the lowest", LOWEST),
    _airflow("3.1.8", "4.0.2", "2026-03-12"),
    _airflow("3.2.2", "4.1.2", "2026-06-03"),
    _airflow("3.3.2", "4.2.0"),
    _kafka("3.9.1"),
    _kafka("4.0.1"),
    _kafka("4.1.1"),
    _kafka("4.4.0"),
    *_formats(),
)


@dataclass(frozen=True, slots=True)
class Result:
    """A row of the table."""

    name: str
    together_with: str
    tests: str
    passed: bool

    def __str__(self) -> str:
        return f"| {self.name} | {self.together_with} | {self.tests} |"


def main(argv: Sequence[str]) -> int:
    """Try the environments that are asked for, one after the other."""
    arguments = _arguments(argv)
    chosen = list(_chosen(arguments))
    if not chosen:
        sys.exit(f"No environment is called so. There are: {', '.join(each.name for each in ENVIRONMENTS)}")
    wheel = _built_wheel()
    results = []
    for environment in chosen:
        begun = time.monotonic()
        results.append(_tried(environment, wheel, arguments.workers))
        print(f"{results[-1]} {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print("\n".join([*HEAD, *map(str, results)]))
    if arguments.write:
        page = ROOT / "README.md"
        page.write_text(written(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 0 if all(result.passed for result in results) else 1


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run some tests with each supported version.")
    parser.add_argument("names", nargs="*", metavar="name", help="how a name begins, such as 'Spark 4.0'")
    parser.add_argument("--only", choices=sorted({each.axis for each in ENVIRONMENTS}))
    parser.add_argument("--ends", action="store_true", help="the oldest and the newest of each axis")
    parser.add_argument("--write", action="store_true", help="put the rows into README.md")
    parser.add_argument("--workers", default="1", metavar="N", help="how many processes run a row's tests")
    return parser.parse_args(argv)


def _chosen(arguments: argparse.Namespace) -> Iterator[Environment]:
    for axis, group in groupby(ENVIRONMENTS, lambda each: each.axis):
        rows = list(group)
        for each in (rows[0], rows[-1]) if arguments.ends else rows:
            if _named(each.name.lower(), arguments.names) and arguments.only in {None, axis}:
                yield each


def _named(found: str, names: Sequence[str]) -> bool:
    """Whether it is asked for: by its name, or by how it begins where that is no other one's name."""
    whole = {each.name.lower() for each in ENVIRONMENTS}
    asked = [name.lower() for name in names]
    return not asked or any(name == found if name in whole else found.startswith(name) for name in asked)


def _built_wheel() -> Path:
    """The wheel; it and the source distribution are what an index accepts, or the script ends."""
    dist = PLACE / "dist"
    _uv("build", "--quiet", "--clear", "--out-dir", str(dist))
    (wheel,) = dist.glob("*.whl")
    _uv("tool", "run", "--quiet", "twine", "check", "--strict", *map(str, dist.glob("*.[wt]*")))
    return wheel


def _tried(environment: Environment, wheel: Path, workers: str) -> Result:
    if environment.axis == "airflow" and not any(map(shutil.which, BROWSERS)):
        return Result(environment.name, "", f"FAILED: {NO_BROWSER}", passed=False)
    try:
        if environment.requirements:
            _build(environment, wheel)
        tests, passed = _tested(environment, workers)
    except subprocess.SubprocessError as error:
        return Result(environment.name, "", f"FAILED: {error}", passed=False)
    return Result(environment.name, _together_with(environment), tests, passed)


def _build(environment: Environment, wheel: Path) -> None:
    """An environment with Airflow gets the wheel with these extras, another one what a cluster has."""
    named = {"PYTHON": environment.python} if environment.python else {}
    python = _said("scripts/python", **named).strip()
    _uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", python, str(environment.home))
    install = ("pip", "install", "--quiet", "--python", str(environment.home / "bin" / "python"))
    # Alone first: where an index says nothing of caching, uv would download and build PySpark anew, twice.
    _uv(*install, "--no-deps", *(each for each in environment.requirements if each.startswith("pyspark")))
    what = [*environment.requirements, "--group", "test", *environment.options]
    if environment.until:
        what += ["--exclude-newer", environment.until]
    if environment.axis == "airflow":
        _uv(*install, *what, f"{wheel}[airflow,spark]")
    else:
        _uv(*install, *what, *_for_executors())
        _uv(*install, "--no-deps", str(wheel))


def _for_executors() -> list[str]:
    """What a cluster needs beside Spark."""
    required = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]]
    return [each for each in required if not each.startswith(("apache-airflow", "pyspark"))]


def _tested(environment: Environment, workers: str) -> tuple[str, bool]:
    """How many tests passed and failed; `bin/pytest` does not put the checkout before what is installed."""
    name = environment.name.replace(" ", "-").lower()
    log = PLACE / f"{name}.log"
    by_file = ("-n", workers, "--dist", "loadfile", "--no-loadscope-reorder")
    pytest = ("pytest", *PYTEST, *by_file, "-o", f"cache_dir={PLACE / 'pytest' / name}", *environment.tests)
    with log.open("wb") as said:
        ended = _run_there(environment, ROOT, said, *pytest)
        if ended.returncode == TESTS_FAILED:  # on a busy machine Spark gives up on a worker that starts slowly
            ended = _run_there(environment, ROOT, said, *pytest, "--last-failed")
    counts = SUMMARY.findall(log.read_text("utf-8", "replace"))
    if ended.returncode or not counts:
        said_last = counts[-1] if counts else f"pytest ended with {ended.returncode}"
        return f"FAILED: {said_last}, see {log.relative_to(ROOT)}", False
    return summed(counts), True


def summed(counts: Sequence[str]) -> str:
    """How many tests passed, how many of them when they were run again, and how many did not run."""
    passed = [int(number) for each in counts for number in PASSED.findall(each)]
    again = f", {passed[1]} of them at the second try" if passed[1:] else ""
    skipped = "".join(f", {number} skipped" for number in SKIPPED.findall(counts[0]))
    return f"{sum(passed)} passed{again}{skipped}"


def _run_there(
    environment: Environment, folder: Path, said: BinaryIO, program: str, *arguments: str
) -> subprocess.CompletedProcess[bytes]:
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYSPARK_PYTHON"}}
    return subprocess.run(  # noqa: S603 - our own tests
        [environment.home / "bin" / program, *arguments],
        cwd=folder,
        env=clean | environment.variables | {"COLUMNS": "1000"},
        stdout=said,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )


def _together_with(environment: Environment) -> str:
    """The versions of what is installed and matters, other than the one that the row is named by."""
    python = environment.loads / "bin" / "python"
    listed = _said("scripts/uv", "pip", "freeze", "--quiet", "--python", str(python))
    versions = dict(re.findall(r"^([\w-]+)==(\S+)", listed, re.MULTILINE))
    names = {
        "pyspark": "Spark",
        "apache-airflow": "Airflow",
        "confluent-kafka": "confluent-kafka",
        "pyarrow": "pyarrow",
    }
    known = [f"{title} {versions[name]}" for name, title in names.items() if name in versions]
    number = _said(str(python), "-c", "import platform; print(platform.python_version())").strip()
    return ", ".join(each for each in (f"Python {number}", *known) if each not in environment.name)


def _uv(*arguments: str) -> None:
    subprocess.run(["scripts/uv", *arguments], cwd=ROOT, check=True)  # noqa: S603, S607 - in ROOT


def _said(*command: str, **environment: str) -> str:
    return subprocess.run(  # noqa: S603
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def written(page: str, results: Iterable[Result]) -> str:
    """The page with the rows of the results in their places; rows of other environments stay as they are."""
    rows = rows_of(page) | {result.name: str(result) for result in results}
    ordered = [rows[each.name] for each in ENVIRONMENTS if each.name in rows]
    return MARKED.sub(lambda _: "\n".join([*HEAD, *ordered, ""]), page)


def rows_of(page: str) -> dict[str, str]:
    """The rows of the table in the page, by their names."""
    (table,) = MARKED.findall(page)
    return {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[len(HEAD) :]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
