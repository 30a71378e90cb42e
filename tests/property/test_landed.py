"""The laws of what landed, against plain sets, and which rows are passed on because they did not."""

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.batches import batch
from support.slices import slice_of, stretch

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.provenance import ORDINAL, WHOLE_RECORD
from airflow_provider_orderedkafka.kafka.replay.landed import Landed, LandedFilter
from airflow_provider_orderedkafka.kafka.write.rows import Ordinals, Source, with_ordinals

near = st.integers(0, 200)
far = st.sampled_from([0, 65_535, 65_536, 10**9, 2**62]).flatmap(lambda at: st.integers(max(at - 5, 0), at + 5))
offsets = st.one_of(near, far)
HERE = TopicPartition("a", 0)


def rows_at(*parts):
    made = Landed()
    for part in parts:
        made.add(HERE, np.zeros(len(part), np.int64), np.array(sorted(part), np.int64))
    return made


def asked_of(landed, offsets):
    """Which of these offsets have landed."""
    none = np.zeros(len(offsets), np.int64)
    return landed.has(Source(("a",), none, none, np.array(offsets), none), none).tolist()


@given(st.lists(st.sets(offsets), max_size=4), st.lists(offsets, min_size=1))
def test_what_was_added_is_there_however_often_and_wherever_it_travels(parts, asked):
    made, expected = rows_at(*parts), set().union(*parts)
    for each in (made, pickle.loads(pickle.dumps(made))):
        assert [offset for _, offset, _ in each] == sorted(expected)
        assert each.rows == len(expected)
        assert asked_of(each, asked) == [offset in expected for offset in asked]


@given(st.sets(offsets), offsets, offsets)
def test_a_window_has_what_lies_in_it_and_leaves_the_whole_as_it_was(some, one, other):
    start, end = sorted((one, other))
    made = rows_at(some)
    window = made.within({HERE: (start, end)})
    window.add(HERE, np.array([0]), np.array([7]))
    assert [at for _, at, _ in window] == sorted({offset for offset in some if start <= offset < end} | {7})
    assert [at for _, at, _ in made] == sorted(some)


@pytest.mark.parametrize("step", [1, 1_000])
def test_what_landed_takes_little_on_its_way_to_tasks(step):
    assert len(pickle.dumps(rows_at(range(0, 1_000_000 * step, step)))) < 200_000


places = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 3)), max_size=12)


def rows_of(places):
    named = [
        None if place is None else {"topic": place[0], "partition": place[1], "offset": place[2], "order_time": 0}
        for place in places
    ]
    return batch(value=[b"%d" % n for n in range(len(places))], _source=named)


@given(places, st.data())
def test_each_row_has_a_number_among_those_of_its_record_whatever_batches_it_comes_in(given_places, data):
    cut = data.draw(st.integers(0, len(given_places)))
    numbering = Ordinals()
    found = [
        number
        for part in (given_places[:cut], given_places[cut:])
        for number in numbering.of(Source.of(rows_of(part), "struct")).tolist()
    ]
    seen = Counter()
    for place, number in zip(given_places, found, strict=True):
        assert number == seen[place]
        seen[place] += 1


def landed_of(rows):
    landed = Landed()
    for topic, partition, offset, ordinal in rows:
        landed.add(TopicPartition(topic, partition), np.array([ordinal]), np.array([offset]))
    return landed


@given(places, st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3))))
def test_what_is_missing_is_all_but_what_landed(given_places, there):
    [passed] = LandedFilter(landed_of(there), "many", "struct").of([rows_of(given_places)]) if given_places else [None]
    seen, expected = Counter(), []
    for number, place in enumerate(given_places):
        if (*place, seen[place]) not in there:
            expected.append((number, seen[place]))
        seen[place] += 1
    if passed is not None:
        assert [(int(v), o) for v, o in zip(passed["value"].to_pylist(), passed[ORDINAL].to_pylist(), strict=True)] == (
            expected
        )


def letters_of(*offsets):
    """Dead letters, each a whole record, as rows."""
    return with_ordinals(rows_of([("a", 0, offset) for offset in offsets]), np.full(len(offsets), WHOLE_RECORD))


@pytest.mark.parametrize("rows_per_record", ["one", "many", "joined"])
def test_a_dead_letter_that_landed_is_in_the_place_of_all_rows_of_its_record(rows_per_record):
    left = LandedFilter(landed_of([("a", 0, 1, WHOLE_RECORD)]), rows_per_record, "struct")
    passed = [each for part in left.of([rows_of([("a", 0, 1)] * 3 + [("a", 0, 2)])]) for each in part["value"]]
    assert [each.as_py() for each in passed] == [b"3"]
    assert [part.num_rows for part in left.of([letters_of(1)])] in ([0], [0, 0])
    assert left.resent == 0


def test_a_record_that_is_bad_once_its_row_has_landed_needs_no_letter_where_it_gives_one_row():
    left = LandedFilter(landed_of([("a", 0, 1, 0)]), "one", "struct")
    assert [part["value"].to_pylist() for part in left.of([letters_of(1, 2)])] == [[b"1"]]
    assert left.resent == 0


def test_a_record_that_is_bad_once_some_of_its_rows_have_landed_becomes_a_letter_and_is_counted():
    there = landed_of([("a", 0, 1, 0), ("a", 0, 1, 1), ("a", 0, 3, 2)])
    left = LandedFilter(there, "many", "struct")
    assert [part["value"].to_pylist() for part in left.of([letters_of(1, 2)])] == [[b"0", b"1"]]
    assert left.resent == 2
    there.add(HERE, np.array([WHOLE_RECORD]), np.array([1]), dead=True)
    assert (there.in_letters_too, there.rows, there.dead_letters) == (2, 4, 1)


def test_a_row_without_a_source_is_always_missing():
    rows = rows_of([None, ("a", 0, 1), None])
    [passed] = LandedFilter(landed_of([("a", 0, 1, 0)]), "many", "struct").of([rows])
    assert passed["value"].to_pylist() == [b"0", b"2"]


def test_rows_of_a_join_that_matches_twice_are_passed_on_whatever_landed_and_counted():
    there = landed_of([("a", 0, 1, 0), ("a", 0, 2, 0)])
    left = LandedFilter(there, "joined", "struct")
    rows = [rows_of([("a", 0, 1), ("a", 0, 2)]), rows_of([("a", 0, 2), ("a", 0, 3)])]
    passed = [each for part in left.of(rows) for each in part["value"].to_pylist()]
    assert passed == [b"1", b"0", b"1"]
    assert left.resent == 1


def test_what_retention_took_is_lost_but_for_the_records_that_had_landed():
    landed = landed_of([("a", 0, 3, 0), ("a", 0, 3, 1), ("a", 0, 4, 0), ("a", 0, 9, 0)])
    slice_ = slice_of(stretch("a", 0, 2, 20), stretch("b", 0, 0, 10))
    assert landed.lost(slice_, {TopicPartition("a", 0): 5, TopicPartition("b", 0): 4}) == 7
    assert Landed().lost(slice_, {TopicPartition("a", 0): 5}) == 5
