"""A range that the release before this one began and was killed in is finished by this one: each row is there once."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support import quick_java
from support.loads import PARTITIONS, events
from support.messages import says
from support.older import begun_by_the_release_before
from support.outputs import expected_of, stamp
from support.table_formats import ICEBERG, rows_of

from airflow_provider_orderedkafka.tools.commands.at_airflow import store_of

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

COUNT, BATCH = 4_000, 1_000
ENDED = dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
SUPPORT = str(Path(__file__).parents[1] / "support")

SOURCE = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import *

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest", batch_offsets={batch}, {settings})
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load, to={to}, rows=Rows({rows}), spark=SparkSubmit(**{spark!r}), checkpoint={checkpoint!r})
"""


class Begun:
    """A load whose DAG is written again and again, and its checkpoints."""

    def __init__(self, name, topic, folder, dag_file, states):
        self.name, self.topic, self.folder = name, topic, folder
        self.checkpoints = folder / "checkpoints"
        self._dag_file, self._states = dag_file, states

    def run(self, to, rows="", settings="", **spark):
        """One run; the states of its tasks."""
        conf = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", **spark.pop("conf", {})}
        source = SOURCE.format(
            load=self.name,
            topic=self.topic,
            batch=BATCH,
            settings=settings,
            to=to,
            rows=rows,
            spark={"conf": conf, "py_files": SUPPORT, **spark},
            checkpoint=str(self.checkpoints),
        )
        run = self._dag_file(source, f"{self.name}.py").test()
        return {task.rpartition(".")[2]: state for task, state in self._states(run).items()}

    def run_and_kill(self, *how, **spark):
        """One run, whose application is killed once its first batch is counted."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._kill, args=(ended,))
        watcher.start()
        try:
            return self.run(*how, **spark)
        finally:
            ended.set()
            watcher.join()

    def _kill(self, ended):
        while not list(self.checkpoints.glob("*/counts/1/*.json")):
            if ended.wait(0.005):
                return
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # a child of one that was killed before
                if any(part.endswith(("/ordered_replay.py", "/ordered_table.py")) for part in process.cmdline()):
                    process.kill()

    def reports(self):
        return [json.loads(file.read_text()) for file in self.checkpoints.glob("*/report.json")]


@pytest.fixture
def begun(connections, topics, records, dag_file, states, tmp_path):
    topic = topics.create("in", PARTITIONS)
    records.produce(topic, events(COUNT, 1))
    return Begun(f"load-{time.time_ns()}", topic, tmp_path, dag_file, states)


WHERE = pytest.mark.parametrize("where", ["in a folder", pytest.param("in Airflow", marks=pytest.mark.nightly)])


def settings_of(where, folder, more=""):
    return more + (f'ledger="{folder}/ledger"' if where == "in a folder" else "")


def store(begun, where):
    return store_of(begun.name, f"{begun.folder}/ledger" if where == "in a folder" else None)


def python_of(form):
    return str(form.home() / "bin" / "python")


def noted(**facts):
    """What that release noted of a range's job, in words."""
    usual = {"application": "packaged", "decode": None, "keep_order": "key", "output": None, "output_topic": None}
    told = usual | {"sink_options": {}, "transform": None} | facts
    return "\n".join(f"{name}={value!r}" for name, value in sorted(told.items()))


@WHERE
@pytest.mark.parametrize(
    ("rows", "transform", "limit"),
    [
        ("", None, None),
        pytest.param(
            'transform="support.transforms:unchanged"', "support.transforms:unchanged", None, marks=pytest.mark.nightly
        ),
        ('transform="support.transforms:tripled"', "support.transforms:tripled", 7_001),
    ],
    ids=["directly", "by a transform", "three rows for a record, to a limit"],
)
def test_a_range_into_a_topic_is_finished_and_a_changed_dag_is_refused(
    begun, records, topics, where, rows, transform, limit, capsys
):
    output = topics.create("out", 3)
    to, settings = f"KafkaOutput({output!r})", settings_of(where, begun.folder, f"row_limit={limit}, " if limit else "")
    assert begun.run_and_kill(to, rows, settings)["load"] == "failed"
    begun_by_the_release_before(store(begun, where), noted(output_topic=output, transform=transform))
    changed = f"KafkaOutput({output!r}, keep_order=None)"
    assert begun.run(changed, rows, settings)["resolve"] == "failed"
    assert says(capsys.readouterr().out, "to.keep_order ... 'key', ... None")
    assert begun.run(to, rows, settings) == ENDED
    seen = [(stamp(each).source, each.value) for each in records.read(output)]
    each_gives = 3 if limit else 1
    assert len(seen) == len(set(seen)) == (limit or COUNT * each_gives)
    [report] = begun.reports()
    assert (report["attempt"], report["complete"], report["may_be_doubled"]) == (2, True, 0)
    assert report["rows_emitted"] == len(seen)


@WHERE
@pytest.mark.parametrize("transform", [None, pytest.param("support.transforms:tripled", marks=pytest.mark.nightly)])
def test_a_range_into_a_table_is_finished(begun, records, where, transform, monkeypatch):
    for name, value in {**quick_java.environment(ICEBERG.home()), "PYSPARK_PYTHON": python_of(ICEBERG)}.items():
        monkeypatch.setenv(name, value)
    rows = "" if transform is None else f"transform={transform!r}"
    spark = {"conf": ICEBERG.settings(begun.folder), "spark_binary": str(ICEBERG.home() / "bin" / "spark-submit")}
    how = ('"iceberg:lake.shop.orders"', rows, settings_of(where, begun.folder))
    assert begun.run_and_kill(*how, **spark)["load"] == "failed"
    said = {"kind": "iceberg", "table": "lake.shop.orders"}
    begun_by_the_release_before(store(begun, where), noted(output=said, transform=transform))
    assert begun.run(*how, **spark) == ENDED
    table = begun.folder / "warehouse" / "shop" / "orders"
    found = sorted(row for file in ICEBERG.files(table) for row in rows_of(file, "topic", "partition", "offset"))
    each_gives = 1 if transform is None else 3
    assert found == sorted([each.position for each in expected_of(records, begun.topic)] * each_gives)
    [report] = begun.reports()
    assert (report["attempt"], report["may_be_doubled"]) == (2, 0)
