"""Arrow batches for the tests of writing."""

import pyarrow as pa

from airflow_provider_orderedkafka.kafka.write.settings import HEADERS_TYPE, SOURCE_TYPE

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOMENT = pa.timestamp("us", "UTC")
SOURCE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("order_time", MOMENT)])

ARROW = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": HEADERS,
    "timestamp": MOMENT,
    "_source": SOURCE,
    "_seq": pa.int64(),
    "_error": pa.string(),
}
SPARK = {
    "value": "binary",
    "key": "binary",
    "topic": "string",
    "partition": "int",
    "headers": HEADERS_TYPE,
    "timestamp": "timestamp",
    "_source": SOURCE_TYPE,
    "_seq": "bigint",
    "_error": "string",
}


def batch(**columns):
    """One batch; times are in milliseconds."""
    arrays = {name: _array(name, values) for name, values in columns.items()}
    return pa.record_batch(arrays)


def batches(rows, size=1_000, **more):
    """Batches of rows with their number as value, and whatever `more` makes of a number."""
    for first in range(0, rows, size):
        numbers = range(first, min(rows, first + size))
        made = {name: [function(number) for number in numbers] for name, function in more.items()}
        yield batch(value=[b"%d" % number for number in numbers], **made)


def columns(*names):
    """The columns as Spark names them at planning."""
    return [(name, SPARK[name]) for name in names]


def source(number, topic="orders", partition=2):
    """Where a row of this number came from; its order time is as many seconds."""
    return {"topic": topic, "partition": partition, "offset": number, "order_time": number * 1_000_000}


def _array(name, values):
    if name == "timestamp":
        values = [None if value is None else value * 1_000 for value in values]
    return pa.array(values, ARROW[name])
