"""Outputs as values: checked where they are made, and the same on the other side of a command line."""

import json
from dataclasses import fields

import pytest
from support.loop import a_range
from support.messages import says

from airflow_provider_orderedkafka.core.codec import encode, packed
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import options_for, packaged_for
from airflow_provider_orderedkafka.job import Allow, Application, Job, Rows, Work
from airflow_provider_orderedkafka.locations import check_no_login
from airflow_provider_orderedkafka.outputs import (
    OPTIONS_VARIABLE,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
    KafkaOutput,
    named,
)
from airflow_provider_orderedkafka.spark.application.command import read_arguments

OUTPUTS = [
    KafkaOutput("orders-ordered", kafka_conn_id="second", writers=3, keep_order=None),
    KafkaOutput(topics=("a", "b"), producer={"compression.type": "zstd"}),
    IcebergOutput("lake.shop.orders", partition_by=("days(order_time)", "bucket(16, key)")),
    DeltaOutput(path="s3a://lake/orders", new_columns="add"),
    DeltaOutput(table="shop.orders", partition_by=(), create=False, properties={"delta.appendOnly": "true"}),
    FilesOutput("/data/orders", "orc"),
]
THERE = ("--option", "kafka.bootstrap.servers=b:9092")
ELSEWHERE = ("--sink-option", "kafka.bootstrap.servers=c:9092")
CLUSTER = ("--checkpoint", "/c", "--option", "kafka.bootstrap.servers=b:9092", "--option", "subscribe=orders")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("topic:orders-ordered", KafkaOutput("orders-ordered")),
        ("iceberg:lake.shop.orders", IcebergOutput("lake.shop.orders")),
        ("delta:shop.orders", DeltaOutput(table="shop.orders")),
        ("delta:s3a://lake/orders", DeltaOutput("s3a://lake/orders")),
        ("parquet:/data/orders", FilesOutput("/data/orders")),
        ("csv:s3a://lake/orders", FilesOutput("s3a://lake/orders", "csv")),
    ],
)
def test_an_output_is_named_in_one_text(text, output):
    assert named(text) == output


@pytest.mark.parametrize("output", OUTPUTS, ids=repr)
def test_an_output_comes_to_the_application_as_it_was_made(output):
    work = Work(a_range(), Job(output), "/c")
    found = read_arguments(["--work", packed(work.to_text()), *THERE, *ELSEWHERE], "app")
    assert (found.job, found.range, found.checkpoint) == (Job(output), a_range(), "/c")


@pytest.mark.parametrize("output", OUTPUTS, ids=repr)
def test_by_hand_an_output_is_said_as_json_of_what_is_not_the_default(output):
    usual = {field.name: field.default for field in fields(output)}
    said = {
        name: value
        for name, value in encode(output).items()
        if name not in usual or getattr(output, name) != usual[name]
    }
    text = json.dumps(said)
    assert read_arguments([*CLUSTER, *ELSEWHERE, "--output", text], "app").job.to == output


def test_by_hand_topics_are_said_by_options_too():
    options = ("outputTopics=a,b", "keepOrder=none", "writers=3", "usePartition=true", "provenance=false")
    argv = [*CLUSTER, *(part for each in options for part in ("--sink-option", each))]
    output = KafkaOutput(topics=("a", "b"), keep_order=None, writers=3, use_partition=True, provenance=False)
    assert read_arguments(argv, "app").job == Job(output)


def test_an_output_s_own_settings_for_writing_are_added_to_those_of_the_source_s_cluster():
    text = '{"kind": "kafka", "topic": "a", "producer": {"compression.type": "zstd"}}'
    found = read_arguments([*CLUSTER, "--output", text], "app").cluster
    assert (found["compression.type"], found.servers) == ("zstd", "b:9092")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--output", "topic:a", "--sink-option", "writers=4"], "'writers' ... --output"),
        (["--output-topic", "a", "--sink-option", "keep_order=key"], "'keep_order' ... 'keepOrder'"),
        (["--sink-option", "path=/a"], "'path' ... --output ... parquet:/data/orders"),
        (["--output-topic", "a", "--sink-option", "keepOrder=time"], "'key', 'partition' ... 'none', ... 'time'"),
        (["--output-topic", "a", "--sink-option", "deadLetterTopic=d"], "--bad-records 10 --dead-letters orders-dead"),
        (["--output", '{"kind": "kafka", "topic": "a", "kafka_conn_id": "second"}'], "'second'"),
        (["--output-topic", "a", "--dead-letters", "d"], "--bad-records ... --dead-letters"),
        (["--output-topic", "a", "--bad-records", "1", "--dead-letters", "a"], "'a'"),
        (["--output-topic", "a", "--bad-records", "1", "--dead-letters", "parquet:/a"], "parquet"),
        *((["--output", text], "--output") for text in ("{", "{}", '{"kind": "hudi"}')),
        (["--output", '{"kind": "files", "version": 2}'], "--output"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_by_the_command_line(argv, said):
    with pytest.raises(SettingError) as refused:
        read_arguments([*CLUSTER, *argv], "app")
    assert says(str(refused.value), said)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FilesOutput("s3a://lake/o", options={"fs.s3a.secret.key": "canary"}),
        lambda: DeltaOutput("s3a://lake/o", options={"fs.azure.account.key.lake": "canary"}),
        lambda: IcebergOutput("lake.o", properties={"s3.access-key": "canary"}),
        lambda: KafkaOutput("o", producer={"oauth.token": "canary"}),
        lambda: FilesOutput("s3a://KEY:canary@lake/o"),
        lambda: FilesOutput("wasbs://c@acc/x?sv=1&sig=canary"),
        lambda: DeltaOutput("wasbs://c@acc/x?sig=canary"),
        lambda: check_no_login("wasbs://c@acc/loads?sig=canary"),
        lambda: Application("https://u:canary@h/app.py"),
        lambda: Application(arguments=("--registry", "https://u:canary@h/")),
        lambda: Application(arguments=("--password", "canary")),
        lambda: Application(arguments=("--password canary",)),
        lambda: Application(arguments=("--password=canary",)),
        lambda: Application(arguments=("--conf", '{"password": "canary"}')),
    ],
)
def test_a_secret_in_what_a_document_keeps_is_refused_where_it_is_written_down_and_not_quoted(make):
    with pytest.raises(SettingError) as error:
        make()
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("output", "place"),
    [
        (KafkaOutput("orders-{{ ds }}"), "orders-x"),
        (KafkaOutput(topics=("a-{{ ds }}", "b")), "a-x, b"),
        (IcebergOutput("lake.{{ ds }}.orders"), "lake.x.orders"),
        (DeltaOutput("{{ ds }}/orders"), "/x/orders"),
        (DeltaOutput(table="shop.{{ ds }}"), "shop.x"),
        (FilesOutput("s3a://{{ ds }}/orders"), "s3a://x/orders"),
    ],
)
def test_a_place_may_be_a_template_and_is_checked_once_it_is_rendered(output, place):
    assert output.templated
    rendered = output.rendered(lambda text: text.replace("{{ ds }}", "/x" if text.startswith("{") else "x"))
    assert (rendered.place, rendered.templated) == (place, False)
    with pytest.raises(SettingError):
        output.rendered(lambda _: "two words")


@pytest.mark.parametrize("beside", [("--output-topic", "a"), ("--sink-option", "Writers=2")], ids=str)
def test_where_to_write_is_said_once(beside):
    with pytest.raises(SettingError, match="--output"):
        read_arguments([*CLUSTER, "--output", "topic:orders-ordered", *beside], "app")


def test_where_bad_records_go_is_said_beside_the_output():
    more = ("--bad-records", "3", "--dead-letters")
    assert read_arguments([*CLUSTER, "--output-topic", "a", *more, "dead"], "app").job.rows.bad_records == Allow(
        3, "dead"
    )
    table = read_arguments([*CLUSTER, "--output", "parquet:/a", *more, "iceberg:lake.dead"], "app").job
    assert table == Job(FilesOutput("/a"), Rows(bad_records=Allow(3, IcebergOutput("lake.dead"))))


def test_the_second_cluster_s_secrets_go_by_the_environment_and_its_options_reach_the_sink_alone(monkeypatch):
    options = {
        "kafka.bootstrap.servers": "first:9092",
        "sink.kafka.bootstrap.servers": "second:9092",
        "sink.kafka.sasl.password": "secret",
    }
    sent = options_for(options, clustered=False, conf={}, load="orders")
    assert sent.arguments == []
    monkeypatch.setenv(OPTIONS_VARIABLE, sent.environment[OPTIONS_VARIABLE])
    found = read_arguments(["--checkpoint", "/c", "--option", "subscribe=orders", "--output-topic", "a"], "app")
    assert found.source.kafka.servers == "first:9092"
    assert found.cluster == {"bootstrap.servers": "second:9092", "sasl.password": "secret"}
    assert "secret" not in repr(found)


def test_a_topic_goes_by_the_replay_and_a_table_by_its_own_application():
    assert [packaged_for(output).rpartition("/")[2] for output in (None, OUTPUTS[0], OUTPUTS[2])] == [
        "ordered_replay.py",
        "ordered_replay.py",
        "ordered_table.py",
    ]
