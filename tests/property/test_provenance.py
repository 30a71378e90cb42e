"""What a header is made of can be read from it again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.kafka.provenance import HEADER, Provenance, range_prefix, read_provenance
from airflow_provider_orderedkafka.kafka.write.rows import Source, stamp_bytes, stamps

longs = st.integers(0, 2**63 - 1)
ids = st.text(min_size=1, max_size=60)
topics = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=249)
sources = st.tuples(topics, st.integers(0, 2**31 - 1), longs, st.integers(-1, 2**62))
ordinals = st.integers(-1, 2**31 - 1)


def source_of(*places):
    names, partitions, offsets, times = zip(*places, strict=True)
    distinct = tuple(dict.fromkeys(names))
    codes = [distinct.index(name) for name in names]
    return Source(distinct, *map(np.array, (codes, partitions, offsets, times)))


@given(ids, st.lists(st.tuples(ordinals, sources), min_size=1, max_size=5))
def test_headers_of_many_rows_are_read_back_one_by_one(range_id, rows):
    numbers, places = zip(*rows, strict=True)
    made = stamps(range_id, source_of(*places), np.array(numbers))
    for value, ordinal, (topic, partition, offset, time) in zip(made, numbers, places, strict=True):
        expected = Provenance(range_id, TopicPartition(topic, partition), offset, ordinal, time)
        assert read_provenance([("other", b"x"), (HEADER, value)]) == expected
        assert value.startswith(range_prefix(range_id))
        assert len(HEADER) + len(value) <= stamp_bytes(range_id)


@given(ids, ids)
def test_no_range_is_taken_for_another(one, other):
    if one != other:
        assert not range_prefix(one).startswith(range_prefix(other))


def test_a_row_without_a_source_says_so():
    [value] = stamps("r1", Source.nowhere(1), np.array([0]))
    found = read_provenance({HEADER: value})
    assert found == Provenance("r1", None, None, 0, 0)
    assert str(found) == "a row without a source (range r1)"


def test_rows_with_and_without_a_source_may_come_together():
    source = Source(("a",), *map(np.array, ([0, -1], [3, -1], [9, -1], [5, 0])))
    one, other = stamps("r1", source, np.array([1, 0]))
    assert read_provenance({HEADER: one}) == Provenance("r1", TopicPartition("a", 3), 9, 1, 5)
    assert read_provenance({HEADER: other}).source is None


@pytest.mark.parametrize(
    ("ordinal", "said"),
    [
        (0, "orders[1]@17 (order time 1000 ms, range r1)"),
        (2, "orders[1]@17 (row 2 of this record, order time 1000 ms, range r1)"),
    ],
)
def test_provenance_prints_as_a_position(ordinal, said):
    [value] = stamps("r1", source_of(("orders", 1, 17, 1_000)), np.array([ordinal]))
    assert str(read_provenance([(HEADER, bytes(value))])) == said


@pytest.mark.parametrize("headers", [None, [], {}, [("other", b"x")]])
def test_records_of_others_have_no_provenance(headers):
    assert read_provenance(headers) is None


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02\x02r1\x00", None, b"\x01\x02r1" + bytes(9), b"\x02\x02r1"])
def test_a_damaged_header_is_an_error_that_shows_it(value):
    with pytest.raises(DocumentError, match="'orderedkafka'"):
        read_provenance([(HEADER, value)])


def test_a_header_of_a_later_version_says_so():
    with pytest.raises(DocumentError, match="9"):
        read_provenance([(HEADER, b"\x09rest")])


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_a_range_id_that_does_not_fit_is_refused(name):
    with pytest.raises(SettingError, match="255"):
        range_prefix(name)
