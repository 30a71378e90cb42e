"""What a write may be told, and which columns it takes."""

from dataclasses import replace

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.write.settings import (
    HEADERS_TYPE,
    SOURCE_TYPE,
    WriteSettings,
    check_columns,
    source_of,
    written_columns,
)

TO = WriteSettings({"bootstrap.servers": "nowhere:9092"}, topic="out")
VALUE = ("value", "binary")
SOURCE = ("_source", SOURCE_TYPE)
PLAIN = [("topic", "string"), ("partition", "int"), ("offset", "bigint"), ("order_time", "timestamp")]


def test_a_value_and_a_topic_are_enough():
    check_columns([VALUE], TO)
    check_columns([("value", "string"), ("topic", "string")], replace(TO, topic=None))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([], "'value' ... binary ... string"),
        ([("val", "binary")], "'value' ... 'val'"),
        ([("value", "int")], "'value' ... int, ... binary ... string ... cast(value"),
        ([VALUE, ("key", "bigint")], "'key' ... bigint, ... binary ... string"),
        ([VALUE, ("timestamp", "bigint")], "'timestamp' ... bigint, ... timestamp"),
        ([VALUE, ("headers", "map<string,binary>")], "'headers' ... map ... array<struct<key:string"),
        ([VALUE, ("partition", "bigint")], "'partition' ... bigint, ... int"),
        ([VALUE, VALUE], "'value'"),
    ],
)
def test_a_wrong_column_is_named_with_what_it_is_and_what_it_may_be(columns, said):
    with pytest.raises(SettingError, match=naming(said)):
        check_columns(columns, TO)


def test_a_topic_column_that_the_option_overrules_may_be_anything():
    check_columns([VALUE, ("topic", "int")], TO)
    with pytest.raises(SettingError, match="'topic'"):
        check_columns([VALUE, ("topic", "int")], replace(TO, topic=None))


def test_columns_that_are_not_looked_at_may_be_anything():
    without = replace(TO, use_partition="never", use_headers=False)
    columns = [VALUE, ("partition", "string"), ("headers", "string"), ("other", "date")]
    check_columns(columns, without)
    assert written_columns(columns, without) == ["value"]


def test_a_write_without_a_topic_is_refused():
    with pytest.raises(SettingError, match="'topic'"):
        check_columns([VALUE], replace(TO, topic=None))


def test_a_partition_that_is_asked_for_must_be_there():
    with pytest.raises(SettingError, match="'usePartition'"):
        check_columns([VALUE], replace(TO, use_partition="always"))


def test_provenance_needs_the_column_that_each_row_came_with():
    asked = replace(TO, range_id="r1", source="struct")
    check_columns([VALUE, SOURCE], asked)
    with pytest.raises(SettingError, match="'_source'"):
        check_columns([VALUE], asked)
    with pytest.raises(SettingError, match="'partition'"):
        check_columns([VALUE, ("_source", "struct<topic:string>")], asked)


def test_provenance_can_come_from_plain_columns():
    asked = replace(TO, source="columns", use_partition="never")
    check_columns([VALUE, *PLAIN], asked)
    with pytest.raises(SettingError, match="'offset'"):
        check_columns([VALUE, *PLAIN[:2], PLAIN[3]], asked)


def test_where_the_source_positions_are_is_found():
    assert source_of([VALUE]) is None
    assert source_of([VALUE, *PLAIN]) == "columns"
    assert source_of([VALUE, *PLAIN, SOURCE]) == "struct"


def test_only_what_is_written_travels():
    asked = replace(TO, range_id="r1", source="struct", use_partition="never")
    columns = [("late", "boolean"), SOURCE, ("headers", HEADERS_TYPE), *PLAIN, ("_seq", "bigint"), VALUE]
    assert sorted(written_columns(columns, asked)) == ["_seq", "_source", "headers", "value"]


@pytest.mark.parametrize(
    ("wrong", "said"), [({"dead_letter_topic": "out"}, "'deadLetterTopic' ... 'out'"), ({"range_id": ""}, "255")]
)
def test_settings_that_cannot_be_meant_are_refused(wrong, said):
    with pytest.raises(SettingError, match=naming(said)):
        replace(TO, **wrong)


def test_settings_show_no_secret():
    assert "hunter2" not in repr(replace(TO, config={"sasl.password": "hunter2"}))
