"""The application on a standalone cluster with two workers: there is nothing of it there, it is shipped as a bundle."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil
import pytest
from support.children import HOLDING, TESTS, Moment
from support.loads import DIRECT_FIRST, LANES, PARTITIONS, Load, events
from support.messages import says
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Records
from support.standalone import HOME, Standalone, standalone
from support.topics import Topics

from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from airflow_provider_orderedkafka.spark.bundle import build_bundle

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

COUNT, BATCH = 2_400, 400
PACKAGES = Path(confluent_kafka.__file__).parents[1]
PYTHON = getattr(sys, "_base_executable", sys.executable)
"""An interpreter that finds what is installed, but not this project: it is not there as files."""

ENVIRONMENT = {"PYTHONPATH": str(PACKAGES), "PYSPARK_PYTHON": PYTHON, "SPARK_HOME": str(HOME)}


class Cluster:
    """Two workers, whose tasks are held, once the file `now` is there, when they have sent their first records."""

    def __init__(self, spark: Standalone, folder: Path) -> None:
        self.spark = spark
        self.now, self.held = folder / "now", folder / "held"
        self._bundle = build_bundle(folder / "bundle.zip")

    def submit(self, *conf: str) -> dict[str, Any]:
        settings = ["spark.executor.memory=512m", "spark.executor.cores=1", "spark.cores.max=2", *conf]
        options = [part for each in settings for part in ("--conf", each)]
        files = f"{self._bundle},{TESTS / 'support' / 'transforms.py'}"
        submit = ("--master", self.spark.master, "--py-files", files, *options)
        return {"submit": submit, "environment": ENVIRONMENT}

    def kill_the_held_executor(self) -> None:
        worker = psutil.Process(int(self.held.read_text()))
        executors = {executor.pid for executor in self.spark.executors()}
        next(parent for parent in worker.parents() if parent.pid in executors).kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    moment = Moment(PooledProducer.send, "return", 1, str(folder / "now"))
    path = {"PYTHONPATH": f"{HOLDING}:{PACKAGES}"}
    with standalone(folder / "spark", 2, {**ENVIRONMENT, **path, **moment.held(folder / "held")}) as spark:
        yield Cluster(spark, folder)


def test_the_interpreter_of_the_cluster_has_nothing_of_ours(tmp_path: Path) -> None:
    look = "import confluent_kafka, airflow_provider_orderedkafka.errors"
    environment = {**os.environ, **ENVIRONMENT}
    command = [PYTHON, "-c", look]
    found = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert says(found.stderr, "ModuleNotFoundError: ... 'airflow_provider_orderedkafka")


@pytest.mark.parametrize("lane", DIRECT_FIRST)
def test_a_load_whose_executor_is_killed_at_work_ends_with_every_row_once_in_order(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, cluster: Cluster, lane: str
) -> None:
    for file in (cluster.now, cluster.held):
        file.unlink(missing_ok=True)
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(COUNT, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)
    argv = [argument.removeprefix("support.") for argument in LANES[lane]]
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, "--output-topic", output, *argv, **cluster.submit())
    application = load.start()
    assert application.until(load.there("counts/2")), application.log()[-3000:]
    cluster.now.touch()
    assert application.until(cluster.held.exists), application.log()[-3000:]
    cluster.kill_the_held_executor()
    assert application.wait() == 0, application.log()[-3000:]
    report = load.report()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert (report.attempt, report.complete, report.rows_emitted, report.may_be_doubled) == (1, True, COUNT, 0)
    assert report.core_ms is not None
    assert report.core_ms > 0
    assert lane in application.log()


@pytest.mark.parametrize("lane", DIRECT_FIRST)
def test_executors_that_lack_a_package_are_an_error_before_the_first_batch_that_says_how_to_ship_it(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, cluster: Cluster, lane: str
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(10, 1))
    bare = tmp_path / "python"
    without = f'$(echo ":$PYTHONPATH:" | sed "s|:{PACKAGES}:|:|g")'
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{without}" exec {PYTHON} "$@"\n')
    bare.chmod(0o755)
    how = cluster.submit(f"spark.pyspark.python={bare}", f"spark.pyspark.driver.python={PYTHON}")
    how["environment"] = {**ENVIRONMENT, "PYSPARK_PYTHON": str(bare), "PYSPARK_DRIVER_PYTHON": PYTHON}
    loaded = whole_range(kafka.bootstrap_servers, source)
    argv = [argument.removeprefix("support.") for argument in LANES[lane]]
    application = Load(kafka.bootstrap_servers, tmp_path, loaded, "--output-topic", output, *argv, **how).start()
    assert application.wait() == 2, application.log()[-3000:]
    assert says(application.log(), f"({PYTHON}) ... confluent-kafka ... pyarrow ... numpy")
    assert "venv-pack" in application.log()
    assert records.read(output) == []
