"""What records become in the model: transforms of either kind, by a word in each value."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pyarrow as pa

from airflow_provider_orderedkafka.kafka.provenance import ERROR
from support.small_spark import SmallFrame

ROWS = {b"one": 1, b"none": 0, b"two": 2, b"large": 1, b"sick": 2}
"""What records become, by what their values begin with; a large one is too large for an output."""

sick_ones: set[bytes] = set()
"""What the values of records begin with that are bad for now."""


def expand(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As many rows of each record as its value says."""
    return _repeated(batch, lambda rows: rows)


def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Some of the records."""
    return _repeated(batch, lambda rows: min(rows, 1))


def _repeated(batch: pa.RecordBatch, times: Callable[[int], int]) -> pa.RecordBatch:
    rows = [times(ROWS[value.split(b"-")[0]]) for value in batch.column("value").to_pylist()]
    places = chain.from_iterable([place] * count for place, count in enumerate(rows))
    made = batch.take(pa.array(places, pa.int64()))
    if not sick_ones:
        return made
    bad = [value.split(b"-")[0] in sick_ones for value in made.column("value").to_pylist()]
    return made.append_column(ERROR, pa.array(["sick" if each else None for each in bad], pa.string()))


def rekey(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows under other keys."""
    batch = expand(batch)
    keys = pa.array([value.rstrip(b".")[-1:] for value in batch.column("value").to_pylist()], pa.binary())
    return batch.set_column(batch.schema.get_field_index("key"), "key", keys)


def route(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, to two topics by their values."""
    batch = expand(batch)
    topics = pa.array([f"out-{len(value) % 2}" for value in batch.column("value").to_pylist()], pa.string())
    return batch.set_column(batch.schema.get_field_index("topic"), "topic", topics)


def _as_frames(transform: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[SmallFrame], SmallFrame]:
    def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.drop_columns([ERROR]) if ERROR in batch.schema.names else batch

    return lambda frame: frame.mapInArrow(lambda batches: (sound(transform(each)) for each in batches), frame.schema)


TRANSFORMS: dict[str, tuple[bool, Any]] = {
    "copy": (False, None),
    "keep": (False, keep),
    "expand": (False, expand),
    "rekey": (False, rekey),
    "route": (False, route),
    "keep frames": (True, _as_frames(keep)),
    "expand frames": (True, _as_frames(expand)),
    "join frames": (True, _as_frames(expand)),
}
"""Each way of making rows: whether it is a transform of DataFrames, and which."""
