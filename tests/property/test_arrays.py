"""What is read out of Arrow's memory is what Arrow says, wherever an array begins and whatever is null."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.kafka import arrays
from airflow_provider_orderedkafka.kafka.payloads import Payloads, as_array, as_list, nulls, sizes

NUMBERS = st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC")])
BYTES = st.sampled_from([pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])


def sliced(data: st.DataObject, values: list, kind: pa.DataType) -> pa.Array:
    start = data.draw(st.integers(0, len(values)))
    return pa.array(values, kind).slice(start, data.draw(st.integers(0, len(values) - start)))


@given(st.data(), st.lists(st.none() | st.integers(-100, 100)), NUMBERS)
def test_numbers(data, values, kind):
    array = sliced(data, values, kind)
    expected = pc.fill_null(array.cast(pa.int64()) if array.type.bit_width == 64 else array, 7).to_pylist()
    assert arrays.numbers(array, 7).tolist() == expected
    assert arrays.nulls(array).tolist() == array.is_null().to_pylist()


@given(st.data(), st.lists(st.none() | st.booleans()))
def test_truth_values(data, values):
    array = sliced(data, values, pa.bool_())
    assert arrays.numbers(array, otherwise=False).tolist() == [bool(value) for value in array.to_pylist()]


@given(st.data(), st.lists(st.none() | st.text(max_size=5)), BYTES)
def test_sizes(data, values, kind):
    array = sliced(data, values, kind)
    found = array.cast(pa.binary() if kind in (pa.binary(), pa.string()) else pa.large_binary())
    assert arrays.sizes(array).tolist() == [len(value or b"") for value in found.to_pylist()]


@given(st.data(), st.lists(st.none() | st.text(max_size=5)), BYTES)
def test_values(data, values, kind):
    array = sliced(data, values, kind)
    assert arrays.values(array) == array.to_pylist()


@given(st.lists(st.none() | st.binary(max_size=5)))
def test_payloads_as_they_came_are_those_that_arrow_has(values):
    data = np.array([*(value or b"" for value in values), None], object)[:-1]
    came = Payloads(data, np.array([-1 if value is None else len(value) for value in values], np.int64))
    for column in (came, as_array(came)):
        assert as_list(column) == values
        assert nulls(column).tolist() == [value is None for value in values]
        assert sizes(column).tolist() == [len(value or b"") for value in values]
