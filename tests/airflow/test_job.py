"""What is asked for in a DAG or by flags is what an application is told, whoever starts it.

The application's command line is read as it reads it: no Spark starts, and no Kafka is asked.
"""

import json
import os
import sys
from hashlib import sha256
from itertools import combinations, product
from pathlib import Path

import jinja2
import pytest
from airflow.sdk import DAG
from support.bench import APPLICATION
from support.messages import naming
from support.runs import World, a_range
from support.services import by_shell

from airflow_provider_orderedkafka import (
    Allow,
    Application,
    Avro,
    Decode,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
    KafkaOutput,
    OrderedLoad,
    Rows,
    SparkSubmit,
    ordered_load,
)
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.errors import LifecycleError, SettingError
from airflow_provider_orderedkafka.job import LONGEST, Job, Work, job_of
from airflow_provider_orderedkafka.launch import checked_place
from airflow_provider_orderedkafka.loads.resolving import Resolved
from airflow_provider_orderedkafka.operators import submit
from airflow_provider_orderedkafka.outputs import named
from airflow_provider_orderedkafka.spark.application.command import read_arguments

LOADED = a_range("r1", 1, 0, 5)
PARAMS = {"name": "shop"}
FUNCTION, ARROW = "support.transforms:unchanged", "json:dumps"
DECODE = Decode(value=Avro(schema='{"type": "record", "name": "R", "doc": "{{ ds }} }}", "fields": []}'))
ROWS = {
    "as they are": {},
    "by a transform": {"transform": FUNCTION},
    "by an Arrow transform": {"arrow_transform": ARROW},
    "by a program": {"application": Application("apps/quick.py", arguments=["--diary", "{{ params.name }}"])},
}
OUTPUTS = {
    "topics": ("topic:{}-out", lambda name: KafkaOutput(f"{name}-out", keep_order=None, writers=3, provenance=False)),
    "iceberg": ("iceberg:lake.{}.orders", lambda name: IcebergOutput(f"lake.{name}.orders", partition_by=())),
    "delta": ("delta:s3a://lake/{}", lambda name: DeltaOutput(f"s3a://lake/{name}", new_columns="add")),
    "files": ("csv:/data/{}", lambda name: FilesOutput(f"/data/{name}", "csv", {"header": "true"})),
}
FACTORS = {
    "way": ["spark-submit", "another operator", "by hand"],
    "rows": list(ROWS),
    "said": ["as a value", "as a text", "as a template"],
    "output": list(OUTPUTS),
    "decode": [None, DECODE],
}


def pairwise():
    """Combinations in which each two values of two factors occur together."""
    left = {pair for one in product(*FACTORS.values()) for pair in combinations(enumerate(map(str, one)), 2)}
    while left:
        new = {one: left.intersection(combinations(enumerate(map(str, one)), 2)) for one in product(*FACTORS.values())}
        best = max(new, key=lambda one: len(new[one]))
        left -= new[best]
        yield best


@pytest.fixture
def connections(airflow_home, monkeypatch):
    extra = {"bootstrap.servers": "b:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps({"kafka.bootstrap.servers": "b:9092"}))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


class Told:
    """A task instance that keeps what is told to others."""

    def __init__(self):
        self.found = {}

    def xcom_push(self, key, value):
        self.found[key] = value

    def xcom_pull(self, task_ids, key="return_value"):
        return self.found[key]


def parse(**arguments):
    with DAG("parsed", schedule=None, catchup=False, max_active_runs=1):
        return ordered_load(OrderedLoad("orders", topics=["orders"]), **arguments).tasks


THAT_MAY_HAVE_IT = SparkSubmit(jars="/opt/lake.jar", conf={"spark.sql.catalog.lake": "a.Catalog"})


def argv_of_spark_submit(to, rows, folder):
    """The command line behind the application's path."""
    load = parse(to=to, rows=rows, spark=THAT_MAY_HAVE_IT)["load"]
    job = job_of(load.to, load.rows, lambda text: load.render_template(text, {"params": PARAMS}))
    way = load._way({"params": PARAMS}, job)
    argv = submit._made(way, 1, Work(LOADED, job, "/c/r1"), folder, print)._command.argv
    return list(argv[argv.index(way.application) + 1 :])


def argv_of_another_operator(to, rows, checkpoint="/c"):
    """What its command line is once Airflow has rendered it."""
    launches = []
    tasks = parse(
        to=to, rows=rows, checkpoint=checkpoint, spark=lambda launch: launches.append(launch) or by_shell(launch)
    )
    resolve, ti = tasks["resolve"], Told()
    resolve._push_place(ti, Resolved(Action.PLAN, "", LOADED, 0, resolve._job({"params": PARAMS})), LOADED)
    return [jinja2.Template(each).render(ti=ti, params=PARAMS) for each in launches[0].arguments]


def said_by_hand(to, rows):
    flags = ["--range", LOADED.to_text(), "--checkpoint", "/c/r1"]
    flags += ["--output", to if isinstance(to, str) else json.dumps(Job(to).to_value()["to"])]
    for name in ("transform", "arrow_transform"):
        flags += [f"--{name.replace('_', '-')}", getattr(rows, name)] if getattr(rows, name) else []
    return flags + (["--decode", rows.decode.to_text()] if rows.decode else [])


@pytest.mark.parametrize(
    ("way", "rows", "said", "output", "decode"),
    [
        pytest.param(*one, id=", ".join("decoded" if each is DECODE else str(each) for each in one))
        for one in pairwise()
    ],
)
@pytest.mark.usefixtures("connections")
def test_an_application_is_told_what_was_asked_for(way, rows, said, output, decode, tmp_path):
    in_words, made = OUTPUTS[output]
    asked = Rows(decode=decode, **ROWS[rows])
    place = "{{ params.name }}" if said == "as a template" else "shop"
    to = in_words.format(place) if said == "as a text" else made(place)
    wanted = named(to) if isinstance(to, str) else made("shop")
    if way == "by hand":
        argv = said_by_hand(to if isinstance(to, str) else wanted, asked)
        asked = Rows(asked.decode, asked.transform, asked.arrow_transform)  # who runs a program has named it
    elif way == "spark-submit":
        argv = argv_of_spark_submit(to, asked, tmp_path)
    else:
        argv = argv_of_another_operator(to, asked)
    own = [] if asked.application is None else ["--diary", "shop"]
    assert argv[: len(own)] == own
    found = read_arguments(argv[len(own) :], "program.py")
    assert (found.job.to, found.job.rows) == (wanted, asked)
    assert (found.range, found.checkpoint) == (LOADED, "/c/r1")
    assert (found.transform is not None, found.arrow_transform is json.dumps) == (
        asked.transform is not None,
        asked.arrow_transform is not None,
    )
    assert found.attempt == (1 if way == "spark-submit" else None)
    assert found.source.kafka["bootstrap.servers"] == found.cluster["bootstrap.servers"] == "b:9092"


def a_long_schema():
    """A schema of 30 kB that packs badly."""
    fields = [{"name": f"f{sha256(b'%d' % n).hexdigest()}", "type": "long"} for n in range(350)]
    text = json.dumps({"type": "record", "name": "Large", "fields": fields})
    assert len(text) > 30_000
    return text


@pytest.mark.usefixtures("connections")
def test_a_work_that_is_longer_than_an_argument_may_be_lies_beside_the_checkpoint(tmp_path):
    rows = Rows(decode=Decode(value=Avro(schema=a_long_schema())), bad_records=Allow(5, "dead"))
    argv = argv_of_another_operator(KafkaOutput("out"), rows, str(tmp_path))
    [kept] = (tmp_path / "r1" / "works").iterdir()
    assert argv == ["--work", f"at:{kept}"]
    found = read_arguments(argv, "program.py")
    assert (found.range, found.job.rows, found.checkpoint) == (LOADED, rows, f"{tmp_path}/r1")


@pytest.mark.usefixtures("connections")
def test_a_work_that_is_short_is_a_word_that_no_shell_and_no_template_changes():
    _, word = argv_of_another_operator(KafkaOutput("out"), Rows(decode=Decode(value=Avro(registry="main"))))
    assert len(word) <= LONGEST
    assert set(word.removeprefix("packed:")) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=")


def test_an_attempt_elsewhere_than_the_ones_before_it_or_nowhere_is_refused_before_it_is_counted():
    world = World()
    world.high = 5
    run = world.run("d/1")
    range_id = run.resolve()
    run.load(range_id)
    begun = world.ledger.open.checkpoint
    assert checked_place(run.books, range_id, begun) == begun
    with pytest.raises(LifecycleError, match=naming(f"'{begun}', ... '/moved/{range_id}'")):
        checked_place(run.books, range_id, f"/moved/{range_id}")
    with pytest.raises(LifecycleError, match="resolve"):
        checked_place(run.books, None, None)
    assert world.ledger.open.attempt == 1


@pytest.mark.usefixtures("connections")
def test_an_operator_by_hand_runs_the_program_that_makes_its_rows():
    program = str(APPLICATION)
    rows = Rows(application=Application(program, arguments=["--diary", "d"]))
    with DAG("orders"):
        load = submit.SubmitOrderedLoadOperator(
            task_id="load", load=OrderedLoad("orders", topics=["orders"]), rows=rows
        )
    way = load._way({}, Job(None, rows))
    assert (way.application, way.words) == (program, ("--diary", "d"))
    missing = Rows(application=Application("apps/qick.py"))
    with pytest.raises(SettingError, match=naming("load 'orders': ... 'apps/qick.py'")):
        load._way({}, Job(None, missing))
