"""Keys and values are the same, whether they are Python objects or an Arrow array, wherever that begins."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.kafka.read.columns import Payloads, as_array, as_list, nulls, sizes

KINDS = st.sampled_from([pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])


def check(column, values):
    assert as_list(column) == values
    assert nulls(column).tolist() == [value is None for value in values]
    assert sizes(column).tolist() == [len(value or b"") for value in as_list(as_bytes(column))]


def as_bytes(column):
    return column if isinstance(column, Payloads) else column.cast(pa.large_binary())


@given(st.lists(st.none() | st.binary(max_size=5)))
def test_payloads_as_they_came_are_those_that_arrow_has(values):
    data = np.array([*(value or b"" for value in values), None], object)[:-1]
    came = Payloads(data, np.array([-1 if value is None else len(value) for value in values], np.int64))
    check(came, values)
    check(as_array(came), values)


@given(st.data(), st.lists(st.none() | st.text(max_size=5)), KINDS)
def test_a_part_of_an_arrow_array_is_read_as_that_part(data, values, kind):
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, kind).slice(start, data.draw(st.integers(0, len(values) - start)))
    check(array, array.to_pylist())
