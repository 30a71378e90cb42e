"""Where a load writes, as a value that is checked when the DAG is parsed: the tasks that come of it."""

import pytest
from airflow.sdk import DAG, Asset
from support.messages import naming

from airflow_provider_orderedkafka import (
    Allow,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
    KafkaOutput,
    OrderedLoad,
    Rows,
    ordered_load,
)
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import packaged_for

TABLE = IcebergOutput("lake.shop.orders")


def parse(**arguments):
    """Parse a DAG with one load in it."""
    with DAG("parsed", schedule=None, catchup=False, max_active_runs=1):
        return ordered_load(OrderedLoad("orders", topics=["orders", "refunds"]), **arguments)


def job(task, **params):
    """What a run with these params does."""
    return task._job({"params": params})


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("topic:out", KafkaOutput("out")),
        ("iceberg:lake.shop.orders", TABLE),
        ("delta:s3a://lake/orders", DeltaOutput("s3a://lake/orders")),
        ("delta:shop.orders", DeltaOutput(table="shop.orders")),
        ("parquet:/data/orders", FilesOutput("/data/orders")),
        ("csv:/data/orders", FilesOutput("/data/orders", "csv")),
    ],
)
def test_an_output_in_words_is_the_one_that_its_value_means(said, value):
    in_words, as_value = (job(parse(to=each).tasks["resolve"]) for each in (said, value))
    assert in_words == as_value
    assert in_words.key == as_value.key
    assert in_words.to == value


def test_each_output_has_its_application():
    assert {packaged_for(each).rpartition("/")[2] for each in (TABLE, DeltaOutput("/a"), FilesOutput("/a"))} == {
        "ordered_table.py"
    }
    assert packaged_for(KafkaOutput("out")).endswith("/ordered_replay.py")


@pytest.mark.parametrize(
    ("to", "params", "found"),
    [
        ("{{ params.format }}:{{ params.target }}", {"format": "delta", "target": "/lake/a"}, DeltaOutput("/lake/a")),
        ("{{ params.format }}:{{ params.target }}", {"format": "topic", "target": "out"}, KafkaOutput("out")),
        (KafkaOutput("{{ params.t }}", writers=3), {"t": "out"}, KafkaOutput("out", writers=3)),
        (KafkaOutput(topics=["a", "{{ params.t }}"]), {"t": "b"}, KafkaOutput(topics=["a", "b"])),
        (IcebergOutput("lake.{{ params.t }}"), {"t": "shop.orders"}, IcebergOutput("lake.shop.orders")),
        (DeltaOutput("s3a://lake/{{ params.t }}/"), {"t": "orders"}, DeltaOutput("s3a://lake/orders")),
        (DeltaOutput("{{ params.t }}"), {"t": "/lake/orders"}, DeltaOutput("/lake/orders")),
        (FilesOutput("/data/{{ params.t }}", "csv"), {"t": "orders"}, FilesOutput("/data/orders", "csv")),
    ],
)
def test_the_place_of_an_output_may_be_a_template(to, params, found):
    made = job(parse(to=to).tasks["resolve"], **params)
    assert made.to == found
    assert made.written == (to if isinstance(to, str) else to.place)


@pytest.mark.parametrize(
    ("to", "rendered", "said"),
    [
        ("topic:{{ params.t }}", "refunds", "'refunds'"),
        (KafkaOutput("{{ params.t }}"), "refunds", "'refunds'"),
        (KafkaOutput("{{ params.t }}"), "my topic", "'my topic'"),
        (DeltaOutput("{{ params.t }}"), "lake", "path ... 'lake'"),
        (FilesOutput("{{ params.t }}"), "s3a://me:secret@lake/a", "path"),
        ("{{ params.t }}", "nowhere", "'<format>:<name>' ... 'nowhere'"),
    ],
)
def test_what_a_run_renders_is_checked_as_what_is_written_in_the_dag(to, rendered, said):
    with pytest.raises(SettingError, match=naming(said)):
        job(parse(to=to).tasks["resolve"], t=rendered)


def test_the_asset_to_emit_may_be_another_one():
    mine = Asset("mine")
    for to in (TABLE, KafkaOutput("out")):
        assert parse(to=to, asset=mine).tasks["commit"].asset == mine
        assert parse(to=to).tasks["commit"].asset is None, "the output's own is known once a range is loaded"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"to": "lake.shop.orders"}, "'<format>:<name>' ... 'lake.shop.orders'"),
        ({"to": "icberg:lake.shop.orders"}, "'icberg ... 'iceberg'"),
        ({"to": Asset("mine")}, "to= ... KafkaOutput, IcebergOutput, DeltaOutput ... FilesOutput, ... Asset"),
        ({"to": KafkaOutput("a"), "rows": Rows(bad_records=Allow(1, "a"))}, "'a'"),
        ({"to": KafkaOutput("a"), "rows": Rows(bad_records=Allow(1, TABLE))}, "to=IcebergOutput("),
    ],
)
def test_where_to_write_is_checked_at_once(arguments, said):
    with pytest.raises(SettingError, match=naming(f"load 'orders': ... {said}")):
        parse(**arguments)


def test_on_another_cluster_a_topic_may_have_the_name_of_a_source():
    assert parse(to=KafkaOutput("orders", kafka_conn_id="second")).tasks
