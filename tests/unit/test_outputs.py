"""Outputs as values: checked where they are made, and the same on the other side of a command line."""

import json
import re

import pytest

import airflow_provider_orderedkafka as package
from airflow_provider_orderedkafka.core.codec import packed
from airflow_provider_orderedkafka.core.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import options_for, output_arguments, packaged_for
from airflow_provider_orderedkafka.outputs import (
    CatalogOutput,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
    KafkaOutput,
    from_text,
    named,
    to_text,
)
from airflow_provider_orderedkafka.spark.application.command import read_arguments

OUTPUTS = [
    KafkaOutput("orders-ordered", dead_letters="orders-dead", kafka_conn_id="second", writers=3),
    KafkaOutput(topics=("a", "b"), options={"kafka.compression.type": "zstd"}),
    IcebergOutput("lake.shop.orders", partition_by=("days(order_time)", "bucket(16, key)"), identity=False),
    DeltaOutput(path="s3a://lake/orders", options={"mergeSchema": "true"}),
    DeltaOutput(table="shop.orders", partition_by=(), create=False, properties={"delta.appendOnly": "true"}),
    FilesOutput("/data/orders", "orc"),
]
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("orders-ordered", "an output is named '<format>:<name>', such as"),
        ("icberg:lake.shop.orders", "did you mean 'iceberg'"),
        ("topic:two words", "'two words' cannot be a topic's name"),
        ("parquet:lake/orders", "path must be absolute"),
        ("delta:", "a table is named 'catalog.schema.table'"),
    ],
)
def test_a_text_that_names_no_output_is_refused_with_what_is_wrong(text, said):
    with pytest.raises(SettingError, match=re.escape(said)):
        named(text)


def test_they_are_imported_from_the_package():
    assert package.IcebergOutput is IcebergOutput
    assert {"KafkaOutput", "IcebergOutput", "DeltaOutput", "FilesOutput"} <= set(package.__all__)


@pytest.mark.parametrize("output", OUTPUTS, ids=repr)
def test_an_output_comes_to_the_application_as_it_was_made(output):
    for text in (to_text(output), packed(to_text(output))):
        assert from_text(text) == output
    flag, word, *more = output_arguments(None, "key", output=output)
    assert (flag, from_text(word)) == ("--output", output)
    assert more == (["--sink-option", "keepOrder=key"] if isinstance(output, KafkaOutput) else [])


@pytest.mark.parametrize("output", [each for each in OUTPUTS if not isinstance(each, KafkaOutput)], ids=repr)
def test_a_table_is_written_to_as_it_was_made(output):
    assert read_arguments([*CLUSTER, "--output", to_text(output)], "app").output == output


def sink_of(output, *options):
    more = [part for option in options for part in ("--sink-option", option)]
    found = read_arguments([*CLUSTER, "--output", to_text(output), *more], "app")
    assert found.output is None
    return found.sink


def test_topics_are_written_to_as_the_output_and_its_own_options_say():
    found = sink_of(KafkaOutput("a", dead_letters="d", writers=3, options={"usePartition": "true"}), "keepOrder=none")
    said = (found.topic, found.dead_letter_topic, found.writers, found.use_partition, found.keep_order)
    assert said == ("a", "d", 3, True, "none")
    routed = sink_of(KafkaOutput(topics=("a", "b"), options={"kafka.compression.type": "zstd"}))
    assert (routed.output_topics, routed.kafka["compression.type"]) == (("a", "b"), "zstd")
    assert routed.kafka.servers == "b:9092"


@pytest.mark.parametrize(
    ("output", "options", "said"),
    [
        (KafkaOutput("a", writers=3), ["writers=4"], "'writers' is set twice: 4, and by --output 3; leave one out"),
        (
            KafkaOutput("a", options={"kafka.linger.ms": "5"}),
            ["kafka.linger.ms=6"],
            "'kafka.linger.ms' is set twice: '6', and by --output '5'; leave one out",
        ),
        (KafkaOutput("a", options={"keep_order": "key"}), [], "unknown option 'keep_order' of the sink: did you mean"),
        (KafkaOutput("a", options={"keepOrder": "time"}), [], "must be 'key', 'partition' or 'none', found 'time'"),
        (KafkaOutput("a", options={"format": "delta"}), [], "option 'format' is for tables and files alone"),
        (KafkaOutput("a", kafka_conn_id="second"), [], "connection 'second', and nothing says where that is"),
        (FilesOutput("/a"), ["compresion=zstd"], "unknown option 'compresion' of the sink"),
    ],
)
def test_what_an_output_and_its_options_cannot_mean_together_is_refused_by_the_command_line(output, options, said):
    with pytest.raises(SettingError, match=re.escape(said)):
        sink_of(output, *options)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (KafkaOutput, "names either one topic or, with topics="),
        (lambda: KafkaOutput("a", topics=("b",)), "names either one topic or, with topics="),
        (lambda: KafkaOutput("{{ params.target }}"), "a template goes into output_topic="),
        (lambda: KafkaOutput("a", options={"kafka.sasl.password": "x"}), "name one with kafka_conn_id="),
        (lambda: KafkaOutput("a", options={"writers": "2"}), "has an argument of its own: writers="),
        (lambda: KafkaOutput("a", writers="2"), "writers must be a whole number from 1 on, found '2'"),
        (lambda: KafkaOutput("a", writers=0), "writers must be a whole number from 1 on, found 0"),
        (lambda: IcebergOutput("lake.shop orders"), "a table is named 'catalog.schema.table'"),
        (lambda: IcebergOutput("lake.orders", partition_by="day(at)"), "partition_by takes a column, days(column)"),
        (lambda: IcebergOutput("lake.orders", identity="no"), "identity must be True or False, found 'no'"),
        (DeltaOutput, "takes either path= or table="),
        (lambda: DeltaOutput("/a", "b"), "takes either path= or table="),
        (lambda: DeltaOutput("a/b"), "path must be absolute or a location"),
        (lambda: DeltaOutput("/a", partition_by=("bucket(4, key)",)), r"takes days(column) or a column"),
        (lambda: DeltaOutput("/a", options={"mergeSchema": True}), "options must be texts by name"),
        (lambda: FilesOutput("/a", "parkett"), "did you mean 'parquet'?"),
        (lambda: FilesOutput("/a", "iceberg"), "must be one of parquet, orc, json, csv, avro"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written_down(make, said):
    with pytest.raises(SettingError, match=re.escape(said)):
        make()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"kind": "hudi"}', '{"kind": "files", "version": 2}'])
def test_a_document_that_is_no_output_is_refused(text):
    with pytest.raises(SettingError, match="--output"):
        from_text(text)


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (("path=/a",), FilesOutput("/a")),
        (("path=/a/", "format=ORC", "compression=zlib"), FilesOutput("/a", "orc", {"compression": "zlib"})),
        (("path=s3a://b/a", "format=delta"), DeltaOutput("s3a://b/a")),
        (("table=a.b", "format=delta", "mergeSchema=true"), DeltaOutput(table="a.b", options={"mergeSchema": "true"})),
        (("table=lake.a.b", "format=iceberg"), IcebergOutput("lake.a.b")),
        (("table=orders",), CatalogOutput("orders")),
        (("keepOrder=none",), None),
    ],
)
def test_options_of_the_command_line_make_an_output(options, output):
    argv = [part for option in options for part in ("--sink-option", option)]
    assert read_arguments([*CLUSTER, *argv], "app").output == output


@pytest.mark.parametrize(
    "beside",
    [("--output-topic", "a"), *(("--sink-option", each) for each in ("Topic=a", "path=/a", "table=a"))],
    ids=str,
)
def test_where_to_write_is_said_once(beside):
    with pytest.raises(SettingError, match="--output says where to write"):
        read_arguments([*CLUSTER, "--output", to_text(OUTPUTS[0]), *beside], "app")


@pytest.mark.parametrize("topic", [("--output-topic", "a"), ("--sink-option", "outputTopics=a,b")], ids=str)
def test_rows_go_to_topics_or_to_a_table(topic):
    with pytest.raises(SettingError, match=r"set twice: by a topic, and by options as FilesOutput\('/a'\)"):
        read_arguments([*CLUSTER, *topic, "--sink-option", "path=/a"], "app")


def test_the_dead_letter_topic_of_records_that_cannot_be_decoded_is_that_of_rows():
    decode = Decode(value=Json("price long"), max_bad_records=1, dead_letters="dead").to_text()
    found = read_arguments([*CLUSTER, "--output-topic", "a", "--decode", decode], "app").sink
    assert found.dead_letter_topic == "dead"
    assert sink_of(KafkaOutput("a", dead_letters="dead")) == found
    for another in (
        ("--output", to_text(KafkaOutput("a", dead_letters="other"))),
        ("--sink-option", "deadLetterTopic=other"),
    ):
        with pytest.raises(SettingError, match="'deadLetterTopic' is set twice: 'other', and by --decode 'dead'"):
            read_arguments([*CLUSTER, "--decode", decode, *another], "app")


def test_beside_a_table_named_by_options_the_dead_letter_topic_alone_is_the_sink_s():
    options = ("path=/a", "deadlettertopic=dead", "writers=many")
    found = read_arguments([*CLUSTER, *(part for each in options for part in ("--sink-option", each))], "app")
    assert found.output == FilesOutput("/a", options={"writers": "many"})
    assert (found.sink.dead_letter_topic, found.sink.writers) == ("dead", None)


def test_the_second_cluster_s_secrets_go_by_the_environment_and_its_options_reach_the_sink_alone(monkeypatch):
    options = {
        "kafka.bootstrap.servers": "first:9092",
        "sink.kafka.bootstrap.servers": "second:9092",
        "sink.kafka.sasl.password": "secret",
    }
    sent = options_for(options, clustered=False, conf={}, load="orders")
    assert sent.arguments == []
    monkeypatch.setenv(OPTIONS_VARIABLE, sent.environment[OPTIONS_VARIABLE])
    found = read_arguments(["--checkpoint", "/c", "--option", "subscribe=orders"], "app")
    assert found.source.kafka.servers == "first:9092"
    assert found.sink.kafka == {"bootstrap.servers": "second:9092", "sasl.password": "secret"}
    assert "secret" not in repr(found)


def test_on_a_cluster_the_second_cluster_s_secrets_are_no_arguments():
    options = {"kafka.bootstrap.servers": "first:9092", "sink.kafka.bootstrap.servers": "second:9092"}
    sent = options_for(options, clustered=True, conf={}, load="orders").arguments
    assert sent == [
        "--option",
        "kafka.bootstrap.servers=first:9092",
        "--sink-option",
        "kafka.bootstrap.servers=second:9092",
    ]
    with pytest.raises(SettingError, match="could only go as an argument for all to see"):
        options_for({**options, "sink.kafka.sasl.password": "x"}, clustered=True, conf={}, load="orders")


def test_a_topic_goes_by_the_replay_and_a_table_by_its_own_application():
    assert [packaged_for(output).rpartition("/")[2] for output in (None, OUTPUTS[0], OUTPUTS[2])] == [
        "ordered_replay.py",
        "ordered_replay.py",
        "ordered_table.py",
    ]


def test_what_does_not_shape_the_rows_may_change_between_attempts():
    assert KafkaOutput("a", dead_letters="d", writers=2).shape is None
    plain, other = IcebergOutput("lake.orders"), IcebergOutput("lake.orders", options={"compression-codec": "zstd"})
    assert plain.shape == other.shape != IcebergOutput("lake.refunds").shape
    assert json.dumps(plain.shape)
