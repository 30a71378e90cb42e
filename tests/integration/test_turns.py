"""The streaming query of a load: a batch in each turn, whatever earlier attempts left in its checkpoint."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_orderedkafka.errors import StateError
from airflow_provider_orderedkafka.spark import turns
from airflow_provider_orderedkafka.spark.checkpoint import RANGE, Checkpoint
from airflow_provider_orderedkafka.spark.state import LocalState
from airflow_provider_orderedkafka.spark.turns import FILES, PLAIN_FILES, Turns


class Batches:
    """So many batches, by number; `taken` are those that were handed over."""

    def __init__(self, count: int, told: int | None = None) -> None:
        self.taken: list[int] = []
        self._all = range(1, count + 1)
        self._told = range(1, (told or count) + 1)

    def left(self) -> range:
        """The numbers of those that are left, as far as is told."""
        return self._told[len(self.taken) :] or self._all[len(self.taken) :]

    def __iter__(self) -> Iterator[Any]:
        for number in self._all:
            self.taken.append(number)
            yield number


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint whose name means something to those who read patterns or addresses."""
    return tmp_path / "of [a] {load}, 100%25 *?"


@pytest.fixture
def checkpoint(folder: Path) -> Checkpoint:
    """The range lies there."""
    found = Checkpoint(LocalState(folder))
    found.state.put(RANGE, "")
    return found


@pytest.fixture
def follow(spark: Any, checkpoint: Checkpoint) -> Callable[..., None]:
    """Follow some batches by a query, as an attempt does."""

    def followed(batches: Batches, take: Callable[[Any], None] = lambda _batch: None) -> None:
        frames: Any = SimpleNamespace(session=spark, loaded=SimpleNamespace(id="r"))
        Turns(frames, checkpoint).follow(batches.left, iter(batches), take)

    return followed


def fails(batch: Any) -> None:
    raise ValueError(f"batch {batch}")


def test_a_query_of_spark_gives_each_batch_a_turn(follow: Callable[..., None], spark: Any, folder: Path) -> None:
    batches, seen = Batches(3), []
    follow(batches, lambda _batch: seen.append([query.name for query in spark.streams.active]))
    assert batches.taken == [1, 2, 3]
    assert seen == [["orderedkafka: range r"]] * 3
    assert {path.name for path in (folder / "spark/query/commits").glob("[0-9]*")} == {"0", "1", "2"}
    assert not spark.streams.active


def test_a_query_gets_more_turns_until_nothing_is_left(
    follow: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "AT_ONCE", 2)
    batches = Batches(5)
    follow(batches)
    assert batches.taken == [1, 2, 3, 4, 5]


def test_there_may_be_more_batches_than_were_told(follow: Callable[..., None]) -> None:
    batches = Batches(4, told=2)
    follow(batches)
    assert batches.taken == [1, 2, 3, 4]


def test_a_query_is_stopped_where_there_is_nothing_more_to_take(follow: Callable[..., None], folder: Path) -> None:
    batches = Batches(2, told=50)
    follow(batches)
    assert batches.taken == [1, 2]
    assert len(list((folder / "spark/query/offsets").glob("[0-9]*"))) < 50


def test_what_ends_a_batch_ends_the_query_and_is_not_tried_again(follow: Callable[..., None], spark: Any) -> None:
    batches = Batches(3)
    with pytest.raises(Exception, match="batch 1"):
        follow(batches, fails)
    assert batches.taken == [1]
    assert not spark.streams.active


def test_the_next_attempt_goes_on_with_the_same_query(follow: Callable[..., None], folder: Path) -> None:
    with pytest.raises(Exception, match="batch 1"):
        follow(Batches(3), fails)
    before = (folder / "spark/query/metadata").read_text()
    batches = Batches(3)
    follow(batches)
    assert batches.taken == [1, 2, 3]
    assert (folder / "spark/query/metadata").read_text() == before


def test_turns_that_were_had_before_take_nothing_away(follow: Callable[..., None]) -> None:
    follow(Batches(3))
    batches = Batches(4)
    follow(batches)
    assert batches.taken == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", ["metadata", "offsets/1", "commits/0", "sources/0/1"])
def test_a_query_that_cannot_go_on_is_begun_anew(follow: Callable[..., None], folder: Path, broken: str) -> None:
    with pytest.raises(Exception, match="batch 3"):
        follow(Batches(5), lambda batch: fails(batch) if batch == 3 else None)
    (folder / "spark/query" / broken).write_text("")
    (folder / "spark/query" / broken).with_name(f".{Path(broken).name}.crc").unlink(missing_ok=True)
    batches = Batches(3)
    follow(batches)
    assert batches.taken == [1, 2, 3]


def test_a_query_whose_files_are_not_found_says_so_instead_of_trying_for_ever(
    follow: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(Checkpoint, "turns", str(tmp_path / "elsewhere"))
    with pytest.raises(StateError, match=r"finds no file in .*elsewhere"):
        follow(Batches(3))


def test_a_checkpoint_that_lost_its_range_gets_no_turns(follow: Callable[..., None], checkpoint: Checkpoint) -> None:
    checkpoint.state.delete(RANGE)
    batches = Batches(3)
    with pytest.raises(StateError, match="is gone while it is in use"):
        follow(batches)
    assert batches.taken == []


def test_how_spark_writes_files_is_changed_while_the_query_runs_alone(follow: Callable[..., None], spark: Any) -> None:
    seen = []
    follow(Batches(1), lambda _batch: seen.append(spark.conf.get(FILES, None)))
    assert seen == [PLAIN_FILES]
    assert spark.conf.get(FILES, None) is None


def test_how_spark_writes_files_is_left_as_it_was_asked_for(follow: Callable[..., None], spark: Any) -> None:
    asked = PLAIN_FILES.replace("FileSystemBased", "FileContextBased")
    spark.conf.set(FILES, asked)
    try:
        seen = []
        follow(Batches(1), lambda _batch: seen.append(spark.conf.get(FILES, None)))
        assert seen == [asked]
    finally:
        spark.conf.unset(FILES)
