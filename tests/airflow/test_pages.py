"""What Airflow's pages show of a load: assets, documentation, links, and what its tasks leave for people."""

import json
from pathlib import Path

import pytest
from airflow.sdk import DAG
from support.dag_files import dags_of
from support.messages import says
from support.snippets import snippets

from airflow_provider_orderedkafka import OrderedLoad, ordered_load
from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.links import task_page

ROOT = Path(__file__).parents[2]
EXAMPLES, METRICS = ROOT / "dags", ROOT / "docs" / "metrics.md"
CONNECTION = "AIRFLOW_CONN_KAFKA_OF_PAGES"
ORDERS = OrderedLoad("orders", ["orders", "refunds"], kafka_conn_id="kafka_of_pages", ledger="/ledgers")


def group(**arguments):
    with DAG("d", schedule=None, catchup=False, max_active_runs=1):
        return ordered_load(ORDERS, to="topic:out", **arguments)


def topics(task):
    return [asset.uri for asset in task.inlets if not asset.uri.startswith("orderedkafka://ledger/")]


@pytest.mark.parametrize("servers", ["one:9092, two:9092", "SASL_SSL://one:9092,SASL_SSL://two:9092"])
def test_the_topics_are_assets_that_the_load_reads(monkeypatch, servers):
    extra = {"bootstrap.servers": servers}
    monkeypatch.setenv(CONNECTION, json.dumps({"conn_type": "kafka", "extra": extra}))
    read = ["kafka://one:9092/orders", "kafka://one:9092/refunds"]
    assert topics(group().tasks["load"]) == read
    assert topics(group(tasks={"load": {"inlets": []}}).tasks["load"]) == read


@pytest.mark.parametrize("connection", ["", "{", "kafka://", json.dumps({"conn_type": "kafka", "extra": "no"})])
def test_without_kafka_s_address_the_topics_are_assets_by_the_id_of_the_connection(monkeypatch, connection):
    monkeypatch.setenv(CONNECTION, connection)
    there = "orderedkafka://topic/kafka_of_pages"
    assert topics(group().tasks["load"]) == [f"{there}/orders", f"{there}/refunds"]


def test_each_task_says_what_it_does_and_what_clearing_it_does_unless_it_is_told_otherwise():
    tasks = group(tasks={"commit": {"doc_md": "ours"}}).tasks
    assert all("**Cleared" in tasks[name].doc_md for name in ("wait", "resolve", "load"))
    assert tasks["commit"].doc_md == "ours"


@pytest.mark.parametrize(
    ("base", "path"),
    [("", "/dags"), ("http://host:8080", "/dags"), ("https://host/team/airflow/", "/team/airflow/dags")],
)
def test_a_link_leads_to_the_range_below_the_path_that_airflow_has(monkeypatch, base, path):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert task_page("d", "manual__1+0", "orders.resolve") == f"{path}/d/runs/manual__1%2B0/tasks/orders.resolve/xcom"


def test_a_run_says_its_range_and_its_end_in_words(bench, capsys):
    bench.write(7)
    run = bench.dag("max_offsets=5", f'to="topic:{bench.output}"').test()
    tasks = {ti.task_id.rpartition(".")[2]: ti for ti in run.get_task_instances()}
    said = tasks["resolve"].xcom_pull(task_ids=tasks["resolve"].task_id, key="in_words")
    assert f"\n  {bench.topic}[0]  0 to 5: 5 offsets" in said
    ended = tasks["commit"].xcom_pull(task_ids=tasks["commit"].task_id, key="in_words")
    numbers = "5 rows read, 5 written, 0 late, no dead letters, in 1ms by attempt 1"
    assert "revision 1 " in ended
    assert f": {numbers}; 2 offsets " in ended
    out = capsys.readouterr().out
    assert ended in out
    progress = tasks["load"].xcom_pull(task_ids=tasks["load"].task_id, key="progress")
    assert progress is None if has_asset_state() else progress["offsets_done"] == 5
    links = {name: ti.xcom_pull(task_ids=ti.task_id, key="_link_range") for name, ti in tasks.items()}
    assert links.pop("resolve").endswith("/xcom")
    assert set(links.values()) == {None}


def test_every_example_says_in_airflow_s_list_and_on_its_own_page_what_it_is(airflow_home):
    dags = dags_of(EXAMPLES, EXAMPLES)
    kinds = {"load", "after a load", "by hand"}
    for name, dag in dags.items():
        assert dag.description, f"{name} has no description"
        assert dag.doc_md, f"{name} has no documentation"
        assert {"orderedkafka"} < dag.tags <= {"orderedkafka", *kinds}, f"{name} has the tags {dag.tags}"
        assert [task.task_id for task in dag.tasks if task.task_id.count(".") and not task.doc_md] == []
    assert len({dag.description for dag in dags.values()}) == len({Path(dag.fileloc) for dag in dags.values()})


def test_a_small_dag_tells_somebody_that_a_load_is_behind_until_it_has_loaded(bench, dag_file, states, capsys):
    [code] = [text for _, text in snippets(METRICS, "python")]
    edits = {'"orders", ["orders"]': f"{bench.load!r}, [{bench.topic!r}]", "100_000": "5"}
    for old, new in edits.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    dag = dag_file(code, "orders_lag.py")
    bench.write(7)
    assert states(dag.test()) == {"check": "failed"}
    assert says(capsys.readouterr().out, "ALERT: ... orders ... 7 offsets ")
    assert bench.dag().test().state == "success"
    assert states(dag.test()) == {"check": "success"}
    assert "ALERT" not in capsys.readouterr().out
