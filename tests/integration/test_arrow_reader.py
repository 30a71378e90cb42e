"""Reading in time order without Spark: order, columns, starts and ends, following, and what bad input is told."""

import json
import re
import subprocess
import sys
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from support.records import Record
from support.registered import framed, order, register, small_registry

from airflow_provider_orderedkafka import Avro, Decode, Json, JsonSchema, Protobuf, reader
from airflow_provider_orderedkafka.errors import (
    DataLossError,
    RowError,
    SettingError,
    TopicChangedError,
    UnknownTopicError,
)
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.reader import read

BASE = 1_700_000_000_000
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reader.md").read_text()
NOTEBOOK = (ROOT / "docs" / "notebook.md").read_text()


NUMBERS = ("position", "end", "held", "rows", "late", "lost")


def assert_soon(true):
    """It becomes true within a minute."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def in_order(seen):
    """What a topic's records are in order: sorted by the highest timestamp of their partition so far."""
    highest, found = {}, []
    for each in seen:
        place = (each.topic, each.partition)
        highest[place] = max(highest.get(place, -1), each.timestamp)
        found.append((highest[place], *place, each.offset))
    return sorted(found)


def standing(batches):
    """The next offset of each partition."""
    found = {}
    for row in batches.partitions.to_pylist():
        found.setdefault(row["topic"], {})[row["partition"]] = row["position"]
    return found


def rows(batches):
    table = pa.Table.from_batches(list(batches), schema=batches.schema)
    return table.to_pylist()


def places(found):
    return [(row["topic"], row["partition"], row["offset"]) for row in found]


@pytest.fixture
def written(topics, records):
    """Two topics of three and two partitions, with timestamps that jump about."""
    names = [topics.create(partitions=3), topics.create(partitions=2)]
    for number, name in enumerate(names):
        for partition in range(3 - number):
            times = [BASE + 10 * n + 3 * partition + number - (40 if n % 7 == 3 else 0) for n in range(200)]
            records.produce(name, [Record(b"%d" % n, t, partition, b"k") for n, t in enumerate(times)])
    return sorted(names)


def test_records_of_all_topics_and_partitions_come_in_time_order(kafka, records, written):
    with read(kafka.bootstrap_servers, written, batch_bytes=4_000) as batches:
        found = rows(batches)
    expected = in_order([each for name in written for each in records.read(name)])
    assert places(found) == [place[1:] for place in expected]
    assert batches.rows == 1_000
    assert batches.late == sum(row["late"] for row in found) > 0
    assert standing(batches) == {written[0]: records.ends(written[0]), written[1]: records.ends(written[1])}


def test_columns_come_as_they_were_asked_for(kafka, written):
    with read({"bootstrap.servers": kafka.bootstrap_servers}, written, columns=["late", "value"]) as batches:
        assert batches.schema == pa.schema([("late", pa.bool_()), ("value", pa.binary())])
        assert next(batches).schema == batches.schema
    with read(kafka.bootstrap_servers, written, headers=True) as batches:
        assert "headers" in batches.to_reader().schema.names


def test_reading_goes_on_where_another_reader_stopped(kafka, written):
    with read(kafka.bootstrap_servers, written, batch_bytes=8_000) as first:
        begun = places(next(first).to_pylist())
        stopped = json.loads(json.dumps(first.position))
    assert list(first) == []
    with read(kafka.bootstrap_servers, written, start=stopped) as rest:
        found = places(rows(rest))
    with read(kafka.bootstrap_servers, written) as whole:
        assert begun + found == places(rows(whole))


def test_a_partition_that_is_new_since_the_position_is_read_up_to_an_end_too(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"a", BASE)])
    with read(kafka.bootstrap_servers, topic) as batches:
        _, stopped = rows(batches), batches.position
    topics.grow(topic, 2)
    records.produce(topic, [Record(b"b", BASE + 1, 1), Record(b"c", BASE + 9, 1)])
    assert [row["value"] for row in rows(read(kafka.bootstrap_servers, topic, start=stopped, end=BASE + 9))] == [b"b"]


def test_what_a_reader_began_to_read_is_missed_by_the_next_one_before_its_first_record_came(kafka, topics, records):
    first, joined = topics.create(), topics.create()
    records.produce(first, [Record(b"a", BASE)])
    with read(kafka.bootstrap_servers, first) as batches:
        _, stopped = rows(batches), batches.position
    records.produce(first, [Record(b"b", BASE + 1)] * 2)
    records.produce(joined, [Record(b"c", BASE + 9)] * 5)
    records.delete_before(joined, {0: 1})
    with read(kafka.bootstrap_servers, [first, joined], start=stopped, batch_bytes=1) as batches:
        next(batches)
        assert batches.left == 5
        stopped = batches.position
    records.delete_before(joined, {0: 3})
    with pytest.raises(DataLossError, match=re.escape(f"{joined}[0]@1")):
        rows(read(kafka.bootstrap_servers, [first, joined], start=stopped))


def test_order_times_do_not_fall_from_one_reader_to_the_next(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"a", BASE + 100)])
    with read(kafka.bootstrap_servers, topic) as batches:
        begun, stopped = rows(batches), batches.position
    assert read(kafka.bootstrap_servers, topic, start=stopped).position == stopped
    records.produce(topic, [Record(b"b", BASE + 60), Record(b"c", BASE + 130)])
    goes_on = read(kafka.bootstrap_servers, topic, start=stopped)
    assert [row["late"] for row in begun + rows(goes_on)] == [False, True, False]
    anew = rows(read(kafka.bootstrap_servers, topic, start={topic: [1]}))
    assert [row["late"] for row in anew] == [False, False]


def test_a_position_in_a_topic_that_was_created_again_means_something_else(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"a", BASE)])
    with read(kafka.bootstrap_servers, topic) as batches:
        _, stopped = rows(batches), batches.position
    topics.recreate(topic)
    records.produce(topic, [Record(b"b", BASE), Record(b"c", BASE)])
    with pytest.raises(TopicChangedError):
        rows(read(kafka.bootstrap_servers, topic, start=stopped))


def test_a_start_for_each_topic_and_an_end_by_time(kafka, written):
    starts = {written[0]: f"{BASE + 500}", written[1]: f"{BASE + 900}"}
    with read(kafka.bootstrap_servers, written, start=starts, end=BASE + 1_000) as batches:
        found = [row for row in rows(batches) if not row["late"]]
    for topic, start in starts.items():
        stamps = [row["timestamp"].timestamp() * 1_000 for row in found if row["topic"] == topic]
        assert int(start) <= min(stamps) < int(start) + 20
        assert BASE + 980 < max(stamps) < BASE + 1_000


def test_partitions_are_chosen_by_number_and_topics_by_a_pattern(kafka, written):
    with read(kafka.bootstrap_servers, {written[0]: [1]}) as batches:
        assert {place[:2] for place in places(rows(batches))} == {(written[0], 1)}
    with read(kafka.bootstrap_servers, re.compile(re.escape(written[1]))) as batches:
        assert {row["topic"] for row in rows(batches)} == {written[1]}


def test_what_was_aborted_is_not_read_and_nothing_waits_at_its_markers(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"a", BASE)])
    records.abort(topic, [Record(b"b", BASE + 1)])
    with read(kafka.bootstrap_servers, topic) as batches:
        assert [row["value"] for row in rows(batches)] == [b"a"]
    assert standing(batches) == {topic: records.ends(topic)}


def test_an_empty_topic_gives_no_batch(kafka, topics):
    with read(kafka.bootstrap_servers, topics.create()) as batches:
        assert rows(batches) == []
        assert batches.to_reader().read_all().num_rows == 0


def test_a_reader_that_follows_hands_on_what_comes_and_flags_what_is_late(kafka, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"a", BASE + 10), Record(b"b", BASE + 20, 1)])
    with read(kafka.bootstrap_servers, topic, follow=True) as batches:
        found = next(batches).to_pylist()
        more = threading.Timer(
            0.1, lambda: records.produce(topic, [Record(b"c", BASE + 5), Record(b"d", BASE + 30, 1)])
        )
        more.start()
        found += next(batches).to_pylist()
        more.join()
    assert [row["value"] for row in found] == [b"a", b"b", b"c", b"d"]
    assert [row["late"] for row in found] == [False, False, True, False]
    times = [row["order_time"] for row in found]
    assert times == sorted(times)


class Outdated(KafkaLog):
    """The log as a broker answers for times that does not know its newest records yet."""

    known: ClassVar[dict[int, int]] = {}
    """How many records of each partition it knows; all, of one that is not here."""

    def first_at(self, partitions, times):
        return [self._known(found) for found in super().first_at(partitions, times)]

    def newest(self, partitions):
        return self._known(super().newest(partitions))

    def _known(self, found):
        return {p: answer for p, answer in found.items() if answer.offset < self.known.get(p.partition, sys.maxsize)}


def test_what_comes_behind_records_that_an_outdated_index_did_not_know_is_late(kafka, topics, records, monkeypatch):
    monkeypatch.setattr("airflow_provider_orderedkafka.reader.KafkaLog", Outdated)
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"a", BASE + 10), Record(b"b", BASE + 30), Record(b"c", BASE + 5, 1)])
    monkeypatch.setattr(Outdated, "known", {0: 1})
    with read(kafka.bootstrap_servers, topic, follow=True, batch_bytes=1) as batches:
        found = [row for _ in range(3) for row in next(batches).to_pylist()]
        monkeypatch.setattr(Outdated, "known", {})
        records.produce(topic, [Record(b"d", BASE + 20, 1), Record(b"e", BASE + 40, 1)])
        found += [row for _ in range(2) for row in next(batches).to_pylist()]
        assert batches.late == 1
    assert [(row["value"], row["late"]) for row in found] == [
        (b"c", False),
        (b"a", False),
        (b"b", False),
        (b"d", True),
        (b"e", False),
    ]
    times = [row["order_time"] for row in found]
    assert times == sorted(times)


def test_a_look_inside_shows_where_each_partition_is_and_what_is_held_back(kafka, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", BASE + 10 * n, n % 2) for n in range(10)])
    records.produce(topic, [Record(b"", int(time.time() * 1_000))])
    with read(kafka.bootstrap_servers, topic, follow=True, grace="1h", batch_bytes=1) as batches:
        assert (batches.partitions.num_rows, batches.live, batches.left) == (0, False, 0)
        for _ in range(3):
            next(batches)
        shown = batches.partitions.to_pylist()
        assert batches.partitions.column_names == ["topic", "partition", *NUMBERS]
        assert [[row[name] for name in NUMBERS] for row in shown] == [[2, 5, 1, 2, 0, 0], [1, 5, 0, 1, 0, 0]]
        assert not batches.live
        rest = [next(batches) for _ in range(7)]
        assert (len(rest), batches.left) == (7, 0)
        reader = threading.Thread(target=lambda: next(batches, None), daemon=True)
        reader.start()
        assert_soon(lambda: batches.live and batches.waiting)
        records.produce(topic, [Record(b"", BASE + 200, 1)])
        reader.join(60)
        assert batches.partitions.to_pylist()[1]["position"] == 6


def test_a_reader_that_waits_is_closed_from_another_thread_at_once(kafka, topics, records, monkeypatch):
    monkeypatch.setattr(reader, "LOOK_SECONDS", 60.0)
    topic = topics.create()
    records.produce(topic, [Record(b"a", BASE)])
    with ThreadPoolExecutor(1) as threads, read(kafka.bootstrap_servers, topic, follow=True) as batches:
        reading = threads.submit(lambda: [row["value"] for batch in batches for row in batch.to_pylist()])
        assert_soon(lambda: batches.waiting)
        begun = time.monotonic()
        batches.close()
        assert reading.result(30) == [b"a"]
        assert time.monotonic() - begun < 0.5
    assert next(batches, None) is None


def test_a_topic_that_a_pattern_comes_to_match_joins_a_reader_that_follows(kafka, topics, records, caplog):
    one = topics.create()
    records.produce(one, [Record(b"1", BASE)])
    pattern = re.compile(re.escape(one.partition("-1-")[0]) + ".*")
    with read(kafka.bootstrap_servers, pattern, follow=True, grace="1s") as batches, caplog.at_level("INFO"):
        assert places(next(batches).to_pylist()) == [(one, 0, 0)]
        other = topics.create()
        records.produce(other, [Record(b"2", BASE + 1)])
        assert places(next(batches).to_pylist()) == [(other, 0, 0)]
        assert repr(other) in caplog.text
        topics.delete(one)
        with pytest.raises(UnknownTopicError) as gone:
            next(batches)
        assert gone.value.topic == one


def test_what_retention_took_is_an_error_or_counted(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"%d" % n, BASE + n) for n in range(20)])
    records.delete_before(topic, {0: 10})
    with pytest.raises(DataLossError), read(kafka.bootstrap_servers, topic, start={topic: [5]}) as batches:
        next(batches)
    with read(kafka.bootstrap_servers, topic, start={topic: [5]}, on_data_loss="count") as batches:
        assert len(rows(batches)) == 10


def test_retention_while_it_is_read_doubles_nothing_and_all_that_is_missing_is_counted(
    kafka, topics, records, monkeypatch
):
    topic, found = topics.create(), []
    records.behind_a_marker(topic, BASE)
    fetching = reader.fetching

    def cut_before_it_is_fetched(*planned):
        records.delete_before(topic, {0: 98})
        return fetching(*planned)

    monkeypatch.setattr(reader, "fetching", cut_before_it_is_fetched)
    monkeypatch.setattr(reader, "SLICE_OFFSETS", 60)
    with read(kafka.bootstrap_servers, topic, on_data_loss="count", batch_bytes=1) as batches:
        for batch in batches:
            found += batch.column("offset").to_pylist()
            if len(found) in {42, 142}:
                records.delete_before(topic, {0: 140})
    assert found == [98, 99, *range(121, 261)]
    assert batches.lost == {topic: {0: 98}}


def test_values_are_decoded_into_columns_of_their_own_types(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(json.dumps({"order": n}).encode(), BASE + n) for n in range(3)])
    with read(kafka.bootstrap_servers, topic, columns=["value"], decode=Decode(value=Json("order long"))) as batches:
        assert batches.schema.field("value").type == pa.struct([("order", pa.int64())])
        assert [row["value"]["order"] for row in rows(batches)] == [0, 1, 2]
    records.produce(topic, [Record(b"no JSON", BASE + 9)])
    with (
        read(kafka.bootstrap_servers, topic, decode=Decode(value=Json("order long"))) as batches,
        pytest.raises(RowError) as error,
    ):
        rows(batches)
    assert error.value.offset == 3


def protobuf():
    """What protoc writes of `shop.Order`, with a number and a text."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    fields = file.message_type.add(name="Order").field
    fields.add(name="id", number=1, type=3, label=1)
    fields.add(name="name", number=2, type=9, label=1)
    return file


FILES = descriptor_pb2.FileDescriptorSet(file=[protobuf()]).SerializeToString()
AVRO = order({"name": "id", "type": "long"}, {"name": "name", "type": "string"})
SCHEMA = '{"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}'
ROW = {"id": 7, "name": "ada"}
JSON_TEXT = json.dumps(ROW).encode()
PROTOBUF = b"\x08\x07\x12\x03ada"
FORMATS = {
    "json": (Json("id long, name string"), JSON_TEXT, None),
    "json schema": (JsonSchema(schema=SCHEMA), JSON_TEXT, None),
    "json schema, registered": (JsonSchema(registry="r"), JSON_TEXT, (SCHEMA, "JSON")),
    "avro": (Avro(schema=AVRO), framed(0, AVRO, ROW)[5:], None),
    "avro, registered": (Avro(registry="r"), framed(0, AVRO, ROW)[5:], (AVRO, "AVRO")),
    "protobuf": (Protobuf(descriptors=FILES, message="shop.Order"), PROTOBUF, None),
    "protobuf, registered": (
        Protobuf(registry="r"),
        b"\x00" + PROTOBUF,
        (b64encode(protobuf().SerializeToString()).decode(), "PROTOBUF"),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_decoded_from_keys_and_values(kafka, topics, records, monkeypatch, name):
    form, payload, registered = FORMATS[name]
    topic, registry = topics.create(), small_registry(monkeypatch)
    if registered is not None:
        text, kind = registered
        numbers = [register(registry, text, f"{topic}-{column}", kind) for column in ("key", "value")]
        payload = b"\x00" + numbers[0].to_bytes(4, "big") + payload
    records.produce(topic, [Record(payload, BASE, key=payload), Record(None, BASE + 1, key=payload)])
    settings = {"registry": "mock://registry"} if registered else {}
    with read(kafka.bootstrap_servers, topic, decode=Decode(key=form, value=form), **settings) as batches:
        assert batches.schema.field("value").type == batches.schema.field("key").type
        found = rows(batches)
    assert [(row["key"], row["value"]) for row in found] == [(ROW, ROW), (ROW, None)]


def test_a_reader_that_follows_holds_records_back_for_older_ones_of_other_partitions(
    kafka, topics, records, monkeypatch
):
    topic, now = topics.create(partitions=2), time.time_ns() // 1_000_000
    clock = [now]
    monkeypatch.setattr("airflow_provider_orderedkafka.reader._now", lambda: clock[-1])
    records.produce(topic, [Record(b"old", now - 600_000), Record(b"young", now + 40_000)])
    with read(kafka.bootstrap_servers, topic, follow=True, grace="1s") as batches:
        assert [row["value"] for row in next(batches).to_pylist()] == [b"old"]
        assert batches.partitions.column("held").to_pylist() == [1, 0]
        records.produce(topic, [Record(b"older", now + 35_000, 1)])
        clock.append(now + 42_000)
        found = []
        while len(found) < 2:
            found += next(batches).to_pylist()
    assert [(row["value"], row["late"]) for row in found] == [(b"older", False), (b"young", False)]


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"columns": ["vlaue"]}, "'value'"),
        ({"columns": []}, "columns"),
        ({"grace": "10s"}, "follow"),
        ({"follow": True, "end": "2026-01-01T00:00:00Z"}, "follow"),
        ({"on_data_loss": "ignore"}, "'count'"),
        ({"isolation": "committed"}, "'read_committed'"),
        ({"batch_bytes": 0}, "batch_bytes"),
        ({"start": "yesterday"}, "'earliest'"),
        ({"start": {"orders": "yesterday"}}, "start.orders"),
        ({"topics": []}, "topics"),
        ({"topics": "a b"}, "'a b'"),
        ({"topics": {"orders": ["0"]}}, "'0'"),
        ({"servers": {"bootstrap.server": "x:1"}}, "bootstrap.servers"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_meant_is_an_error_before_kafka_is_asked(asked, word):
    given = {"servers": "127.0.0.1:1", "topics": "orders"} | asked
    with pytest.raises(SettingError, match=re.escape(word)):
        read(given.pop("servers"), given.pop("topics"), **given)


def test_a_topic_that_is_not_there_is_named_with_the_nearest(kafka, written):
    with pytest.raises(UnknownTopicError) as error:
        next(read(kafka.bootstrap_servers, f"{written[0]}x"))
    assert written[0] in str(error.value)


def test_it_needs_neither_airflow_nor_spark_nor_pandas(kafka, written):
    code = f"""
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {{"airflow", "pyspark", "pandas", "py4j"}}:
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

sys.meta_path.insert(0, Missing())
from airflow_provider_orderedkafka.reader import read
from airflow_provider_orderedkafka.tools.cli import main
with read({kafka.bootstrap_servers!r}, {written!r}) as batches:
    print(sum(batch.num_rows for batch in batches))
sys.exit(main(["read", *{written!r}, "--bootstrap-servers", {kafka.bootstrap_servers!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    count, *rows = done.stdout.splitlines()
    assert (done.returncode, count, len(rows)) == (0, "1000", 1000), done.stderr


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL), ids=range(3))
def test_the_page_about_it_says_what_runs(kafka, topics, records, block):
    names = {name: topics.create(partitions=2) for name in ("orders", "refunds")}
    for name in names.values():
        records.produce(name, [Record(b"{}", None, partition) for partition in (0, 1)])
    for name, made in names.items():
        block = block.replace(f'"{name}"', repr(made))
    exec(block.replace("localhost:9092", kafka.bootstrap_servers), {})


def test_the_cells_of_the_notebook_print_what_stands_below_them(kafka, topics, capsys):
    names = {name: topics.name(name) for name in ("orders", "refunds")}
    cells, compared = {}, 0
    for kind, text in re.findall(r"^```(python|text)\n(.*?)^```", NOTEBOOK, re.MULTILINE | re.DOTALL):
        ours = with_names(text, names)
        if kind == "python":
            exec(ours.replace("localhost:9092", kafka.bootstrap_servers), cells)
        else:
            assert capsys.readouterr().out == ours
            compared += 1
    assert compared == 6


def with_names(text, names):
    """A cell, or what it prints, with the test's own topics."""
    text = text.replace("orders|refunds", "|".join(names.values()))
    for name, made in names.items():
        text = re.sub(f"""(["']){name}\\1""", repr(made), text)
    return text
