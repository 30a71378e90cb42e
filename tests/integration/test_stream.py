"""The source as a stream: batches that end at cuts, planned again identically, started when there is enough."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from support.records import Record
from support.spark import since

from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.topics import committed
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.connector.batch import partitions_of, read_partition
from airflow_provider_orderedkafka.spark.connector.options import parse_options
from airflow_provider_orderedkafka.spark.connector.stream import Stream

pytestmark = since(4, 2)

BASE = 1_700_000_000_000
HOUR = 3_600_000

ASKED_TO_FAIL = "asked to fail"


class Runs:
    """Runs one stream again and again on one checkpoint; keeps what each batch held."""

    def __init__(self, spark, servers, directory) -> None:
        register(spark)
        self.spark = spark
        self.servers = servers
        self.checkpoint = Path(directory) / "checkpoint"
        self.batches: dict[int, list] = {}
        self.fail_in: int | None = None

    def stream(self, **options):
        reader = self.spark.readStream.format("orderedkafka").option("kafka.bootstrap.servers", self.servers)
        return reader.options(**{"startingOffsets": "earliest", "sliceOffsets": 7} | options).load()

    def start(self, trigger=None, **options):
        writer = self.stream(**options).writeStream.foreachBatch(self._keep)
        return (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger or {"availableNow": True})
            .start()
        )

    def run(self, **options):
        """Run to the end; return the batches of this run that had rows."""
        self.batches = {}
        query = self.start(**options)
        query.awaitTermination(120)
        return [rows for _, rows in sorted(self.batches.items()) if rows]

    def _keep(self, frame, number) -> None:
        rows = [tuple(row) for row in frame.select("order_time", "topic", "partition", "offset", "late").collect()]
        if rows or number not in self.batches:
            self.batches[number] = rows
        if number == self.fail_in:
            raise RuntimeError(ASKED_TO_FAIL)

    def offsets(self, batch):
        return json.loads((self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])


@pytest.fixture
def runs(spark, kafka, tmp_path):
    return Runs(spark, kafka.bootstrap_servers, tmp_path)


def write(records, topic, times, partition=0):
    records.produce(topic, [Record(b"x", BASE + time, partition) for time in times])


def ordered(rows):
    return [row[:4] for row in rows] == sorted(row[:4] for row in rows)


@pytest.mark.versions
def test_batches_hold_the_maximum_exactly_and_are_in_order_one_after_the_other(runs, topics, records):
    topic = topics.create(partitions=3)
    for partition in range(3):
        write(records, topic, [(n * 7 + partition * 3) % 90 for n in range(40)], partition)
    batches = runs.run(subscribe=topic, maxOffsetsPerTrigger=25)
    rows = [row for batch in batches for row in batch]
    assert [len(batch) for batch in batches] == [25, 25, 25, 25, 20]
    assert len({row[1:4] for row in rows}) == 120
    assert ordered(rows)


def test_the_first_batch_is_empty_and_carries_the_resolved_start(runs, topics, records):
    topic = topics.create()
    write(records, topic, [1, 2, 3])
    before = time.time() * 1000
    runs.run(subscribe=topic)
    first = runs.offsets(0)
    assert first["place"]["offsets"] == {topic: [0]}
    assert before <= first["first_looked_at"] <= time.time() * 1000
    assert runs.offsets(1)["place"]["offsets"] == {topic: [3]}


def test_latest_stays_where_it_was_at_the_first_look(runs, topics, records):
    topic = topics.create()
    write(records, topic, [1, 2, 3])
    assert runs.run(subscribe=topic, startingOffsets="latest") == []
    write(records, topic, [4, 5])
    assert [row[3] for row in runs.run(subscribe=topic, startingOffsets="latest")[0]] == [3, 4]


def test_a_logged_batch_is_planned_again_identically_whatever_options_and_log_say_by_then(runs, topics, records):
    topic = topics.create(partitions=2)
    write(records, topic, range(0, 60, 2), 0)
    write(records, topic, range(1, 60, 2), 1)
    runs.fail_in = 2
    with pytest.raises(StreamingQueryException, match=ASKED_TO_FAIL):
        runs.run(subscribe=topic, maxOffsetsPerTrigger=20)
    failed, runs.fail_in = runs.batches[2], None
    write(records, topic, [5, 70, 71], 0)
    runs.run(subscribe=topic, maxOffsetsPerTrigger=7, sliceOffsets=3, **{"kafka.isolation.level": "read_uncommitted"})
    assert runs.batches[2] == failed
    assert len(failed) == 20
    assert sum(map(len, runs.batches.values())) == 63 - 20
    assert ordered([row for _, batch in sorted(runs.batches.items()) for row in batch if not row[4]])


def test_what_arrives_late_between_two_runs_is_flagged_and_comes_after_the_cut(runs, topics, records):
    topic = topics.create(partitions=2)
    write(records, topic, [10, 20, 30], 0)
    first = runs.run(subscribe=topic, endingTimestamp=str(BASE + 25))
    assert [row[3] for row in first[0]] == [0, 1]
    write(records, topic, [1, 40], 1)
    second = runs.run(subscribe=topic)
    assert [(row[2], row[3], row[4]) for row in second[0]] == [(1, 0, True), (0, 2, False), (1, 1, False)]


@pytest.mark.versions
def test_a_minimum_holds_from_the_very_first_batch_and_what_is_there_stays_for_the_next_run(runs, topics, records):
    topic = topics.create()
    write(records, topic, range(9))
    assert runs.run(subscribe=topic, minOffsetsPerTrigger=10) == []
    assert runs.run(subscribe=topic, minOffsetsPerTrigger=10) == []
    write(records, topic, [100])
    assert [len(batch) for batch in runs.run(subscribe=topic, minOffsetsPerTrigger=10)] == [10]
    write(records, topic, range(200, 205))
    assert runs.run(subscribe=topic, minOffsetsPerTrigger=10) == []


def test_enough_for_a_run_is_read_whole_though_its_last_batch_is_below_the_minimum(runs, topics, records):
    topic = topics.create()
    write(records, topic, range(25))
    batches = runs.run(subscribe=topic, minOffsetsPerTrigger=10, maxOffsetsPerTrigger=10)
    assert [len(batch) for batch in batches] == [10, 10, 5]


def test_a_delay_counts_from_the_first_look_over_restarts(runs, topics, records):
    topic = topics.create()
    write(records, topic, range(3))
    options = {"subscribe": topic, "minOffsetsPerTrigger": 10}
    assert runs.run(**options, maxTriggerDelay="1h") == []
    assert [len(batch) for batch in runs.run(**options, maxTriggerDelay="1ms")] == [3]  # over since the first look


def test_the_first_run_of_a_delay_alone_starts_at_once_and_the_next_one_waits_for_it(runs, topics, records):
    topic = topics.create()
    write(records, topic, range(3))
    assert [len(batch) for batch in runs.run(subscribe=topic, maxTriggerDelay="1h")] == [3]
    write(records, topic, range(3, 5))
    assert runs.run(subscribe=topic, maxTriggerDelay="1h") == []


def test_young_records_wait_for_their_grace(runs, topics, records):
    topic = topics.create()
    now = int(time.time() * 1000) - BASE
    write(records, topic, [1, 2, now - 10, 3])
    assert [row[3] for row in runs.run(subscribe=topic, grace="1h")[0]] == [0, 1]
    assert [row[3] for row in runs.run(subscribe=topic)[0]] == [2, 3]


class Outdated(KafkaLog):
    """The log as a leader answers for times that knows the first record of each partition alone."""

    def first_at(self, partitions, times):
        return [_first(found) for found in super().first_at(partitions, times)]

    def newest(self, partitions):
        return _first(super().newest(partitions))


def _first(found):
    return {partition: answer for partition, answer in found.items() if answer.offset == 0}


@pytest.mark.parametrize("outdated", [False, True])
def test_a_task_warns_of_records_that_its_batch_was_not_to_reach(kafka, topics, records, monkeypatch, caplog, outdated):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"a", BASE + 10), Record(b"b", BASE + 30), Record(b"c", BASE + 5, 1)])
    if outdated:
        monkeypatch.setattr("airflow_provider_orderedkafka.kafka.lookup.survey.KafkaLog", Outdated)
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest", "subscribe": topic}
    options = parse_options(given, stream=True)
    stream = Stream(options)
    start = stream.first()
    end = stream.after(start, None)
    read = [batch for each in partitions_of(stream, start, end) for batch in read_partition(options, each, ("value",))]
    assert [value for batch in read for value in batch.column("value").to_pylist()] == [b"c", b"a", b"b"]
    assert any(record.module == "batch" for record in caplog.records) == outdated


def test_a_stream_that_waits_says_so_once_a_minute_and_again_after_it_ran(kafka, topics, records, caplog):
    topic = topics.create()
    write(records, topic, range(3))
    clock = [int(time.time() * 1_000) + HOUR]
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest", "subscribe": topic}
    stream = Stream(parse_options({**given, "minOffsetsPerTrigger": "10"}, stream=True), now=lambda: clock[0])
    at = stream.first()

    def said(*after):
        caplog.clear()
        for seconds in after:
            clock[0] += seconds * 1_000
            assert stream.after(at, None) is None
        return len([record for record in caplog.records if record.module == "stream"])

    assert said(0, 1, 2, 3) == 1
    write(records, topic, range(10, 12))
    assert said(50) == 0
    assert said(5, 1) == 1
    write(records, topic, range(20, 25))
    assert (at := stream.after(at, None)) is not None
    assert said(0, 1) == 1


def left_by(kafka, now, **options):
    """The offsets that a stream's next batch ends at, from a floor an hour ago."""
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest", "grace": "5s"}
    stream = Stream(parse_options({**given, **options}, stream=True))
    begin = stream.first()
    at = replace(begin, place=Place(begin.place.offsets, Floor(now - HOUR)))
    end = stream.after(at, None)
    return 0 if end is None else end.place.offsets.since(begin.place.offsets)


def test_a_transaction_is_waited_for_no_longer_than_asked_and_not_for_what_is_late_anyway(kafka, topics, records):
    topic = topics.create(partitions=2)
    now = time.time_ns() // 1_000_000
    records.produce(topic, [Record(b"", now - HOUR // 2 + n) for n in range(7)])
    with records.transaction() as past:
        past.produce(topic, [Record(b"", now - 24 * HOUR, 1)])
        assert left_by(kafka, now, subscribe=topic) == 7
        past.produce(topic, [Record(b"", now - HOUR * 3 // 4, 1)])
        assert left_by(kafka, now, subscribe=topic) == 7
        assert left_by(kafka, now, subscribe=topic, transactionWait="1h") == 0


def test_a_processing_time_trigger_keeps_on_reading_and_keeps_the_minimum(runs, topics, records):
    topic = topics.create()
    query = runs.start(trigger={"processingTime": "200 milliseconds"}, subscribe=topic, minOffsetsPerTrigger=4)
    try:
        write(records, topic, [1, 2, 3])
        time.sleep(3)
        assert not any(runs.batches.values())
        write(records, topic, [4, 5])
        deadline = time.monotonic() + 60
        while sum(map(len, runs.batches.values())) < 5 and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        query.stop()
    assert [len(rows) for _, rows in sorted(runs.batches.items()) if rows] == [5]


def test_new_partitions_join_at_their_first_offset(runs, topics, records):
    topic = topics.create(partitions=1)
    write(records, topic, [1, 2])
    runs.run(subscribe=topic)
    topics.grow(topic, 3)
    write(records, topic, [3, 5], 0)
    write(records, topic, [4], 2)
    assert [(row[2], row[3]) for row in runs.run(subscribe=topic)[0]] == [(0, 2), (2, 0), (0, 3)]


def test_a_topic_created_again_is_an_error_with_the_way_out(runs, topics, records):
    topic = topics.create()
    write(records, topic, [1, 2])
    runs.run(subscribe=topic)
    topics.recreate(topic)
    write(records, topic, [1, 2, 3, 4])
    with pytest.raises(StreamingQueryException, match="TopicChangedError"):
        runs.run(subscribe=topic)


def test_progress_shows_how_far_it_is_to_the_high_ends_and_how_unevenly_the_partitions_are_behind(
    runs, topics, records
):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", BASE + n, 0 if n < 3 else 1) for n in range(8)])
    query = runs.start(subscribe=topic, maxOffsetsPerTrigger=3)
    query.awaitTermination(60)
    shown = [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]
    read = [source for source in shown if source["numInputRows"]]
    assert read[0]["endOffset"]["place"]["offsets"] == {topic: [3, 0]}
    latest = [source["latestOffset"] for source in read]
    assert [each["high_ends"] for each in latest] == [{topic: [3, 5]}] * 3
    assert [each["offsets_behind"] for each in latest] == [5, 2, 0]
    assert latest[0]["behind"] == {topic: [0, 5]}
    assert [latest[0][f"{name}OffsetsBehindLatest"] for name in ("min", "max", "avg")] == [0, 5, 2.5]


def test_a_row_limit_lets_the_first_rows_in_order_pass_over_all_batches_and_starts(runs, topics, records):
    topic = topics.create(partitions=2)
    write(records, topic, range(0, 40, 2), 0)
    records.abort(topic, [Record(b"x", BASE + 9, 1)] * 5)
    write(records, topic, range(1, 40, 2), 1)
    options = {"subscribe": topic, "maxOffsetsPerTrigger": 12}
    everything = [row for batch in fresh(runs, "all").run(**options) for row in batch]
    first = [row for batch in runs.run(**options, rowLimit=17) for row in batch]
    assert first == everything[:17]
    assert runs.run(**options, rowLimit=17) == []
    raised = [row for batch in runs.run(**options, rowLimit=20, sliceOffsets=5) for row in batch]
    assert raised == everything[17:20]
    rest = [row for batch in runs.run(**options, rowLimit=1_000) for row in batch]
    assert rest == everything[20:]


def test_a_row_limit_of_a_stream_that_began_without_one_is_refused(runs, topics, records):
    topic = topics.create()
    write(records, topic, [1, 2])
    runs.run(subscribe=topic)
    write(records, topic, [3])
    with pytest.raises(StreamingQueryException, match=r"SettingError: .* 5 "):
        runs.run(subscribe=topic, rowLimit=5)


def test_a_group_shows_how_far_a_stream_has_come(runs, topics, records, config):
    topic = topics.create(partitions=2)
    write(records, topic, range(5), 0)
    write(records, topic, range(3), 1)
    group = f"shown-{topic}"
    runs.run(subscribe=topic, commitGroup=group, maxOffsetsPerTrigger=4)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    assert committed(config, group, partitions) == dict(zip(partitions, [5, 3], strict=True))


def fresh(runs, name):
    """The same with a checkpoint of its own."""
    return Runs(runs.spark, runs.servers, runs.checkpoint.parent / name)


def offsets_of(rows):
    return [row.offset for row in rows]


@pytest.mark.parametrize("last_first", [False, True], ids=["in order", "the last task first"])
def test_retention_between_two_tasks_takes_what_it_deleted_and_doubles_nothing(
    spark, runs, topics, records, last_first
):
    topic, found = topics.create(), []
    records.behind_a_marker(topic, BASE)
    visible = offsets_of(records.read(topic))

    def read(frame, _):
        rows = frame.select("offset").rdd
        if not rows.getNumPartitions():
            return
        *first, last = range(rows.getNumPartitions())
        for parts in ([last], first) if last_first else (first, [last]):
            found.extend(offsets_of(spark.sparkContext.runJob(rows, list, parts)) if parts else ())
            records.delete_before(topic, {0: 140})

    stream = runs.stream(subscribe=topic, sliceOffsets=60, failOnDataLoss="false")
    writer = stream.writeStream.foreachBatch(read).option("checkpointLocation", str(runs.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination(120)
    assert records.starts(topic) == {0: 140}
    assert len(found) == len(set(found))
    assert [offset for offset in visible if offset >= 140 and offset not in found] == []
