"""What a header is made of can be read from it again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.identities import Identity
from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.kafka.provenance import (
    HEADER,
    Provenance,
    Stamp,
    batch_prefix,
    read_provenance,
)

longs = st.integers(0, 2**63 - 1)
ints = st.integers(0, 2**32 - 1)
ids = st.text(min_size=1, max_size=60)
topics = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=249)
sources = st.tuples(topics, st.integers(0, 2**31 - 1), longs, st.integers(-1, 2**62))


@given(ids, ints, ints, st.lists(st.tuples(longs, sources), min_size=1, max_size=5))
def test_headers_of_many_rows_are_read_back_one_by_one(range_id, batch, writer, rows):
    numbers, places = zip(*rows, strict=True)
    names, partitions, offsets, times = zip(*places, strict=True)
    made = Stamp(range_id, batch, writer).headers(
        np.array(numbers), [name.encode() for name in names], np.array(partitions), np.array(offsets), np.array(times)
    )
    for value, (row, (topic, partition, offset, time)) in zip(made, rows, strict=True):
        expected = Provenance(Identity(range_id, batch, writer, row), TopicPartition(topic, partition), offset, time)
        assert read_provenance([("other", b"x"), (HEADER, value)]) == expected
        assert value.startswith(batch_prefix(range_id, batch))
        assert len(HEADER) + len(value) <= Stamp(range_id, batch, writer).most_bytes


@given(st.tuples(ids, ints), st.tuples(ids, ints))
def test_no_batch_is_taken_for_another(one, other):
    if one != other:
        assert not batch_prefix(*one).startswith(batch_prefix(*other))


def test_a_row_without_a_source_has_its_identity_only():
    nowhere, zero = np.array([-1]), np.array([0])
    [value] = Stamp("r1", 2, 3).headers(np.array([4]), [b""], nowhere, nowhere, zero)
    found = read_provenance({HEADER: value})
    assert found == Provenance(Identity("r1", 2, 3, 4), None, None, 0)
    assert str(found) == "row 4 of writer 3, batch 2 of range r1"


def test_provenance_prints_as_a_position():
    [value] = Stamp("r1", 2, 3).headers(*map(np.array, ([4], [b"orders"], [1], [17], [1_000])))
    assert str(read_provenance([(HEADER, bytes(value))])).startswith("orders[1]@17 (order time 1000 ms; row 4 of")


@pytest.mark.parametrize("headers", [None, [], {}, [("other", b"x")]])
def test_records_of_others_have_no_provenance(headers):
    assert read_provenance(headers) is None


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x02r1\x00", None, b"\x01\x02r1" + bytes(9)])
def test_a_damaged_header_is_an_error_that_shows_it(value):
    with pytest.raises(DocumentError, match="'orderedkafka' is damaged"):
        read_provenance([(HEADER, value)])


def test_a_header_of_a_later_version_says_so():
    with pytest.raises(DocumentError, match="version 9, this release reads 1"):
        read_provenance([(HEADER, b"\x09rest")])


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_a_range_id_that_does_not_fit_is_refused(name):
    with pytest.raises(SettingError, match="1 to 255 bytes"):
        batch_prefix(name, 0)
