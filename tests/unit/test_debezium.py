"""Change events as rows. The events were recorded of Debezium 3.2; of long values only the beginning was kept."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from support.messages import says
from support.registered import REGISTRY, framed, register, small_registry

from airflow_provider_orderedkafka.decoding.debezium import unwrap
from airflow_provider_orderedkafka.decoding.formats import Avro, Decode, Json
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.errors import RowError, SettingError
from airflow_provider_orderedkafka.hooks.launching import shipped_with
from airflow_provider_orderedkafka.job import Rows
from airflow_provider_orderedkafka.kafka.read.columns import schema
from airflow_provider_orderedkafka.spark.lanes.making import Making

RECORDED = json.loads((Path(__file__).parents[1] / "support" / "debezium_events.json").read_text())
ROW = "id int, name string, at timestamp, doc string, bin binary, ta array<string>, ia array<int>, hs string"
ENVELOPE, KEY = "op string, before struct<id int, name string>, after struct<id int, name string>", "id int"


def events(name, *kinds):
    """What was recorded of a connector's topics."""
    return [each for each in RECORDED if each[0] in {f"{name}.{kind}" for kind in kinds}]


def of_table(key, value, topic="shop.public.t", offset=7):
    return [topic, 0, offset, 0, key and json.dumps(key), value and json.dumps(value)]


def made(given, value, key=KEY, *, most=None, unwrap=unwrap):
    """The rows and the bad records of such events."""
    names = ("topic", "partition", "offset", "order_time", "key", "value")
    rows = [
        dict(zip(names, (*each[:4], *(text and text.encode() for text in each[4:])), strict=True)) for each in given
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema(include_headers=False))
    decoder = RecordDecoder.of(Decode(value=Json(value), key=Json(key)), ["t"], None, None)
    return [each.to_pylist() for each in Making(decoder, unwrap, most).split(batch)]


def values(rows):
    """Name of a row, or that it is gone, by offset and id."""
    return [(row["_source"]["offset"], row["id"], "gone" if row["_is_deleted"] else row["name"]) for row in rows]


SNAPPED, GONE = (0, 1, "snap"), [(3, 2, "gone"), (4, 2, "gone"), (5, 1, "gone"), (6, 1, "gone")]
WRITTEN = [SNAPPED, (1, 2, "full"), *GONE]


@pytest.mark.parametrize(
    ("name", "value", "key", "rows"),
    [
        ("plain", f"op string, after struct<{ROW}>", KEY, [*WRITTEN, (2, 9, "end")]),
        ("plain", f"op string, before struct<{ROW}>, after struct<{ROW}>", KEY, [*WRITTEN, (2, 9, "end")]),
        ("flat", f"{ROW}, `__op` string, `__deleted` string", KEY, [*WRITTEN, (1, 9, "end")]),
        ("flat", f"{ROW}, `__deleted` string", KEY, [*WRITTEN, (1, 9, "end")]),
        ("bare", ROW, KEY, [*WRITTEN[:3], (4, 1, "gone"), (1, 9, "end")]),
        (
            "typed",
            f"payload struct<op string, after struct<{ROW}>>",
            "payload struct<id int>",
            [SNAPPED, (1, 2, "full"), (3, 2, "gone"), (4, 2, "gone"), (6, 1, "gone"), (7, 1, "gone"), (0, 9, "end")],
        ),
    ],
    ids=["envelope", "with before", "flat", "flat by its mark", "flat without marks", "with schemas"],
)
def test_each_event_is_the_row_as_it_was_left_and_a_placeholder_makes_it_bad(name, value, key, rows):
    """Row 2 becomes row 3 with a value that was not told; in one run the table is emptied then."""
    found, bad = made(events(name, "public.t"), value, key)
    assert values(found) == rows
    untold = [each for each in bad if says(each["_error"], "'doc' ... '__debezium_unavailable_value' ... FULL")]
    assert len(untold) == 2
    emptied = [each["_error"] for each in bad if each not in untold]
    assert len(emptied) == (name == "plain")
    assert all(says(each, "op 't' ... skipped.operations") for each in emptied)


def test_a_payload_that_is_null_is_a_tombstone_where_the_schema_beside_it_shows_that_it_is_there():
    given, key = events("bares", "public.t"), "payload struct<id int>"
    rows, bad = made(given, "schema struct<type: string>, payload struct<id int, name string>", key)
    gone = [(4, 3, "gone"), (6, 1, "gone")]
    assert [each for each in values(rows) if each[2] == "gone"] == gone
    assert not bad
    rows, bad = made(given, "payload struct<id int, name string>", key)
    assert not any(row["_is_deleted"] for row in rows)
    assert [each["offset"] for each in bad] == [4, 6]


PLACEHOLDERS = {
    "doc": "string",
    "bin": "binary",
    "ta": "array<string>",
    "ia": "array<int>",
    "ua": "array<string>",
    "hs": "string",
}


@pytest.mark.parametrize(("column", "kind"), PLACEHOLDERS.items(), ids=PLACEHOLDERS)
def test_a_value_that_was_not_told_is_known_by_what_stands_for_it_in_each_type(column, kind):
    found, bad = made(events("flat", "public.t"), f"id int, name string, {column} {kind}, `__op` string")
    assert [each["offset"] for each in bad if column in each["_error"]] == [2, 0]
    assert (1, 2, "full") in values(found)


def test_a_placeholder_of_ones_own_is_looked_for_in_its_place():
    given = [of_table({"id": 1}, {"op": "u", "after": {"id": 1, "name": name}}, offset=ord(name)) for name in "?x"]
    found, bad = made(given, ENVELOPE, unwrap=lambda batch: unwrap(batch, unavailable="?"))
    assert ([row["name"] for row in found], [each["offset"] for each in bad]) == (["x"], [ord("?")])


@pytest.mark.parametrize("text", ["3f3e3f", "Pz4/", "Pz4_"])
def test_a_placeholder_of_binary_data_is_known_in_each_mode_of_the_connector(text):
    given = [of_table({"id": 1}, {"op": "u", "after": {"id": 1, "name": text}})]
    found, bad = made(given, ENVELOPE, unwrap=lambda batch: unwrap(batch, unavailable="?>?"))
    assert ([row["name"] for row in found], len(bad)) == ([], 1)


def test_a_table_without_a_key_says_in_before_which_row_is_gone():
    found, bad = made(events("whole", "public.nokey"), ENVELOPE)
    assert values(found) == [(0, 1, "snap"), (1, 1, "x"), (2, 1, "gone")]
    assert not bad
    key = "payload struct<id int>"
    value = "schema struct<type: string>, payload struct<id int, name string>"
    [lost] = made(events("bares", "public.nokey"), value, key)[1]
    assert (lost["offset"], says(lost["_error"], "message.key.columns")) == (2, True)


OTHERS = [each for each in RECORDED if each[0] in {"__debezium-heartbeat.plain", "plain.message", "plain.transaction"}]
SCHEMA = of_table({"databaseName": "shop"}, {"ddl": "CREATE TABLE t (id INT)", "databaseName": "shop"}, "shop")


def test_what_is_no_change_of_a_row_gives_none_and_is_counted(caplog):
    found, bad = made([*OTHERS, SCHEMA], "op string, after struct<id string>, ddl string, status string", "id string")
    assert (found, bad) == ([], [])
    assert {(record.args[1], record.args[0]) for record in caplog.records} == {
        ("__debezium-heartbeat.plain", "2 records"),
        ("plain.message", "1 record"),
        ("plain.transaction", "2 records"),
        ("shop", "1 record"),
    }


AFTER = {"id": 1, "name": "a"}


@pytest.mark.parametrize("topic", ["shop.public.transaction", "shop.public.message"])
def test_a_table_may_be_called_as_topics_are_that_have_no_changes_and_loses_nothing_by_that(topic):
    given = [of_table({"id": 1}, {"op": "c", "after": AFTER}, topic), of_table({"id": 1}, None, topic)]
    assert values(made(given, ENVELOPE)[0]) == [(7, 1, "a"), (7, 1, "gone")]
    for value, columns in (({"after": AFTER}, ENVELOPE), (AFTER, "id int, name string"), (AFTER, FLAT)):
        rows, [bad] = made([of_table({"id": 1}, value, topic)], columns)
        assert (rows, says(bad["_error"], "__op ... add.fields=op")) == ([], True)


FLAT = "id int, name string, `__deleted` string"
REFUSED = {
    "another op": ({"id": 1}, {"op": "x", "after": AFTER}, ENVELOPE, " x, "),
    "no op": ({"id": 1}, {"after": AFTER}, ENVELOPE, "schemas.enable"),
    "no after": ({"id": 1}, {"op": "u", "before": AFTER}, ENVELOPE, "op is u"),
    "schemas that were not expected": ({"payload": {"id": 1}}, {"payload": {"op": "d"}}, ENVELOPE, "schemas.enable"),
    "schemas that are not there": ({"id": 1}, {"op": "d"}, f"payload struct<{ENVELOPE}>", "schemas.enable"),
    "an envelope taken for a row": ({"id": 1}, {"op": "d", "before": AFTER}, "id int, name string", "'id'"),
    "another mark": ({"id": 1}, {**AFTER, "__deleted": "no"}, FLAT, " no, "),
    "no mark": ({"id": 1}, AFTER, FLAT, "add.fields=op"),
    "a key without its column": ({"nr": 1}, {"op": "u", "after": AFTER}, ENVELOPE, "'id'"),
    "a delete whose key has no column": ({"nr": 1}, None, ENVELOPE, "'id'"),
    "another key than the row's": ({"id": 2}, {"op": "u", "after": AFTER}, ENVELOPE, "'id'"),
    "a row without its key": ({"id": 2}, {"op": "u", "after": {"name": "a"}}, ENVELOPE, "'id'"),
    "a delete of nothing": (None, {"op": "d"}, ENVELOPE, "message.key.columns"),
}


@pytest.mark.parametrize(("key", "event", "value", "said"), REFUSED.values(), ids=REFUSED)
def test_an_event_that_does_not_tell_its_row_is_a_bad_record(key, event, value, said):
    given = [of_table(key, event)]
    rows, [bad] = made(given, value)
    assert not rows
    assert said in bad["_error"]
    with pytest.raises(RowError, match=r"^shop.public.t\[0\]@7: "):
        made(given, value, most=0)


NAMED = "Json('op string, after struct<id: long>')"


@pytest.mark.parametrize(
    ("value", "key", "said"),
    [
        ("op string, before struct<id int>", KEY, NAMED),
        ("after struct<id int>", KEY, NAMED),
        (ENVELOPE, "id long", "'id' ... int32 ... int64"),
        ("op string, before struct<id long>, after struct<id int>", KEY, "'id' ... int32 ... int64"),
        ("id int, `_is_deleted` boolean", KEY, "'_is_deleted'"),
    ],
)
def test_columns_that_no_event_has_are_refused_before_anything_is_read(value, key, said):
    with pytest.raises(SettingError) as error:
        made([], value, key)
    assert says(str(error.value), said)


@pytest.mark.parametrize("decode", [None, Decode(key=Json(KEY)), Decode(value=Json(ENVELOPE))])
def test_key_and_value_have_to_be_decoded(decode):
    decoder = None if decode is None else RecordDecoder.of(decode, ["t"])
    with pytest.raises(SettingError, match=r"Rows\(decode=Decode\(key=..., value=...\)\)"):
        Making(decoder, unwrap).split(pa.RecordBatch.from_pylist([], schema(include_headers=False)))


def test_a_column_of_the_key_that_rows_lack_is_theirs():
    given = [of_table({"id": 1, "shard": "a"}, {"op": "c", "after": AFTER}), of_table({"id": 1, "shard": "a"}, None)]
    found, _ = made(given, ENVELOPE, "id int, shard string")
    assert [(row["shard"], row["_is_deleted"]) for row in found] == [("a", False), ("a", True)]


def test_avro_of_a_registry_is_the_same(monkeypatch):
    registry = small_registry(monkeypatch)
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}, {"name": "n", "type": "bytes"}]}
    before, after = (
        {"name": n, "type": ["null", t], "default": None} for n, t in (("before", row), ("after", "Value"))
    )
    envelope = {"type": "record", "name": "Envelope", "fields": [before, after, {"name": "op", "type": "string"}]}
    keyed = {"type": "record", "name": "Key", "fields": row["fields"][:1]}
    texts = {"t-value": json.dumps(envelope), "t-key": json.dumps(keyed)}
    ids = {subject: register(registry, text, subject) for subject, text in texts.items()}
    rows = [("c", None, {"id": 1, "n": b"n"}), ("u", None, {"id": 1, "n": b"__debezium_unavailable_value"})]
    rows += [("d", {"id": 1, "n": b""}, None), (None, None, None)]
    payloads = [
        {
            "topic": "t",
            "partition": 0,
            "offset": n,
            "order_time": n,
            "key": framed(ids["t-key"], texts["t-key"], {"id": 1}),
            "value": op and framed(ids["t-value"], texts["t-value"], {"op": op, "before": before, "after": after}),
        }
        for n, (op, before, after) in enumerate(rows)
    ]
    decoder = RecordDecoder.of(Decode(value=Avro(registry="r"), key=Avro(registry="r")), ["t"], REGISTRY, None)
    found, bad = Making(decoder, unwrap).split(pa.RecordBatch.from_pylist(payloads, schema(include_headers=False)))
    assert [(row["id"], row["_is_deleted"]) for row in found.to_pylist()] == [(1, False), (1, True), (1, True)]
    assert bad.column("offset").to_pylist() == [1]


def test_its_short_name_is_that_of_the_function_and_no_file_of_ones_own_is_needed(tmp_path):
    named = Rows(arrow_transform="debezium")
    assert named == Rows(arrow_transform=f"{unwrap.__module__}:{unwrap.__name__}")
    assert shipped_with("orders", tmp_path, named) is None
    with pytest.raises(SettingError, match="arrow_transform='debezium'"):
        Rows(transform="debezium")
