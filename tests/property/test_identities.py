"""The laws of interval sets, against plain sets of numbers."""

import pickle
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.identities import IntervalSet

rows = st.sets(st.integers(0, 60))
bounds = st.integers(0, 60)
intervals = st.lists(st.tuples(bounds, bounds).map(sorted).map(tuple))


def numbers(given_intervals):
    return {row for start, end in given_intervals for row in range(start, end)}


@given(rows)
def test_a_set_holds_the_rows_it_was_made_of(some):
    made = IntervalSet.of(some)
    assert set(made) == some
    assert len(made) == len(some)
    assert all((row in made) == (row in some) for row in range(62))
    assert bool(made) == bool(some)


@given(intervals)
def test_overlapping_and_touching_intervals_become_one(some):
    made = IntervalSet(some)
    assert set(made) == numbers(some)
    ends = list(made.intervals())
    assert all(start < end for start, end in ends)
    assert all(before.end < after.start for before, after in pairwise(ends))


@given(rows, st.randoms())
def test_equal_sets_have_one_form_whatever_they_were_made_of(some, random):
    one, parts = IntervalSet.of(some), [IntervalSet.of([row]) for row in some]
    random.shuffle(parts)
    other = IntervalSet()
    for part in parts:
        other |= part
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))
    assert pickle.loads(pickle.dumps(one)) == one


@given(rows, rows, rows)
def test_union_is_that_of_sets(one, two, three):
    a, b, c = map(IntervalSet.of, (one, two, three))
    assert set(a | b) == one | two
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a | a == a
    assert a | IntervalSet() == a


@given(rows, bounds, bounds)
def test_a_window_shows_what_lies_in_it(some, one, other):
    start, end = sorted((one, other))
    assert numbers(IntervalSet.of(some).within(start, end)) == {row for row in some if start <= row < end}


@given(rows)
def test_sets_that_differ_are_not_equal(some):
    assert IntervalSet.of(some) != IntervalSet.of(some ^ {3})
    assert IntervalSet.of(some) != some


@pytest.mark.parametrize("wrong", [(3, 2), (-1, 2), (0, 2**63)])
def test_what_is_no_interval_is_refused(wrong):
    with pytest.raises(ValueError, match="0 <= start <= end"):
        IntervalSet([wrong])


def test_ten_million_rows_with_a_hole_at_every_thousandth_fit_in_a_few_hundred_kilobytes():
    made = IntervalSet((start, start + 999) for start in range(0, 10_000_000, 1_000))
    assert len(made) == 9_990_000
    assert len(pickle.dumps(made)) < 200_000
    assert sys.getsizeof(made) < 200_000
