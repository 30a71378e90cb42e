"""Fixtures that every test may ask for: a real broker, topics and records of one's own, a real Spark."""

import atexit
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.browser import Browser
    from support.records import Records
    from support.secured import SecuredKafka
    from support.topics import Topics

    from broker import LocalKafka

# `broker` is that of the checkout; the package may be one that is installed.
sys.path.append(str(Path(__file__).parents[1]))
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["TZ"] = "UTC"
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
# No test touches the Airflow of the person who runs it, not even by importing it.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="orderedkafka-tests-")
atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
# An Airflow before 3.3 has no store for ledgers. Set by hand, all tests keep theirs there on any Airflow.
if any(each.version.split(".")[:2] < ["3", "3"] for each in distributions(name="apache-airflow-core")):
    os.environ.setdefault("AIRFLOW__ORDEREDKAFKA__LEDGER", f"{os.environ['AIRFLOW_HOME']}/ledgers")
# py4j logs a traceback for each connection that it opens anew. A Python before 3.11.8 cannot make two at one moment
# (python/cpython#106905): where two threads of Spark's client did, the test that asked for it failed.
logging.getLogger("py4j").setLevel(logging.WARNING)
logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
# How long an example takes says more of what else the machine does than of the code. A change is judged by the same
# examples each time; `make soak`, which says how many, draws new ones.
many = os.environ.get("ORDEREDKAFKA_EXAMPLES")
patient = hypothesis.settings(deadline=None, max_examples=int(many or "100"), derandomize=many is None)
hypothesis.settings.register_profile("patient", patient)
# What fails a mutant need not be small.
hypothesis.settings.register_profile("mutants", patient, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator["SecuredKafka"]:
    """One broker for the whole run, also for users with names. Tests that stop brokers start their own."""
    from support.secured import USERS, SecuredKafka

    version = os.environ.get("ORDEREDKAFKA_TEST_KAFKA")
    cluster = SecuredKafka(tmp_path_factory.mktemp("kafka"), {"USERS": USERS}, version=version)
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # the first start on a machine fetches the broker, and says so
        cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def topics(kafka: "LocalKafka", request: pytest.FixtureRequest) -> "Topics":
    """Topics of this test alone."""
    from support.topics import Topics

    return Topics(kafka.bootstrap_servers, request.node.name)


@pytest.fixture(scope="module")
def records(kafka: "LocalKafka") -> "Records":
    """Writes records in every way a producer can, and reads them back plainly; on a module's own cluster, if any."""
    from support.records import Records

    return Records(kafka.bootstrap_servers)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One Spark for the whole run, in this process."""
    from support.spark import local_session

    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Browser"]:
    """A real browser, where there is one."""
    from support.browser import MISSING, PROGRAM, browser

    if PROGRAM is None:
        pytest.skip(MISSING)
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def pytest_unconfigure() -> None:
    """The streams that logging writes to are closed now; what Spark's clients say as they go is nothing to report."""
    logging.raiseExceptions = False


UNTIL = os.environ.get("ORDEREDKAFKA_TESTS_UNTIL")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin no test once the time is up that there is for all of them."""
    if UNTIL is not None and time.time() > float(UNTIL):
        pytest.skip("the time for all tests is up; make faults runs them all")


COMPUTES, WAITS, BREAKS = ("property", "typing"), ("scenarios", "airflow", "integration"), ("fault",)
"""Folders of tests that compute all the time, that wait for brokers, Java and other processes, that break things."""

FILES_A_DAY: Final = 7
"""How many files with what breaks things a day begins later than the day before."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deal the files that compute out among those that wait: all cores have work while they run.

    What breaks things begins with another file each day, where there is a time for all: what that leaves out changes.
    """
    ranks: dict[Path, float] = {}
    for folders, first in ((COMPUTES, 0), (WAITS, 0), (BREAKS, FILES_A_DAY * int(float(UNTIL or 0) / 86_400))):
        files = list(dict.fromkeys(item.path for item in items if item.path.parent.name in folders))
        ranks |= {file: (number - first) % len(files) / len(files) for number, file in enumerate(files)}
    items.sort(key=lambda item: ranks.get(item.path, 1.0))


# Modules whose tests share a cluster, a lake or an Airflow, which takes longer to start than they take.
LAKES = ("lake_columns", "lakes", "upserts")
ALONE = ("canary", "object_store", "planning_questions", "registry", "standalone_cluster", "without_spark", "yarn")
TOGETHER = {name: name for name in ALONE} | dict.fromkeys(LAKES, "lakes")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What breaks things is dealt out test by test, but for what is started together."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByTest(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            name = Path(nodeid.partition("::")[0]).stem.removeprefix("test_")
            if name.startswith("airflow_"):
                return "airflow"
            return TOGETHER.get(name, nodeid)

    return ByTest(config, log)
