"""A range that an Airflow has left open: an older one, which is upgraded; or one that died beside another one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from support.another_spark import ROOT, environment
from support.applications import events
from support.audited import prove
from support.bench import APPLICATION as QUICK
from support.bench import HELD
from support.outputs import FLAWLESS, check, expected_of

from airflow_provider_orderedkafka.locations import ledger_in

OLDEST = "3.1.8"
REQUIREMENTS = (
    f"apache-airflow=={OLDEST}",
    *("pyspark==4.0.2", "pyspark-client==4.0.2", "--exclude-newer", "2026-03-12"),
    *("--editable", f"{ROOT}[airflow]"),
)
"""The oldest Airflow, with what there was on the day of its release, and this checkout."""

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(900),
    pytest.mark.skipif(version("apache-airflow-core") == OLDEST, reason="there is nothing to upgrade to"),
]

COUNT = 6_000

APPLICATION = """
import os
import signal
import time
from pathlib import Path

from airflow_provider_orderedkafka.spark.app import run_available_now

DRIVER, MARK = os.getpid(), Path({mark!r})


def unchanged(batch):
    if not MARK.exists() and any(b'"number": 3000,' in value for value in batch.column("value").to_pylist()):
        MARK.touch()
        time.sleep(2)  # what was sent before lands
        os.kill(DRIVER, signal.SIGKILL)
        time.sleep(60)
    return batch


run_available_now(arrow_transform=unchanged)
"""

DAG = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import Application, KafkaOutput, OrderedLoad, Rows, ordered_load

load = OrderedLoad("upgraded", topics=[{source!r}], start="earliest", ledger={ledgers!r}, batch_offsets=2_000)
with DAG("upgraded", schedule=None, max_active_runs=1):
    ordered_load(
        load,
        to=KafkaOutput({output!r}, writers=1),
        rows=Rows(application=Application({application!r}, {arguments!r})),
    )
"""
MIGRATE, RUN = ("db", "migrate"), ("dags", "test", "upgraded")


@pytest.fixture
def ledgers(tmp_path):
    return str(tmp_path / "ledgers")


@pytest.fixture
def dag_of(topics, records, tmp_path, ledgers):
    """Makes an Airflow's home with a DAG of one load; gives the home and the load's topics."""

    def made(application: Path, *arguments: str):
        source, output = topics.create("in", 3), topics.create("out", 3)
        records.produce(source, events(COUNT, 1))
        dags = tmp_path / "airflow" / "dags"
        dags.mkdir(parents=True)
        said = {"source": source, "output": output, "ledgers": ledgers, "arguments": list(arguments)}
        (dags / "upgraded.py").write_text(DAG.format(application=str(application), **said))
        return dags.parent, source, output

    return made


def test_the_oldest_airflow_loads_what_is_there(kafka, dag_of, tmp_path, ledgers):
    home, _, _ = dag_of(QUICK, "--diary", str(tmp_path / "diary"))
    python = environment(REQUIREMENTS)
    shutil.copy(migrated(python, kafka.bootstrap_servers), home)
    said = run_in(python, home, kafka.bootstrap_servers, RUN)
    ledger = ledger_in("upgraded", ledgers).ledger()
    assert (ledger.revision, ledger.rows_emitted, ledger.open) == (1, COUNT, None), said
    assert len((tmp_path / "diary").read_text().splitlines()) == 1


def migrated(python: Path, servers: str) -> Path:
    """A new database of this environment's Airflow, which is made once and kept beside it."""
    database = python / "airflow.db"
    if not database.exists():
        with tempfile.TemporaryDirectory(dir=python) as home:
            said = run_in(python, Path(home), servers, MIGRATE)
            assert (Path(home) / "airflow.db").exists(), said
            (Path(home) / "airflow.db").replace(database)
    return database


@pytest.mark.nightly
def test_a_range_that_an_older_airflow_began_is_finished_after_the_upgrade(kafka, dag_of, records, tmp_path, ledgers):
    application = tmp_path / "application.py"
    application.write_text(APPLICATION.format(mark=str(tmp_path / "died")))
    home, source, output = dag_of(application)

    said = run_in(environment(REQUIREMENTS), home, kafka.bootstrap_servers, MIGRATE, RUN)
    begun = ledger_in("upgraded", ledgers).ledger().open
    assert begun.attempt == 1, said
    assert 0 < len(records.read(output)) < COUNT, said

    said = run_in(Path(sys.prefix), home, kafka.bootstrap_servers, MIGRATE, RUN)
    ledger = ledger_in("upgraded", ledgers).ledger()
    assert (ledger.revision, ledger.rows_emitted, ledger.open) == (1, COUNT, None), said
    assert ledger.outcomes[-1].range_id == begun.range_id
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS


@pytest.mark.parametrize("spark_too", [True, False], ids=["with its Spark", "but for its Spark"])
def test_what_an_airflow_that_was_killed_left_open_another_one_refuses_by_name_and_ends_as_its_heir(
    kafka, dag_of, records, tmp_path, ledgers, spark_too
):
    application = shutil.copy(HELD, tmp_path)
    home, source, output = dag_of(application)
    heir, python, servers = tmp_path / "heir", Path(sys.prefix), kafka.bootstrap_servers
    heir.mkdir()
    (heir / "dags").symlink_to(home / "dags")
    for each in (home, heir):
        shutil.copy(migrated(python, servers), each)
    died = started(python, home, servers, RUN, tmp_path / "died.log")
    try:
        while not (tmp_path / "held").exists():
            assert died.poll() is None, (tmp_path / "died.log").read_text()
            time.sleep(0.1)
    finally:
        family = [died, *died.children(recursive=True)]
        left = [each for each in family if not spark_too and is_spark(each)]
        left += [each for parent in left for each in parent.children(recursive=True)]
        for each in set(family) - set(left):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        died.wait(30)
    opened = ledger_in("upgraded", ledgers).ledger().open
    airflow = opened.owner.rpartition("@")[2]

    assert airflow in run_in(python, heir, servers, RUN)
    assert ledger_in("upgraded", ledgers).ledger().open == opened
    (tmp_path / "go on").touch()
    said = run_in(python, heir, servers, ("variables", "set", "orderedkafka_airflow", airflow), RUN)
    ledger = ledger_in("upgraded", ledgers).ledger()
    assert (ledger.revision, ledger.rows_emitted, ledger.open) == (1, COUNT, None), said
    assert ledger.outcomes[-1].range_id == opened.range_id
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    prove(servers, Path(opened.checkpoint))


def is_spark(process: psutil.Process) -> bool:
    """Whether it runs spark-submit; not if it has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return "SparkSubmit" in " ".join(process.cmdline())
    return False


def started(python: Path, home: Path, servers: str, command: tuple[str, ...], log: Path) -> psutil.Popen:
    """A command of an environment's Airflow, which writes to this log."""
    ours = ("AIRFLOW", "PYTHONPATH", "PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with log.open("ab") as out:
        argv = [python / "bin" / "airflow", *command]
        return psutil.Popen(argv, env=kept | settings, stdout=out, stderr=subprocess.STDOUT)


def run_in(python: Path, home: Path, servers: str, *commands: tuple[str, ...]) -> str:
    """Run commands of an environment's Airflow; what it said."""
    log = home / "said.log"
    for command in commands:
        started(python, home, servers, command, log).wait(400)
    return log.read_text()
