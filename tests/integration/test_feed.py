"""The batches as they are planned: the same in every attempt, however differently they would be planned now."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.batches import Allotment, Counts, Note, Tally
from airflow_provider_orderedkafka.core.cuts import Floor, Place
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.feed import Feed
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.session import LazySession
from airflow_provider_orderedkafka.spark.state import LocalState

START = 1_700_000_000_000
Followed = Callable[..., list[tuple[int, int, int]]]


@pytest.fixture
def loaded(kafka: Any, topics: Topics, records: Records) -> Range:
    """A range of 100 offsets in batches of 30."""
    source = topics.create("a")
    records.produce(source, [Record(b"x", START + number) for number in range(100)])
    return whole_range(kafka.bootstrap_servers, source, batch_offsets=30)


@pytest.fixture
def checkpoint(tmp_path: Path, loaded: Range) -> Checkpoint:
    """Where earlier attempts have written."""
    found = Checkpoint(LocalState(tmp_path))
    found.take_up(loaded)
    return found


@pytest.fixture
def left() -> list[list[int]]:
    """What is told to be left once each batch was handed over."""
    return []


@pytest.fixture
def followed(kafka: Any, spark: Any, loaded: Range, checkpoint: Checkpoint, left: list[list[int]]) -> Followed:
    """What an attempt is handed over: each batch's number, and where it begins and ends."""

    def follow(until: int = 100, cut: int = 0) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        frames = RangeFrames(LazySession(), loaded, KafkaConfig({"bootstrap.servers": kafka.bootstrap_servers}))
        counts = checkpoint.counts()
        stands = [(1, loaded.start) if counts is None else (counts.batch + 1, counts.end)]
        feed = Feed(frames, checkpoint, lambda: stands[-1])
        for batch in feed.batches(lambda: len(found) == until):
            [(begin, end)] = zip(batch.start.offsets.values(), batch.end.offsets.values(), strict=True)
            found.append((batch.number, begin, end))
            stands.append((batch.number + 1, batch.end if batch.number != cut else place(loaded, begin + 5)))
            left.append(list(feed.left()))
        return found

    return follow


def place(loaded: Range, offset: int) -> Place:
    [partition] = loaded.end.offsets
    return Place(Offsets({partition: offset}), Floor(START + offset))


def note(loaded: Range, batch: int, begin: int, end: int) -> Note:
    return Note(
        batch, 1, place(loaded, begin), place(loaded, end), Offsets({TopicPartition("out", 0): 0}), {"out": "id"}
    )


def test_the_batches_cover_the_range_and_the_last_ends_where_the_range_does(followed: Followed) -> None:
    assert followed() == [(1, 0, 30), (2, 30, 60), (3, 60, 90), (4, 90, 100)]


def test_nothing_follows_once_nothing_may(followed: Followed) -> None:
    assert followed(until=2) == [(1, 0, 30), (2, 30, 60)]


def test_a_batch_begins_where_the_row_limit_ended_the_one_before_it(followed: Followed, left: list[list[int]]) -> None:
    assert followed(cut=2) == [(1, 0, 30), (2, 30, 60), (3, 35, 65), (4, 65, 95), (5, 95, 100)]
    assert left[1] == [3, 4, 5]


def test_a_batch_that_was_noted_ends_where_its_note_says(
    followed: Followed, checkpoint: Checkpoint, loaded: Range
) -> None:
    checkpoint.put_note(note(loaded, 1, 0, 17))
    assert followed() == [(1, 0, 17), (2, 17, 47), (3, 47, 77), (4, 77, 100)]


def test_a_batch_with_an_allotment_ends_where_that_says(
    followed: Followed, checkpoint: Checkpoint, loaded: Range
) -> None:
    checkpoint.put_allotment(Allotment(1, (5,), place(loaded, 5), None))
    assert followed(until=1) == [(1, 0, 5)]


def test_what_is_counted_is_not_handed_over_again(followed: Followed, checkpoint: Checkpoint, loaded: Range) -> None:
    checkpoint.put_note(note(loaded, 1, 0, 17))
    checkpoint.put_counts(Counts(1, Tally(), Tally(), 1, place(loaded, 17), limit_spent=False))
    assert followed(until=1) == [(2, 17, 47)]


def test_the_batches_that_are_left_are_known_by_number_without_planning_them(
    followed: Followed, left: list[list[int]]
) -> None:
    followed()
    assert left == [[2, 3, 4], [3, 4], [4], []]


def test_more_are_left_where_one_that_was_begun_is_a_smaller_one(
    followed: Followed, checkpoint: Checkpoint, loaded: Range, left: list[list[int]]
) -> None:
    checkpoint.put_note(note(loaded, 1, 0, 7))
    followed()
    assert left == [[2, 3, 4, 5], [3, 4, 5], [4, 5], [5], []]
