"""The examples, run as a user runs them: real Kafka, real Spark. `make test` loads a few, `make faults` the others."""

import json
import os
import re
import shutil
import sys
from datetime import UTC, datetime
from importlib import import_module
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable
from support.another_spark import environment
from support.another_spark import spark as another_spark
from support.dag_files import dags_of
from support.messages import says
from support.records import Record
from support.registry import registry
from support.snippets import PAGES, commands, snippets

import airflow_provider_orderedkafka
from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad
from airflow_provider_orderedkafka.core.notation.subscriptions import reads
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.forms import NEW_TOPIC
from airflow_provider_orderedkafka.spark.lanes.engine import Engine
from airflow_provider_orderedkafka.spark.session.starting import LazySession
from broker import sample

ROOT = Path(__file__).parents[2]
ALL = ("wait", "resolve", "load", "commit")
START = 1_700_000_000_000
EVENTS = "shop.public.customers"
DAGS = Path(os.environ["AIRFLOW_HOME"]) / "dags"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Playground:
    """An example on topics of its own: what is written to them, and what came out."""

    def __init__(self, example, topics, records, states):
        self._example, self._topics, self._records, self._states = example, topics, records, states
        self.source, self.output = topics.create("orders", 2), topics.create("out")

    def write(self, count=30, begin=1_700_000_000_000, topic=None):
        """Orders a millisecond apart; gives what they say."""
        rows = [Record(f"{n}".encode(), begin + n, n % 2, key=f"k{n % 3}".encode()) for n in range(count)]
        self._records.produce(topic or self.source, rows)
        return sorted(row.value for row in rows)

    def another(self):
        return self._topics.create("more", 2)

    def dag(self, name, output="", dag_id=None, edits=None):
        """The example, with these topics in place of its own."""
        edits = {'topics=["orders"]': f"topics=[{self.source!r}]"} if edits is None else edits
        return self._example(name, edits | ({output: self.output} if output else {}), dag_id)

    def run(self, dag, **how):
        """The states of the run's steps, by the last part of their names."""
        return {task.rpartition(".")[2]: state for task, state in self._states(dag.test(**how)).items()}

    @property
    def written(self):
        return sorted(record.value for record in self._records.read(self.output))


@pytest.fixture
def playground(example, topics, records, states, connections):
    return Playground(example, topics, records, states)


@pytest.fixture
def transforms(airflow_home):
    """The package with the examples' transforms, beside the DAG files."""
    shutil.copytree(ROOT / "dags" / "transforms", DAGS / "transforms")
    yield
    shutil.rmtree(DAGS / "transforms")


def sampled(count=200, topic="orders", avro=None):
    """The sample's records of a topic, older than a load's grace."""
    events = sample.events(count, encode=avro)
    return [Record(value, time - 60_000, 0, key=key.encode()) for to, key, value, time in events if to == topic]


def test_the_watched_example_loads_what_is_there_when_it_is_started(playground):
    rows = playground.write()
    dag = playground.dag("orders_watched", "orders-watched")
    assert playground.run(dag) == dict.fromkeys(ALL[1:], "success")
    assert playground.written == rows


@pytest.mark.fault
def test_the_example_with_a_pattern_loads_a_topic_that_comes_to_match_it(playground):
    rows = playground.write()
    prefix = playground.source.partition("-1-")[0]
    edits = {'re.compile("orders-[a-z]{2}")': f're.compile("{prefix}-[0-9]+-(orders|more)")'}
    dag = playground.dag("orders_by_pattern", "orders-everywhere", edits=edits)
    assert playground.run(dag) == dict.fromkeys(ALL, "success")
    assert playground.written == rows
    other = playground.another()
    more = playground.write(6, topic=other)
    assert playground.run(dag) == dict.fromkeys(ALL, "success")
    assert playground.written == sorted(rows + more)


def test_the_audited_example_proves_what_it_has_loaded(playground):
    rows = playground.write()
    edits = {'topics=["orders"]': f"topics=[{playground.source!r}]", "min_offsets=10_000": "min_offsets=1"}
    dag = playground.dag("orders_audited", "orders-audited", edits=edits)
    assert playground.run(dag) == dict.fromkeys((*ALL, "audit"), "success")
    assert playground.written == rows


@pytest.mark.fault
def test_the_hourly_example_loads_the_hour_of_its_run(playground):
    milliseconds = round(NOON.timestamp() * 1000)
    playground.write(10, milliseconds - 3_600_000)
    rows = playground.write(20, milliseconds)
    playground.write(10, milliseconds + 3_600_000)
    dag = playground.dag("orders_hourly", "orders-hourly")
    assert playground.run(dag, logical_date=NOON.replace(hour=13, minute=30)) == dict.fromkeys(ALL, "success")
    assert playground.written == rows


def test_the_replay_example_only_says_what_it_would_load_and_then_loads_the_first_rows_of_what_the_form_says(
    playground, capsys, caplog
):
    rows, second = playground.write(), playground.another()
    playground.write(4, topic=second)
    edits = {'topics=["orders", "refunds"]': f"topics=[{playground.source!r}, {second!r}]"}
    start = json.dumps({playground.source: [0, 0], second: [2, 2]})
    form = {"start": start, "end": "latest", "target": playground.output, "row_limit": 7}
    states = playground.run(playground.dag("orders_replay", edits=edits), run_conf={**form, "dry_run": True})
    assert states == dict.fromkeys(ALL[1:], "skipped")
    said = capsys.readouterr().out
    assert re.search("30 offsets from .* to latest; the row limit lets 7 rows pass", said)
    assert f"target    topic '{playground.output}'" in said
    assert "batches   about 1, of 30 offsets" in said
    assert playground.written == []
    states = playground.run(playground.dag("orders_replay", edits=edits), run_conf=form)
    assert states == dict.fromkeys(ALL[1:], "success")
    assert playground.written == sorted(rows, key=int)[:7]
    assert re.search(r"Spark's page for this load, while it runs: http://\S+:\d+", caplog.text)


def test_the_replay_form_makes_a_new_topic(playground, topics, records, capsys):
    rows, new, source = playground.write(), topics.name("new"), playground.source
    dag = playground.dag("orders_replay", edits={'topics=["orders", "refunds"]': f"topics=[{source!r}]"})
    assert playground.run(dag, run_conf={"start": "earliest", "target": new})["resolve"] == "failed"
    assert NEW_TOPIC in "".join(capsys.readouterr())
    playground.run(dag, run_conf={"start": "earliest", "target": new, "partitions": 3})
    assert sorted(each.value for each in records.read(new)) == rows


@pytest.mark.fault
def test_the_replay_example_writes_to_files_where_the_form_says_so(playground, tmp_path, capsys):
    from pyarrow import dataset

    rows, second = playground.write(), playground.another()
    edits = {'topics=["orders", "refunds"]': f"topics=[{playground.source!r}, {second!r}]"}
    form = {"start": "earliest", "end": "latest", "format": "parquet", "target": f"{tmp_path}/replayed"}
    states = playground.run(playground.dag("orders_replay", edits=edits), run_conf={**form, "dry_run": True})
    assert states == dict.fromkeys(ALL[1:], "skipped")
    assert f"target    FilesOutput('{tmp_path}/replayed')" in capsys.readouterr().out
    states = playground.run(playground.dag("orders_replay", edits=edits), run_conf=form)
    assert states == dict.fromkeys(ALL[1:], "success")
    files = [str(path) for path in (tmp_path / "replayed").glob("range_id=*/batch=*/*/*.parquet")]
    assert sorted(dataset.dataset(files).to_table(["value"])["value"].to_pylist()) == rows


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"strat": "-1h"}, "'strat' ... 'start'"),
        ({"target": "orders-ordered"}, "'orders-ordered'"),
        ({"target": "refunds", "duplicates_are_fine": True}, "'refunds' (to='refunds')"),
    ],
)
def test_the_replay_example_refuses_what_cannot_be_meant(playground, form, said, capsys):
    found = playground.run(playground.dag("orders_replay", edits={}), run_conf=form)
    assert (found["resolve"], found["load"]) == ("failed", "upstream_failed")
    assert says("".join(capsys.readouterr()), said)


@pytest.mark.fault
def test_the_decoding_example_makes_rows_by_customer_and_keeps_aside_what_is_no_json(
    playground, topics, records, transforms
):
    dead = topics.create("dead")
    good = [Record(b'{"customer": "c%d", "order": %d}' % (n % 3, n), START + n, n % 2) for n in range(10)]
    records.produce(playground.source, [*good, Record(b"no JSON", START + 11)])
    edits = {
        'topics=["orders"]': f"topics=[{playground.source!r}]",
        '"orders-dead"': repr(dead),
        'max_delay="15m"': "min_offsets=1",
    }
    dag = playground.dag("orders_decoded", "orders-by-customer", edits=edits)
    assert playground.run(dag) == dict.fromkeys(ALL, "success")
    assert sorted(json.loads(value)["order"] for value in playground.written) == list(range(10))
    assert [each.value for each in records.read(dead)] == [b"no JSON"]


@pytest.mark.fault
def test_of_the_examples_made_in_a_loop_each_has_its_own_ledger(playground, ledger_of):
    rows = playground.write()
    edits = {'topics=[f"orders-{country}"]': f"topics=[{playground.source!r}]", 'max_delay="1h"': "min_offsets=1"}
    dag = playground.dag("orders_by_country", "orders-{country}-ordered", "orders_be", edits=edits)
    assert playground.run(dag) == dict.fromkeys(ALL, "success")
    assert playground.written == rows
    assert ledger_of("orders_be").revision == 1


@pytest.mark.fault
def test_the_example_by_shell_runs_the_application_without_the_spark_provider(
    playground, ledger_of, monkeypatch, tmp_path
):
    monkeypatch.setenv("AIRFLOW_VAR_ORDERS_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    rows = playground.write()
    edits = {'topics=["orders"]': f"topics=[{playground.source!r}]", "min_offsets=10_000": "min_offsets=1"}
    dag = playground.dag("orders_by_shell", "orders-by-shell", edits=edits)
    assert playground.run(dag) == dict.fromkeys(ALL, "success")
    assert playground.written == rows
    ledger = ledger_of("orders_by_shell")
    assert (ledger.revision, ledger.rows_emitted) == (1, len(rows))
    (folder,) = (tmp_path / "checkpoints").iterdir()
    assert folder.name == ledger.outcomes[-1].range_id


OPERATIONS = "orders_operations"


@pytest.mark.parametrize("native", ["", ", render_template_as_native_obj=True"])
def test_the_operations_example_shows_previews_and_moves_a_ledger_and_asks_for_a_reason(
    bench, example, ledger_of, capsys, native
):
    bench.write(6)
    bench.dag().test()

    def operate(**form):
        capsys.readouterr()
        dag = example(OPERATIONS, {'load="orders"': f"load={bench.load!r}", "runs=1": f"runs=1{native}"})
        return dag.test(run_conf=form).get_task_instance("operate")

    assert "revision      1" in operate().xcom_pull()
    place = {"action": "rewind", "to": json.dumps({bench.topic: [0]})}
    assert "6 offsets" in operate(**place).xcom_pull()
    assert operate(**place, confirmed=True).state == "failed"
    assert "reason" in capsys.readouterr().out
    assert ledger_of(bench.load).revision == 1
    assert operate(**place, confirmed=True, reason="a bug").state == "success"
    assert ledger_of(bench.load).revision == 2
    stay = {"action": "rewind", "to": "current"}
    assert f"{bench.topic}[0]@0: stays" in operate(**stay).xcom_pull()
    assert operate(**stay, confirmed=True, reason="2026").state == "success"
    assert ledger_of(bench.load).home_dag is None
    assert repr(bench.load) in operate(action="abandon").xcom_pull()
    bench.order("fail 75")
    bench.dag().test()
    said = operate(action="abandon").xcom_pull()
    assert "revision 3" in said
    assert said.endswith("Nothing was changed: confirm to do it.")
    assert operate(action="abandon", confirmed=True, reason="given up").state == "success"
    ledger = ledger_of(bench.load)
    assert (ledger.open, ledger.outcomes[-1].kind, ledger.outcomes[-1].reason) == (None, "abandoned", "given up")
    assert operate(action="abandon", confirmed=True, reason="again").state == "failed"
    assert repr(bench.load) in capsys.readouterr().out


def test_the_consumer_example_says_what_a_commit_told(bench, example, capsys):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    bench.write(5)
    bench.dag(arguments=f"to=KafkaOutput({bench.output!r}),").test()
    dag = example("orders_consumer")
    assert dag.test().state == "success"  # by hand, without an event
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == bench.load)).all()
        capsys.readouterr()
        dag.get_task("report").python_callable(triggering_asset_events={"orders": events})
    assert capsys.readouterr().out == "revision 1: 5 rows, 0 late\n"


def test_the_sample_has_every_topic_that_the_examples_read_and_write(airflow_home):
    topics = sample.TOPICS.keys()
    dags = dags_of(ROOT / "dags", ROOT / "dags")
    tasks = [task for dag in dags.values() for task in dag.tasks]
    loads = [task.load for task in tasks if isinstance(getattr(task, "load", None), OrderedLoad)]
    read = {topic for load in loads for topic in load.named}
    patterns = {load.subscription for load in loads if not load.named}
    assert [topic for topic in topics if reads(*patterns, topic)] == ["orders-at", "orders-be", "orders-ch"]
    written = {topic for task in tasks if isinstance(getattr(task, "to", None), KafkaOutput) for topic in task.to.named}
    assert len(read) > 2 < len(written)
    assert (read - {EVENTS}) | written | {dags["orders_replay"].params["target"]} <= topics


def test_the_sample_gives_rows_and_one_dead_letter_to_every_example_that_decodes_json(airflow_home, spark, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "dags")
    batch = pa.RecordBatch.from_pylist(
        [
            {"key": each.key, "value": each.value, "topic": "orders", "partition": 0, "offset": number}
            | {name: datetime.fromtimestamp(each.timestamp / 1000, UTC) for name in ("timestamp", "order_time")}
            for number, each in enumerate(sampled())
        ]
    )
    tried = set()
    for task in (task for dag in dags_of(ROOT / "dags", ROOT / "dags").values() for task in dag.tasks):
        rows = getattr(task, "rows", None) if task.task_id.endswith(".load") else None
        if rows is None or rows.decode is None or rows.registries or task.load.named == (EVENTS,):
            continue
        decoded, bad = RecordDecoder.of(rows.decode, task.load.named, max_bad=rows.bad_records.most).split(batch)
        assert bad.column("value").to_pylist() == [b"no JSON"]
        module, _, function = rows.function.partition(":")
        records = Engine(LazySession()).sourced(spark.createDataFrame(pa.Table.from_batches([decoded])))
        assert getattr(import_module(module), function)(records).count() > 50
        tried.add(task.dag_id)
    assert tried == {"orders_decoded", "orders_enriched", "orders_to_iceberg"}


def test_the_form_of_every_example_can_be_sent_as_it_stands(airflow_home):
    for dag in dags_of(ROOT / "dags", ROOT / "dags").values():
        for name, param in dag.params.items():
            # Airflow's form takes a field for required unless it may be null, and an empty one for missing.
            left_out = param.value in ("", None) and "null" not in param.schema["type"]
            assert not left_out, f"{dag.dag_id}: {name} has to be filled in"


@pytest.mark.nightly
def test_the_example_of_a_table_appends_to_it(playground, tmp_path):
    from pyarrow import parquet

    table = tmp_path / "table"
    edits = {
        'topics=["orders"]': f"topics=[{playground.source!r}]",
        'Path.home() / "lake" / "orders"': f"Path({str(table)!r})",
    }
    dag = playground.dag("orders_to_delta", edits=edits)
    rows = []
    for _ in range(2):
        rows += playground.write()
        assert playground.run(dag) == dict.fromkeys(ALL[1:], "success")
    files = table.glob("order_time_day=*/*.parquet")
    found = [row for file in files for row in parquet.ParquetFile(file).read(["value"])["value"].to_pylist()]
    assert sorted(found) == sorted(rows)


@pytest.mark.nightly
def test_the_enriching_example_gives_paid_orders_their_customers_countries(playground, topics, records, transforms):
    events = sampled()
    records.produce(playground.source, events)
    edits = {
        'topics=["orders"]': f"topics=[{playground.source!r}]",
        '"orders-dead"': repr(topics.create("dead")),
        'max_delay="15m"': "min_offsets=1",
    }
    dag = playground.dag("orders_enriched", "orders-enriched", edits=edits)
    assert playground.run(dag) == dict.fromkeys(ALL, "success")
    orders = [json.loads(each.value) for each in events if each.value.startswith(b"{")]
    countries = {f"customer-{number}": ("AT", "BE", "CH")[number % 3] for number in range(100)}
    expected = [{**each, "country": countries[each["customer"]]} for each in orders if each["state"] == "paid"]
    found = [json.loads(value) for value in playground.written]
    assert sorted(found, key=itemgetter("order")) == expected


def change(offset, key, op, **row):
    value = json.dumps({"op": op, "after": row or None}).encode()
    return Record(op and value, START + offset, key % 2, key=json.dumps({"id": key}).encode())


CHANGES = (
    [change(n, n, "r", id=n, name=f"n{n}", country="AT") for n in range(4)]
    + [change(4, 1, "u", id=1, name="moved", country="BE"), change(5, 2, "d"), change(6, 2, None)]
    + [change(7, 3, "d"), change(8, 3, None), change(9, 9, "c", id=9, name="n3", country="CH")]
)
CUSTOMERS = [(0, "n0", "AT"), (1, "moved", "BE"), (9, "n3", "CH")]


def another_binary(monkeypatch):
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    return environment(another_spark("4.1.3")) / "bin" / "spark-submit"


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_the_example_of_change_events_into_delta_makes_a_table_that_equals_the_database(playground, records, tmp_path):
    table = tmp_path / "table"
    edits = {EVENTS: playground.source, 'Path.home() / "lake" / "customers"': f"Path({str(table)!r})"}
    dag = playground.dag("customers_to_delta", edits=edits)
    for part in (CHANGES[:5], CHANGES[5:]):
        records.produce(playground.source, part)
        assert playground.run(dag) == dict.fromkeys(ALL[1:], "success")
    query = "SELECT id, name, country FROM rows WHERE NOT _is_deleted ORDER BY id"
    rows = pa.table(QueryBuilder().register("rows", DeltaTable(str(table))).execute(query)).to_pylist()
    assert [tuple(row.values()) for row in rows] == CUSTOMERS


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_example_of_change_events_into_iceberg_makes_a_table_that_equals_the_database(
    playground, records, monkeypatch, tmp_path
):
    edits = {
        EVENTS: playground.source,
        'Path.home() / "lake"': f"Path({str(tmp_path)!r})",
        '"/opt/spark-4.1/bin/spark-submit"': repr(str(another_binary(monkeypatch))),
    }
    records.produce(playground.source, CHANGES)
    assert playground.run(playground.dag("customers_to_iceberg", edits=edits)) == dict.fromkeys(ALL[1:], "success")
    newest = max((tmp_path / "shop" / "customers" / "metadata").glob("v*.json"), key=lambda each: each.stat().st_mtime)
    rows = StaticTable.from_metadata(str(newest)).scan(row_filter="_is_deleted = false").to_arrow().to_pylist()
    assert sorted((row["id"], row["name"], row["country"]) for row in rows) == CUSTOMERS


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_example_of_iceberg_makes_columns_and_a_table_of_dead_letters(
    playground, records, transforms, monkeypatch, tmp_path
):
    edits = {
        'topics=["orders"]': f"topics=[{playground.source!r}]",
        'Path.home() / "lake"': f"Path({str(tmp_path)!r})",
        '"/opt/spark-4.1/bin/spark-submit"': repr(str(another_binary(monkeypatch))),
    }
    events = sampled()
    records.produce(playground.source, events)
    dag = playground.dag("orders_to_iceberg", edits=edits)
    assert playground.run(dag) == dict.fromkeys(ALL[1:], "success")
    orders = [json.loads(each.value) for each in events if each.value.startswith(b"{")]
    assert rows_of(tmp_path / "shop" / "orders" / "data", "order") == orders
    [dead] = rows_of(tmp_path / "shop" / "orders_dead" / "data", "offset", ["offset", "value"])
    assert dead == {"offset": 0, "value": b"no JSON"}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_example_of_avro_makes_columns_by_the_schemas_of_a_registry(
    playground, topics, records, transforms, monkeypatch, tmp_path
):
    edits = {
        'topics=["orders-avro"]': f"topics=[{playground.source!r}]",
        'registry="schema_registry"': 'registry="schema_registry", subject="orders-avro-value"',
        'Path.home() / "lake" / "orders-avro"': f"Path({str(tmp_path / 'table')!r})",
        '"orders-dead"': repr(topics.create("dead")),
        'max_delay="15m"': "min_offsets=1",
    }
    with registry(tmp_path) as url:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMA_REGISTRY", json.dumps({"conn_type": "http", "host": url}))
        with sample.avro(url) as avro:
            records.produce(playground.source, sampled(topic=sample.AVRO, avro=avro))
        dag = playground.dag("orders_avro", edits=edits)
        assert playground.run(dag) == dict.fromkeys(ALL, "success")
    assert rows_of(tmp_path / "table", "order") == [sample.order(n) for n in range(200) if n % 10]


def rows_of(folder, by, columns=("order", "customer", "state", "amount")):
    """The rows of a folder of Parquet files, in the order of a column."""
    from pyarrow import parquet

    files = [parquet.ParquetFile(path) for path in folder.rglob("*.parquet")]
    found = [row for file in files for row in file.read(list(columns)).to_pylist()]
    return sorted(found, key=itemgetter(by))


OF_A_DAG = re.compile(r"\b(?:ordered_load|ordered_intervals|ordered_replay|Rows|OrderedLoad|DAG)\(")
SNIPPETS = [(page, code) for page in PAGES for _, code in snippets(page, "python") if OF_A_DAG.search(code)]
COMMANDS = {tuple(words) for page in PAGES for _, text in snippets(page, "sh") for words in commands(text)}


@pytest.mark.parametrize(("page", "code"), SNIPPETS, ids=lambda each: each.stem if isinstance(each, Path) else "")
def test_a_load_on_a_page_of_the_documents_is_one_that_can_be_parsed(page, code, airflow_home, tmp_path):
    from airflow.sdk import DAG

    (tmp_path / "my_transforms.py").write_text("paid = with_total = only_paid = None")
    names = {name: getattr(airflow_provider_orderedkafka, name) for name in airflow_provider_orderedkafka.__all__}
    with DAG("page", schedule=None, catchup=False, max_active_runs=1) as dag:
        dag.fileloc = str(tmp_path / "dag.py")
        known = {**names, "DAG": DAG, "orders": OrderedLoad("orders", topics=["orders"])}
        exec(compile(code, dag.fileloc, "exec"), known)


@pytest.mark.parametrize("words", sorted(words[1:] for words in COMMANDS if words[0] == "airflow"), ids=" ".join)
def test_a_command_of_airflow_on_a_page_is_one_that_airflow_takes(words, airflow_home):
    from airflow.cli.cli_parser import get_parser

    get_parser().parse_args(words)


def test_every_example_is_run_by_a_test():
    run = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    examples = {path.stem for path in (ROOT / "dags").glob("*.py")}
    assert {name for name in examples if f'"{name}"' not in run} == set()
