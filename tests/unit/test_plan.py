"""A range's batches before they are loaded: how large they are, and what planning takes, however long the range."""

import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.runs import a_range
from support.simulated_log import SteadyLog

from airflow_provider_orderedkafka.core.batches import (
    MOST_BYTES,
    MOST_OFFSETS,
    MOST_STRETCHES,
    SLICE_OFFSETS,
    WINDOW,
    Allotment,
    Note,
    Planned,
    Size,
    needs_sample,
    size_of,
    window,
)
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import TopicChangedError
from airflow_provider_orderedkafka.spark.application.batch_loop import Plan
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState

MIB = 2**20


def range_of(log: SteadyLog) -> Range:
    """All that the log holds."""
    ends = log.ends()
    latest = max(log.newest(ends.partitions).values(), key=lambda answer: answer.timestamp).timestamp
    places = {"start": Place(Offsets(dict.fromkeys(ends, 0)), Floor()), "end": Place(ends, Floor(latest + 1))}
    return replace(a_range("r", 0, 0, 1), planned_at=latest, future_tolerance=0, batch_offsets=None, **places)


def test_the_first_batches_of_a_range_of_a_billion_offsets_are_planned_with_few_questions_and_little_memory() -> None:
    log = SteadyLog(1_000, 1_000_000)
    loaded = range_of(log)
    assert loaded.offsets == 10**9
    tracemalloc.start()
    size = size_of(loaded, 500.0)
    ends = Planner(log, loaded.span).ends(size.offsets, WINDOW)
    planned = window(loaded, 1, loaded.start, ends, size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [each.offsets for each in planned] == [MOST_OFFSETS] * WINDOW
    assert (planned[0].batches, planned[0].about, planned[-1].left) == (200, True, 10**9 - WINDOW * MOST_OFFSETS)
    assert peak < 100 * MIB
    assert log.asked < 500


def test_a_plan_over_2_000_partitions_goes_through_all_of_them_a_few_times_and_not_once_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = SteadyLog(2_000, 100_000)
    loaded = range_of(log)
    gone_through: list[int] = []
    plain = Offsets.partitions.fget
    assert plain is not None
    monkeypatch.setattr(Offsets, "partitions", property(lambda self: gone_through.append(1) or plain(self)))
    ends = Planner(log, loaded.span).ends(size_of(loaded, 500.0).offsets, WINDOW)
    batch = Span(loaded.start.offsets, ends[0].offsets, loaded.start.floor, loaded.latest)
    slices = Planner(log, batch).slices(SLICE_OFFSETS, "fail")
    assert (len(ends), len(slices), sum(each.offsets for each in slices)) == (WINDOW, 50, batch.offsets)
    assert len(gone_through) < 1_000
    assert log.asked < 500


def test_the_slices_of_a_batch_are_few_enough_for_the_driver_and_for_each_task() -> None:
    log = SteadyLog(1_000, 1_000_000)
    loaded = range_of(log)
    [end] = Planner(log, loaded.span).ends(size_of(loaded, 500.0).offsets, 1)
    batch = Span(loaded.start.offsets, end.offsets, loaded.start.floor, loaded.latest)
    slices = Planner(log, batch).slices(SLICE_OFFSETS, "fail")
    assert sum(len(each.stretches) for each in slices) <= MOST_STRETCHES
    packed = [pickle.dumps(each) for each in slices]
    assert max(map(len, packed)) < MIB // 8
    assert sum(map(len, packed)) < 8 * MIB


@pytest.mark.parametrize(
    ("partitions", "average", "slice_offsets", "offsets"),
    [
        (3, None, SLICE_OFFSETS, MOST_OFFSETS),
        (3, 100.0, SLICE_OFFSETS, MOST_OFFSETS),
        (3, 10_000.0, SLICE_OFFSETS, MOST_BYTES // 10_000),
        (3, 2.0 * MOST_BYTES, SLICE_OFFSETS, 1),
        (10_000, 100.0, SLICE_OFFSETS, 20 * SLICE_OFFSETS),
        (1_000, 100.0, 1_000, 200 * 1_000),
    ],
)
def test_batches_are_bounded_by_offsets_bytes_and_what_their_slices_take(
    partitions: int, average: float | None, slice_offsets: int, offsets: int
) -> None:
    loaded = range_of(SteadyLog(partitions, 1_000_000))
    assert size_of(loaded, average, slice_offsets) == Size(offsets, average)


def test_what_is_asked_for_is_the_size_whatever_it_takes() -> None:
    loaded = replace(range_of(SteadyLog(1_000, 1_000_000)), batch_offsets=10**8)
    assert size_of(loaded, 10_000.0).offsets == 10**8
    assert not needs_sample(loaded)


def test_a_range_of_few_offsets_is_not_sampled() -> None:
    assert not needs_sample(range_of(SteadyLog(4, 1_000)))
    assert needs_sample(range_of(SteadyLog(4, 2_000)))


def test_the_last_batch_ends_where_the_range_does_floor_included() -> None:
    loaded = range_of(SteadyLog(2, 50))
    ends = Planner(SteadyLog(2, 50), loaded.span).ends(40, WINDOW)
    planned = window(loaded, 1, loaded.start, ends, Size(40, 10.0))
    assert [(each.batch, each.offsets, each.left, each.bytes) for each in planned] == [
        (1, 40, 60, 400),
        (2, 40, 20, 400),
        (3, 20, 0, 200),
    ]
    assert {(each.batches, each.about) for each in planned} == {(3, False)}
    assert planned[-1].end(loaded) == loaded.end


def test_there_may_be_fewer_batches_where_a_row_limit_may_end_them() -> None:
    loaded = replace(range_of(SteadyLog(2, 50)), rows_left=10)
    ends = Planner(SteadyLog(2, 50), loaded.span).ends(40, WINDOW)
    assert all(each.about for each in window(loaded, 1, loaded.start, ends, Size(40)))


@pytest.fixture
def loaded() -> Range:
    """A range of 100 offsets in batches of 30."""
    return replace(range_of(SteadyLog(2, 50)), batch_offsets=30, topics={"large": "id"})


@pytest.fixture
def checkpoint(tmp_path: Path, loaded: Range) -> Checkpoint:
    """Where earlier attempts have written."""
    found = Checkpoint(LocalState(tmp_path))
    found.take_up(loaded)
    return found


def plan_of(loaded: Range, checkpoint: Checkpoint, **topics: str) -> Plan:
    """The plan of a range on a steady log, whose topics have these ids now."""
    cluster = SimpleNamespace(
        topics=lambda: SimpleNamespace(ids={**loaded.topics, **topics}),
        log=SteadyLog(2, 50),
        check_logs=lambda _loaded: None,
    )
    frames: Any = SimpleNamespace(loaded=loaded, cluster=cluster, slice_offsets=SLICE_OFFSETS)
    return Plan(frames, checkpoint)


def place(loaded: Range, first: int, second: int) -> Place:
    return Place(Offsets(zip(loaded.end.offsets, (first, second), strict=True)), Floor(0))


def spans(found: list[Planned]) -> list[tuple[int, int]]:
    return [(each.batch, each.offsets) for each in found]


def test_batches_cover_what_is_left_and_nothing_follows_the_range(loaded: Range, checkpoint: Checkpoint) -> None:
    plan = plan_of(loaded, checkpoint)
    assert spans(plan.window(1, loaded.start)) == [(1, 30), (2, 30), (3, 30), (4, 10)]
    assert spans(plan.window(3, place(loaded, 20, 15))) == [(3, 30), (4, 30), (5, 5)]
    assert plan.window(5, loaded.end) == []


def test_a_batch_that_was_noted_ends_where_its_note_says(loaded: Range, checkpoint: Checkpoint) -> None:
    checkpoint.put_note(Note(2, 1, place(loaded, 15, 15), place(loaded, 17, 20), Offsets(), {}))
    found = plan_of(loaded, checkpoint).window(2, place(loaded, 15, 15))
    assert spans(found) == [(2, 7), (3, 30), (4, 30), (5, 3)]
    assert found[0].end(loaded) == place(loaded, 17, 20)


def test_a_batch_with_an_allotment_ends_where_that_says(loaded: Range, checkpoint: Checkpoint) -> None:
    checkpoint.kept(Allotment(1, (5,), place(loaded, 3, 2), None))
    assert spans(plan_of(loaded, checkpoint).window(1, loaded.start))[:2] == [(1, 5), (2, 30)]


def test_what_was_begun_may_be_all_that_is_left(loaded: Range, checkpoint: Checkpoint) -> None:
    checkpoint.put_note(Note(1, 1, loaded.start, loaded.end, Offsets(), {}))
    assert spans(plan_of(loaded, checkpoint).window(1, loaded.start)) == [(1, 100)]


def test_a_topic_that_was_made_anew_is_refused_before_anything_is_planned(
    loaded: Range, checkpoint: Checkpoint
) -> None:
    with pytest.raises(TopicChangedError) as caught:
        plan_of(loaded, checkpoint, large="another").window(1, loaded.start)
    assert caught.value.topic == "large"
