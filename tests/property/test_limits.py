"""The row limit: the first rows in order, whatever the slices are, and the place behind the last of them."""

from hypothesis import given
from hypothesis import strategies as st
from property.test_cuts import LATEST, floors, logs, sizes, spans

from airflow_provider_orderedkafka.core.next_range import allot, passes, place_after
from airflow_provider_orderedkafka.core.order.cuts import Span
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Position

rows = st.lists(st.integers(0, 9), max_size=12)


@given(rows, st.integers(0, 80))
def test_a_limit_lets_the_first_rows_of_all_slices_pass_and_no_other(counts, left):
    labelled = [(slice_, row) for slice_, count in enumerate(counts) for row in range(count)]
    allotted = allot(counts, left)
    assert [row for row in labelled if row[1] < allotted[row[0]]] == labelled[:left]


@given(rows, st.integers(0, 80))
def test_a_limit_given_out_over_two_batches_is_the_limit_given_out_at_once(counts, left):
    half = len(counts) // 2
    first = allot(counts[:half], left)
    assert first + allot(counts[half:], left - sum(first)) == allot(counts, left)


@given(rows, st.integers(0, 80))
def test_slices_that_pass_whole_leave_rows_for_those_behind_them(counts, left):
    assert passes(counts, left) == (allot([*counts, 1], left)[-1] == 1)


@given(logs(), floors, st.data())
def test_the_place_behind_a_record_has_it_and_all_before_it_on_one_side_and_the_rest_on_the_other(log, floor, data):
    span = spans(log, floor)
    everything = log.in_order(span)
    if not everything:
        return
    number = data.draw(st.integers(0, len(everything) - 1))
    last = everything[number]
    place = place_after(log, span, Position(*last))
    assert log.in_order(Span(span.start, place.offsets, floor, LATEST)) == everything[: number + 1]
    assert log.in_order(Span(place.offsets, span.end, place.floor, LATEST)) == everything[number + 1 :]


@given(logs(), floors, sizes, st.data())
def test_going_on_from_the_place_behind_a_record_gives_the_same_slices_of_the_rest(log, floor, each, data):
    span = spans(log, floor)
    everything = log.in_order(span)
    if not everything:
        return
    number = data.draw(st.integers(0, len(everything) - 1))
    place = place_after(log, span, Position(*everything[number]))
    rest = Span(place.offsets, span.end, place.floor, LATEST)
    slices = Planner(log, rest).slices(each, "fail")
    assert [record for slice_ in slices for record in log.read(slice_)] == everything[number + 1 :]
