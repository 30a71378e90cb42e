"""What the sink may be asked for."""

from dataclasses import fields

import pytest
from support.messages import says

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.write.settings import SOURCE_TYPE
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.application.command import OF_TOPICS
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, SINK
from airflow_provider_orderedkafka.spark.connector.options import parse_sink_options, settings_of

HERE = {"kafka.bootstrap.servers": "nowhere:9092"}
VALUE = [("value", "binary")]
FROM_SOURCE = [*VALUE, ("_source", SOURCE_TYPE)]


def parsed(columns=VALUE, **options):
    return parse_sink_options(HERE | options, columns)


def test_options_come_in_lower_case_as_spark_hands_them_over():
    found = parsed(topic="out", deadlettertopic="dead", usepartition="TRUE", includeheaders="false")
    assert (found.topic, found.dead_letter_topic, found.use_partition, found.use_headers) == (
        "out",
        "dead",
        "always",
        False,
    )
    assert dict(found.config) == {"bootstrap.servers": "nowhere:9092"}


def test_the_partition_column_counts_where_it_is_given_unless_told_otherwise():
    assert [parsed(**some).use_partition for some in ({}, {"usepartition": "true"}, {"usepartition": "false"})] == [
        "given",
        "always",
        "never",
    ]


def test_provenance_is_written_where_the_rows_have_it_unless_told_otherwise():
    assert parsed().source is None
    assert parsed(FROM_SOURCE).source == "struct"
    assert parsed(FROM_SOURCE, provenance="false").source is None
    assert parsed(provenance="true").source == "struct"  # and the columns are refused for it


def test_output_topics_are_a_list():
    assert parsed(outputtopics="a, b,a").output_topics == ("a", "b")


def test_what_spark_adds_by_itself_is_no_error():
    assert parsed(checkpointlocation="/somewhere", queryname="q").topic is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topik": "out"}, "'topik' ... 'topic'"),
        ({"deadlettertopics": "x"}, "'deadlettertopics' ... 'deadLetterTopic'"),
        ({"zzz": "x"}, "'zzz' ... 'kafka.*', 'topic', 'outputTopics', "),
        ({"path": "/x"}, "'path' ... 'topic'"),
        ({"subscribe": "x"}, "'subscribe'"),
        ({"guarantee": "exactly_once"}, "'guarantee' ... df.write ... KafkaOutput"),
        ({"usepartition": "yes"}, "'usePartition' ... 'true' or 'false', ... 'yes'"),
        ({"topic": " "}, "'topic'"),
        ({"outputtopics": ","}, "'outputTopics' ... ','"),
        ({"topic": "a", "outputtopics": "b"}, "'topic' and 'outputTopics'"),
        ({"outputtopics": "a,b", "deadlettertopic": "b"}, "'deadLetterTopic' ... 'b'"),
        ({"kafka.key.serializer": "x"}, "'kafka.key.serializer'"),
        ({"kafka.bootstrap.servers": ""}, "'kafka.bootstrap.servers'"),
    ],
)
def test_a_wrong_option_is_named_with_the_way_out(options, said):
    with pytest.raises(SettingError) as caught:
        parsed(**options)
    assert says(str(caught.value), said)


def test_a_topic_cannot_be_overwritten():
    with pytest.raises(SettingError, match="append"):
        parse_sink_options(HERE, VALUE, overwrite=True)


@pytest.mark.parametrize("option", APPLICATION_SINK.options, ids=lambda each: each.name)
def test_each_option_of_an_application_s_topics_is_a_field_of_the_output(option):
    assert option.name == "kafka.*" or OF_TOPICS[option.name] in {field.name for field in fields(KafkaOutput)}


def test_what_is_not_said_holds_as_the_table_says():
    unsaid = KafkaOutput("a")
    assert APPLICATION_SINK.value({}, "includeHeaders") == SINK.value({}, "includeHeaders") == unsaid.include_headers
    assert APPLICATION_SINK.value({}, "keepOrder") == unsaid.keep_order


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (KafkaOutput("a"), {"topic": "a", "use_partition": "never", "source": "struct"}),
        (KafkaOutput("a", use_partition=True, provenance=False), {"use_partition": "always", "source": None}),
        (KafkaOutput(topics=("a", "b"), include_headers=False), {"output_topics": ("a", "b"), "use_headers": False}),
    ],
)
def test_an_output_is_written_as_it_says(output, wanted):
    found = settings_of(output, "dead", KafkaConfig({}), VALUE)
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert found.dead_letter_topic == "dead"
