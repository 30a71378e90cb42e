"""Where a load writes, as a value that is checked when the DAG is parsed: the tasks that come of it."""

import pytest

from airflow_provider_orderedkafka import DeltaOutput, IcebergOutput, KafkaOutput, OrderedLoad
from airflow_provider_orderedkafka.errors import SettingError


def parse(**arguments):
    """Parse a DAG with one load in it."""
    from airflow.sdk import DAG

    from airflow_provider_orderedkafka.dag import ordered_load

    with DAG("parsed", schedule=None, catchup=False, max_active_runs=1):
        return ordered_load(OrderedLoad("orders", topics=["orders", "refunds"]), **{"output_topic": "out", **arguments})


TABLE = IcebergOutput("lake.shop.orders")


def test_a_table_is_named_as_a_value_and_brings_its_application_its_asset_and_its_place_in_the_digest():
    steps = parse(output_topic=None, output=TABLE, asset=None).steps
    assert steps["load"].application.endswith("/ordered_table.py")
    assert steps["commit"].asset.uri == "iceberg://lake/shop/orders"
    assert "output={'kind': 'iceberg', 'table': 'lake.shop.orders', 'identity': True}" in steps["resolve"].digest


def test_a_topic_named_as_a_value_is_the_one_that_its_name_alone_means():
    named, short = (parse(**how).steps for how in ({"output_topic": None, "output": KafkaOutput("out")}, {}))
    assert named["resolve"].digest == short["resolve"].digest
    assert named["load"].application == short["load"].application


def test_a_table_named_in_words_is_the_one_that_its_value_means():
    said, value = (parse(output_topic=None, output=each).steps for each in ("iceberg:lake.shop.orders", TABLE))
    assert said["load"].application == value["load"].application
    assert said["resolve"].digest == value["resolve"].digest
    assert said["commit"].asset == value["commit"].asset


def test_a_template_says_where_to_write_once_it_is_rendered_and_every_step_knows_it():
    steps = parse(output_topic=None, output="{{ params.format }}:{{ params.target }}").steps
    assert "output='{{ params.format }}:{{ params.target }}'" in steps["resolve"].digest
    steps["load"].range_id = None  # it is another task's
    steps["load"].render_template_fields({"params": {"format": "delta", "target": "/lake/orders"}})
    steps["load"]._settle_output()
    assert steps["load"].output_value == DeltaOutput("/lake/orders")
    assert steps["load"].application.endswith("/ordered_table.py")
    steps["resolve"].render_template_fields({"params": {"format": "topic", "target": "out"}})
    steps["resolve"]._settle_output()
    assert steps["resolve"].outputs == ["out"]


def test_a_rendered_output_that_the_load_reads_is_refused_before_anything_is_written_down():
    resolve = parse(output_topic=None, output="topic:{{ params.target }}").steps["resolve"]
    resolve.render_template_fields({"params": {"target": "refunds"}})
    with pytest.raises(SettingError, match="would write into 'refunds'"):
        resolve._settle_output()


@pytest.mark.parametrize("name", ["output", "asset"])
def test_the_asset_to_emit_may_be_another_one(name):
    from airflow.sdk import Asset

    mine = Asset("mine")
    assert parse(**{name: mine}).steps["commit"].asset == mine


def test_an_asset_of_ones_own_wins_over_the_table_s():
    from airflow.sdk import Asset

    mine = Asset("mine")
    assert parse(output_topic=None, output=TABLE, asset=mine).steps["commit"].asset == mine


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"output": TABLE}, "output_topic='out' and output= are both set"),
        ({"output_topic": None, "output": "lake.shop.orders"}, "a topic's name alone goes into output_topic="),
        ({"output_topic": None, "output": "icberg:lake.shop.orders"}, "did you mean 'iceberg'"),
        ({"output_topic": None, "output": "topic:refunds"}, "would write into 'refunds'"),
        (
            {"output_topic": None, "output": "{{ x }}", "submit": lambda launch: None, "checkpoint": "/c"},
            "submit= needs to know the output when the DAG is parsed",
        ),
        (
            {"output_topic": None, "output": TABLE, "application_args": ["--sink-option", "path=/a"]},
            "output= and application_args both say where to write",
        ),
        ({"output_topic": None, "output": KafkaOutput("orders")}, r"would write into 'orders' \(topic='orders'\)"),
        (
            {"output_topic": None, "output": KafkaOutput("a", dead_letters="refunds")},
            r"would write into 'refunds' \(dead_letters='refunds'\)",
        ),
    ],
)
def test_where_to_write_is_said_once_and_is_not_where_the_load_reads(arguments, said):
    with pytest.raises(SettingError, match=said):
        parse(**arguments)


def test_on_another_cluster_a_topic_may_have_the_name_of_a_source():
    assert parse(output_topic=None, output=KafkaOutput("orders", kafka_conn_id="second")).steps
