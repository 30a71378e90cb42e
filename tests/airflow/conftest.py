"""A real Airflow for the tests: its own home, a migrated SQLite database, DAGs from files, `dag.test()` runs."""

import atexit
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_orderedkafka.compat.airflow import has_asset_state

if TYPE_CHECKING:
    from support.bench import Bench
    from support.browser import Browser, Tab
    from support.page import Served

    from broker import LocalKafka

HOME = Path(tempfile.mkdtemp(prefix="orderedkafka-airflow-"))
DAGS = HOME / "dags"
EXAMPLES = Path(__file__).parents[2] / "dags"
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Airflow reads these when it is first imported, so they stand here and not in a fixture.
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(HOME / "logs"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
)


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """Airflow's home, with a database that is ready."""
    DAGS.mkdir()
    with warnings.catch_warnings():  # what Airflow's own dependencies say when they are imported is not ours to mend
        warnings.simplefilter("ignore")
        from airflow.sdk.execution_time.supervisor import in_process_api_server
        from airflow.utils.db import initdb

        initdb()
        in_process_api_server()
    return HOME


@pytest.fixture
def connections(kafka: "LocalKafka", monkeypatch: pytest.MonkeyPatch) -> None:
    """The two connections that the examples ask for, and a Spark that starts soon."""
    from support import quick_java

    for name, value in quick_java.environment().items():
        monkeypatch.setenv(name, value)
    extra = {"bootstrap.servers": kafka.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))


@pytest.fixture
def nothing_to_wait_for(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task has stored stands at once: `dag.test()` has no two of them at the same moment."""
    for module in ("context", "loads.ledger"):
        monkeypatch.setattr(f"airflow_provider_orderedkafka.{module}.SETTLE_SECONDS", 0.0)


@pytest.fixture
def dag_file(airflow_home: Path, nothing_to_wait_for: None) -> Iterator[Callable[[str], Any]]:
    """Writes a DAG file where Airflow looks for it; gives the DAG that it defines, or the named one."""
    from support.dag_files import dags_of

    written: list[Path] = []

    def write(source: str, name: str = "under_test.py", dag_id: str | None = None) -> Any:
        path = DAGS / name
        path.write_text(source, encoding="utf-8")
        written.append(path)
        found = dags_of(path, DAGS)
        if dag_id is not None:
            return found[dag_id]
        (dag,) = found.values()
        return dag

    yield write
    for path in written:
        path.unlink(missing_ok=True)


@pytest.fixture
def example(dag_file: Callable[..., Any]) -> Callable[..., Any]:
    """One of the examples, as a user has it after copying it and writing other topics into it."""

    def copy(name: str, edits: dict[str, str] | None = None, dag_id: str | None = None) -> Any:
        source = (EXAMPLES / f"{name}.py").read_text("utf-8")
        for old, new in (edits or {}).items():
            assert old in source, f"{name} does not say {old}"
            source = source.replace(old, new)
        return dag_file(source, f"{name}.py", dag_id)

    return copy


@pytest.fixture
def ledger_of() -> Callable[[str], Any]:
    """A load's ledger, as a command finds it."""
    from airflow_provider_orderedkafka.tools.commands.at_airflow import store_of

    return lambda load: store_of(load).ledger()


@pytest.fixture
def state_stores() -> None:
    """Airflow's own state stores, which it has since 3.3; before that, loads keep their ledgers in a location."""
    if not has_asset_state():
        pytest.skip("Airflow has no state stores before 3.3")


@pytest.fixture
def states() -> Callable[[Any], dict[str, str]]:
    """The states of a run's tasks."""
    return lambda run: {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


@pytest.fixture
def quick_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick application, which starts no Spark, is run without the Java that spark-submit starts for it."""
    folder = Path(__file__).parents[1] / "support" / "quick_submit"
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))


@pytest.fixture
def bench(dag_file: Any, topics: Any, records: Any, tmp_path: Path, connections: None, quick_submit: None) -> "Bench":
    """A load on a topic of its own."""
    from support.bench import Bench

    return Bench(dag_file, (topics.create(), topics.create("out")), records, tmp_path)


@pytest.fixture(scope="module")
def served(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Served]":
    """Airflow, with the loads that the page's tests tell of."""
    from support.page import STORIES, Served, keep, story_of

    with Served(airflow_home, tmp_path_factory.mktemp("served")).running() as found:
        keep(found, {load: story_of(load) for load in STORIES})
        yield found


@pytest.fixture
def anonymous(chromium: "Browser") -> "Iterator[Tab]":
    with chromium.tab() as tab:
        tab.size(1_280)
        yield tab


@pytest.fixture
def tab(anonymous: "Tab", served: "Served") -> "Iterator[Tab]":
    """A tab of somebody who is logged in; nothing may complain in it."""
    anonymous.log_in(served.url, served.token("anna"))
    yield anonymous
    missing = "status of 404 (Not Found)"  # the status of a load that has not run, the tasks of a run that never was
    assert [error for error in anonymous.errors if missing not in error] == []
