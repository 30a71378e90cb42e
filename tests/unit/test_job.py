"""The job: what may change while a range is loaded."""

import json
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import pytest
from support.messages import says
from support.plain import plain_range

from airflow_provider_orderedkafka.core.batches import STAYS, Allotment, Note, Setup
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Json
from airflow_provider_orderedkafka.errors import DocumentError
from airflow_provider_orderedkafka.hooks.submission import SparkSubmit
from airflow_provider_orderedkafka.job import LONGEST, RULES, Allow, Application, Job, Rows, Work
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings
from airflow_provider_orderedkafka.outputs import DeltaOutput, FilesOutput, IcebergOutput, KafkaOutput, NewTopics
from airflow_provider_orderedkafka.spark.application.command import OF_TOPICS, read_arguments
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE
from airflow_provider_orderedkafka.storage import LocalState

TABLE = IcebergOutput("lake.shop.orders")
KEYED = DeltaOutput("/a", upsert=["id"])
DEAD = Allow(10, to="dead")

OTHERWISE = {
    (Job, "to"): (Job(TABLE), Job(DeltaOutput("/a"))),
    (Job, "rows"): (Job(TABLE), Job(TABLE, Rows(transform="m:f"))),
    (Job, "written"): (Job(TABLE), Job(TABLE, written="{{ table }}")),
    (Rows, "decode"): (Rows(decode=Decode(value=Json("a long"))), Rows(decode=Decode(value=Json("a int")))),
    (Rows, "transform"): (Rows(transform="m:f"), Rows(transform="m:g")),
    (Rows, "arrow_transform"): (Rows(arrow_transform="m:f"), Rows(arrow_transform="m:g")),
    (Rows, "application"): (Rows(application=Application("a.py")), Rows()),
    (Rows, "deletes"): (Job(KEYED, Rows(deletes="op = 'd'")), Job(KEYED)),
    (Rows, "bad_records"): (Rows(bad_records=DEAD), Rows()),
    (Allow, "most"): (Rows(bad_records=DEAD), Rows(bad_records=Allow(11, to="dead"))),
    (Allow, "to"): (Rows(bad_records=DEAD), Rows(bad_records=Allow(10, to="buried"))),
    (Application, "file"): (Rows(application=Application("a.py")), Rows(application=Application("b.py"))),
    (Application, "arguments"): (Rows(application=Application("a", ["1"])), Rows(application=Application("a", ["2"]))),
    (KafkaOutput, "topic"): (KafkaOutput("a"), KafkaOutput("b")),
    (KafkaOutput, "topics"): (KafkaOutput(topics=("a", "b")), KafkaOutput(topics=("b",))),
    (KafkaOutput, "keep_order"): (KafkaOutput("a"), KafkaOutput("a", keep_order="partition")),
    (KafkaOutput, "writers"): (KafkaOutput("a"), KafkaOutput("a", writers=2)),
    (KafkaOutput, "create"): (KafkaOutput("a"), KafkaOutput("a", create=NewTopics(partitions=2))),
    (KafkaOutput, "kafka_conn_id"): (KafkaOutput("a"), KafkaOutput("a", kafka_conn_id="other")),
    (KafkaOutput, "use_partition"): (KafkaOutput("a"), KafkaOutput("a", use_partition=True)),
    (KafkaOutput, "include_headers"): (KafkaOutput("a"), KafkaOutput("a", include_headers=False)),
    (KafkaOutput, "provenance"): (KafkaOutput("a", provenance=False), KafkaOutput("a")),
    (KafkaOutput, "guarantee"): (KafkaOutput("a"), KafkaOutput("a", guarantee="exactly_once")),
    (KafkaOutput, "producer"): (KafkaOutput("a"), KafkaOutput("a", producer={"linger.ms": "9"})),
    (IcebergOutput, "table"): (TABLE, replace(TABLE, table="lake.shop.others")),
    (IcebergOutput, "upsert"): (TABLE, replace(TABLE, upsert=("id",))),
    (IcebergOutput, "create"): (TABLE, replace(TABLE, create=False)),
    (IcebergOutput, "partition_by"): (TABLE, replace(TABLE, partition_by=())),
    (IcebergOutput, "properties"): (TABLE, replace(TABLE, properties={"a": "b"})),
    (IcebergOutput, "options"): (TABLE, replace(TABLE, options={"a": "b"})),
    (DeltaOutput, "path"): (DeltaOutput("/a"), DeltaOutput("/b")),
    (DeltaOutput, "table"): (DeltaOutput(table="a.b"), DeltaOutput(table="a.c")),
    (DeltaOutput, "upsert"): (KEYED, DeltaOutput("/a")),
    (DeltaOutput, "create"): (DeltaOutput("/a"), DeltaOutput("/a", create=False)),
    (DeltaOutput, "partition_by"): (DeltaOutput("/a"), DeltaOutput("/a", partition_by=())),
    (DeltaOutput, "properties"): (DeltaOutput("/a"), DeltaOutput("/a", properties={"a": "b"})),
    (DeltaOutput, "options"): (DeltaOutput("/a"), DeltaOutput("/a", options={"a": "b"})),
    **{
        (kind, "new_columns"): (replace(to, new_columns="ignore"), replace(to, new_columns="add"))
        for kind, to in ((IcebergOutput, TABLE), (DeltaOutput, DeltaOutput("/a")))
    },
    (FilesOutput, "path"): (FilesOutput("/a"), FilesOutput("/b")),
    (FilesOutput, "format"): (FilesOutput("/a"), FilesOutput("/a", "orc")),
    (FilesOutput, "options"): (FilesOutput("/a"), FilesOutput("/a", options={"compression": "zstd"})),
}
"""Two values that differ in one field alone. Where more of it may be named, the second one names less; what may be
switched off is switched on by it."""


def a_job(value):
    if isinstance(value, Job):
        return value
    return Job(TABLE, value) if isinstance(value, Rows) else Job(value)


@pytest.mark.parametrize("kind", RULES)
def test_each_field_of_what_is_to_be_done_says_whether_it_may_change(kind):
    assert list(RULES[kind]) != []
    assert set(RULES[kind]) == {field.name for field in fields(kind)}
    assert {(kind, name) for name in RULES[kind]} <= OTHERWISE.keys()


@pytest.mark.parametrize(("kind", "name"), OTHERWISE)
def test_what_shapes_the_rows_or_says_where_they_are_stays_and_all_else_may_change(kind, name):
    before, after = map(a_job, OTHERWISE[kind, name])
    changes = before.changes(after)
    assert bool(changes) == (RULES[kind][name] != "free"), changes
    assert not before.changes(before)


def test_more_of_what_grows_may_be_named_at_any_time():
    assert not Job(KafkaOutput(topics=("a",))).changes(Job(KafkaOutput(topics=("a", "b"))))
    assert not Job(TABLE).changes(Job(TABLE, Rows(bad_records=DEAD)))
    assert not Job(TABLE).changes(Job(replace(TABLE, new_columns="add")))


def test_identities_may_be_switched_off_as_a_message_says_and_not_on_again():
    on, off = Job(KafkaOutput("a")), Job(KafkaOutput("a", provenance=False))
    assert (on.changes(off), off.changes(on)) == ("", "to.provenance was False, and is now True")


def with_arguments(*arguments, file=""):
    return Job(KafkaOutput("a"), Rows(application=Application(file, arguments)))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--option", "sliceOffsets=20000"),
        ("--option=sliceOffsets=20000", "--sink-option", "kafka.linger.ms=50"),
        ("--option", "kafka.fetch.max.bytes=1000000", "--sink-option=kafka.partitioner=random"),
    ],
)
def test_how_the_packaged_application_reads_and_writes_may_change_by_its_arguments_too(arguments):
    plain, tuned = Job(KafkaOutput("a")), with_arguments(*arguments)
    assert [one.changes(other) for one, other in ((plain, tuned), (tuned, plain), (tuned, tuned))] == ["", "", ""]
    assert with_arguments("--days", "1", *arguments).changes(with_arguments("--days", "2", *arguments))
    mine = with_arguments("--all", file="mine.py")
    assert says(mine.changes(with_arguments("--all", *arguments, file="mine.py")), "arguments ... ('--all',)")


def test_a_change_is_said_without_what_is_the_default():
    said = Job(KafkaOutput("a")).changes(Job(FilesOutput("/data/orders", "orc")))
    assert said == "to was KafkaOutput(topic='a'), and is now FilesOutput(path='/data/orders', format='orc')"


def test_a_work_of_a_later_release_is_refused_in_one_sentence():
    with pytest.raises(DocumentError) as refused:
        Work.from_text('{"version": 99}')
    assert says(str(refused.value), "work: 'version' ... 1, ... 99")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Rows(), "Rows()"),
        (Rows(transform="m:f", bad_records=DEAD), "Rows(transform='m:f', bad_records=Allow(most=10, to='dead'))"),
        (KafkaOutput("a", keep_order=None, producer={}), "KafkaOutput(topic='a', keep_order=None)"),
        (KafkaOutput("a", create=NewTopics(2)), "KafkaOutput(topic='a', create=NewTopics(partitions=2))"),
        (DeltaOutput(table="a.b", partition_by=()), "DeltaOutput(table='a.b', partition_by=())"),
        (SparkSubmit("far", conf={"a": "b"}, env_vars={"TOKEN": "x"}), "SparkSubmit(conn_id='far', conf={'a': 'b'})"),
    ],
)
def test_a_value_is_shown_as_it_would_be_written_but_for_an_environment(value, written):
    assert repr(value) == written


def work_of(partitions: int, checkpoint: str) -> Work:
    """A load's of one topic whose partitions have all a place of their own."""
    chance = Random(partitions)
    begin = {TopicPartition("orders", each): chance.randrange(10**8, 10**9) for each in range(partitions)}
    end = {each: offset + chance.randrange(10**4, 10**5) for each, offset in begin.items()}
    places = {"start": Place(Offsets(begin), Floor()), "end": Place(Offsets(end), Floor(1_769_860_800_000))}
    loaded = plain_range(topics={"orders": "Zs1qd1TDRHmTCqH6SgWgrA"}, reason="as many as there are", **places)
    return Work(loaded, Job(KafkaOutput("orders-ordered")), checkpoint)


@pytest.mark.parametrize(("partitions", "kept"), [(100, False), (200, False), (300, True)])
def test_a_work_is_one_word_and_lies_beside_the_checkpoint_where_that_would_be_too_long(partitions, kept, tmp_path):
    work, state = work_of(partitions, str(tmp_path)), LocalState(tmp_path)
    word = work.word(state.put)
    assert [f"at:{tmp_path}/works/{name}" for name in state.names("works")] == ([word] if kept else [])
    assert len(word) <= LONGEST
    found = read_arguments(["--work", word, "--option", "kafka.bootstrap.servers=broker:9092"], "app.py")
    assert (found.range, found.job, found.checkpoint) == (work.range, work.job, work.checkpoint)


def test_ten_thousand_partitions_and_a_schema_of_30_kb_fit_with_kafka_s_settings_into_what_services_take(tmp_path):
    chance = Random(7)
    names = [f"field_{chance.getrandbits(64):016x}" for _ in range(700)]
    schema = {"type": "record", "name": "Order", "fields": [{"name": each, "type": "string"} for each in names]}
    rows = Rows(decode=Decode(value=Avro(schema=json.dumps(schema))), transform="my_app:flat")
    work = replace(work_of(10_000, str(tmp_path)), job=Job(KafkaOutput("orders-ordered"), rows))
    assert len(json.dumps(schema)) > 30_000
    word = work.word(LocalState(tmp_path).put)
    assert len(word) + LONGEST + len("--work --option") < 10_000  # Databricks takes so much, and the others more
    assert Work.from_text(Path(word.removeprefix("at:")).read_text()) == work


def test_who_begins_late_reads_the_work_that_it_was_begun_with_whatever_was_asked_for_since(tmp_path):
    asked = [replace(work_of(300, str(tmp_path)), job=Job(KafkaOutput(to))) for to in ("first", "second")]
    first, _ = [work.word(LocalState(tmp_path).put) for work in asked]
    found = read_arguments(["--work", first, "--option", "kafka.bootstrap.servers=broker:9092"], "app.py")
    assert found.job == asked[0].job


FREE = None
DECIDED = {
    WriteSettings: {
        "config": (
            Setup,
            "partitioner",
        ),  # a row's bytes, and where we know it its partition, go to the client as given
        "topic": (KafkaOutput, "topic"),
        "use_partition": (KafkaOutput, "use_partition"),
        "use_headers": (KafkaOutput, "include_headers"),
        "dead_letter_topic": (Allow, "to"),
        "range_id": (Range, "id"),
        "source": (KafkaOutput, "provenance"),
        "output_topics": (KafkaOutput, "topics"),
        "outputs": (Note, "output_ids"),
        "partitions": (Note, "outputs"),
        "keyless": (KafkaOutput, "keep_order"),
        "turn": (KafkaOutput, "guarantee"),
        **dict.fromkeys(("lend", "writer"), FREE),
    },
    ReadSettings: {
        "kafka": (Range, "cluster_id"),
        "isolation": (Range, "isolation"),
        "include_headers": (Range, "include_headers"),
        "on_data_loss": (Range, "on_data_loss"),
        "topic_ids": (Range, "topics"),
        **dict.fromkeys(("deadline", "byte_budget", "batch_bytes", "columns", "sampled", "fetch"), FREE),
    },
    Setup: {
        **{name: (Setup, name) for name in ("transform", "cluster", "partitioner", "transactions")},
        "keep_order": (KafkaOutput, "keep_order"),
        "placed": (Note, "placed"),
        "code": (Allotment, "code"),
        **dict.fromkeys(("lane", "writers", "reason", "job"), FREE),
    },
}
"""By what each setting that an attempt works with is held to what its range was begun with, once all that may say it is
merged; or that it shapes no row, and says of none where it goes."""

OF_OPTIONS = {
    **{name: (KafkaOutput, field) for name, field in OF_TOPICS.items() if name != "writers"},
    "range": (Range, "id"),
    "kafka.*": (Setup, "partitioner"),
    "registry.*": FREE,  # the schemas that it gives may change at any time, as records may be bad at any time
    **dict.fromkeys(("sliceOffsets", "writers"), FREE),
}
"""The same of the options that an application takes beside a range; it refuses all others."""


def test_each_setting_of_source_sink_and_attempt_says_whether_it_shapes_rows_or_their_places():
    for kind, decided in DECIDED.items():
        assert decided.keys() == {field.name for field in fields(kind)}
    beside = [each for each in APPLICATION_SOURCE.options if each.with_range or each.parse is None]
    assert {each.name for each in (*beside, *APPLICATION_SINK.options)} == OF_OPTIONS.keys()
    for kind, name in filter(None, [*OF_OPTIONS.values(), *(by for each in DECIDED.values() for by in each.values())]):
        assert name in {field.name for field in fields(kind)}
        assert kind is not Setup or name in STAYS
        assert RULES.get(kind, {}).get(name) != "free"
