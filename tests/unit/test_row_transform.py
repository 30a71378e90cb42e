"""A function of one record as a transform: what it raises on is a bad record, with its position and its own bytes."""

import json
from inspect import unwrap

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.errors import RowError, SettingError, TransformError, UnreachableError
from airflow_provider_orderedkafka.kafka.read.columns import schema
from airflow_provider_orderedkafka.spark.lanes.making import Making
from airflow_provider_orderedkafka.spark.rows import row_transform


def batch(*values):
    rows = [
        {"topic": "orders", "partition": 3, "offset": 40 + n, "key": b"k%d" % n, "value": value, "order_time": n}
        for n, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema(include_headers=False))


@row_transform("key binary, total long")
def total(record):
    order = json.loads(record["value"])
    return {"key": record["key"], "total": order["price"] * order["count"]}


GOOD, BAD = b'{"price": 5, "count": 2}', b'{"price": 5}'


def split(transform, *values, decoder=None, most=None):
    return Making(decoder, transform, most).split(batch(*values))


def test_a_row_has_the_columns_that_are_named_and_its_source():
    rows, bad = split(total, GOOD)
    assert rows.schema.names == ["key", "total", "_source"]
    [row] = rows.to_pylist()
    assert (row["key"], row["total"], row["_source"]["offset"]) == (b"k0", 10, 40)
    assert bad.num_rows == 0


def test_a_record_on_which_the_function_raises_stays_as_it_is_and_says_why():
    rows, bad = split(total, GOOD, BAD, b"no", GOOD)
    assert [row["_source"]["offset"] for row in rows.to_pylist()] == [40, 43]
    found = [(row["offset"], row["key"], row["value"], row["_error"]) for row in bad.to_pylist()]
    assert found[0] == (41, b"k1", BAD, "KeyError: 'count'")
    assert found[1][:3] == (42, b"k2", b"no")
    assert found[1][3].startswith("JSONDecodeError: Expecting value")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"total": "many"}, "Could not convert 'many'"),
        ({"sum": 1}, "ValueError: a row has the column 'sum', which is not one of total"),
        ("text", "TypeError: a row must be a dictionary, found 't'"),
        ([{"total": 1}, {"total": None}, {"total": b""}], "Could not convert b''"),
    ],
)
def test_a_record_whose_rows_do_not_fit_is_bad_as_a_whole(made, why):
    wrong = row_transform("total long")(lambda record: made if record["offset"] == 41 else {"total": 1})
    rows, bad = split(wrong, b"a", b"b", b"c")
    assert [row["_source"]["offset"] for row in rows.to_pylist()] == [40, 42]
    assert bad.column("_error")[0].as_py().startswith(why)


def test_a_record_may_give_several_rows_or_none_and_what_is_left_out_is_null():
    @row_transform("n long, more string")
    def each(record):
        return None if record["offset"] == 41 else ({"n": n} for n in range(2))

    rows, _ = split(each, b"a", b"b", b"c")
    assert [(row["_source"]["offset"], row["n"], row["more"]) for row in rows.to_pylist()] == [
        (40, 0, None),
        (40, 1, None),
        (42, 0, None),
        (42, 1, None),
    ]


def test_the_original_bytes_are_kept_where_values_were_decoded():
    @row_transform("total long")
    def per_item(record):
        return {"total": record["value"]["price"] // record["value"]["count"]}

    decoder = RecordDecoder.of(Decode(value=Json("price long, count long")), ["orders"])
    zero = b'{"price": 5, "count": 0}'
    rows, bad = split(per_item, GOOD, zero, decoder=decoder)
    assert rows.column("total").to_pylist() == [2]
    assert (bad.column("value")[0].as_py(), bad.column("_error")[0].as_py()) == (
        zero,
        "ZeroDivisionError: integer division or modulo by zero",
    )


def test_one_bad_record_more_than_may_be_is_an_error_with_its_place():
    assert split(total, GOOD, BAD, most=1)[1].num_rows == 1
    with pytest.raises(RowError, match="KeyError: 'count'") as caught:
        split(total, GOOD, BAD, BAD, most=1)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 41)
    decoder = RecordDecoder.of(Decode(value=Json("price long")), ["orders"], max_bad=1)
    raising = row_transform("total long")(lambda record: {"total": 1 / record["value"]["price"]})
    with pytest.raises(RowError):
        split(raising, b'{"price": 0}', b"no", decoder=decoder, most=1)


def test_an_error_of_the_package_ends_the_load():
    theirs = UnreachableError("the shop's service does not answer")

    def lost(_record):
        raise theirs

    with pytest.raises(UnreachableError) as error:
        split(row_transform("a int")(lost), b"a")
    assert error.value is theirs


def test_a_record_of_which_a_transform_says_one_row_to_be_wrong_gives_none_at_all():
    def twice(records):
        rows = records.take(pa.array([0, 0, 1, 1]))
        return rows.append_column("_error", pa.array([None, "no second one", None, None], pa.string()))

    rows, bad = split(twice, b"a", b"b")
    assert rows.column("offset").to_pylist() == [41, 41]
    assert "_error" not in rows.schema.names
    assert bad.select(["offset", "_error"]).to_pylist() == [{"offset": 40, "_error": "no second one"}]


def test_an_error_that_belongs_to_no_record_ends_the_load():
    def sourceless(records):
        rows = records.append_column("_error", pa.array(["wrong"]))
        place = rows.schema.get_field_index("_source")
        return rows.set_column(place, "_source", pa.nulls(1, rows.schema.field("_source").type))

    with pytest.raises(TransformError, match="_source"):
        split(sourceless, b"a")


def test_it_travels_to_tasks_and_its_file_is_that_of_the_function():
    assert cloudpickle.loads(cloudpickle.dumps(total))(batch(GOOD)).column("total").to_pylist() == [10]
    assert unwrap(total).__code__.co_filename == __file__


@pytest.mark.parametrize("columns", ["", "a nothing", "_source string", "a int, _error string"])
def test_columns_that_cannot_be_are_refused(columns):
    with pytest.raises(SettingError):
        row_transform(columns)
