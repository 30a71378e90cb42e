"""The document: where a load stands, what waits, and its newest ranges."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status.partitions import places_of, table

RANGES_KEPT = 50
BATCHES_KEPT = 50
TOPICS_KEPT = 20

LARGEST = 60_000
"""Characters of the document: Airflow's API takes values of at most 65,535."""

RowState = Literal["planned", "loading", "failed", "loaded", "committed", "abandoned"]
OPEN: frozenset[RowState] = frozenset({"planned", "loading", "failed", "loaded"})


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch that was written: when, and the sums of the range up to it."""

    batch: int
    at: int
    offsets_done: int
    rows_read: int
    rows_written: int
    late: int


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A range: what it is, who loads it, how far that is, and what came out.

    `begin` and `end` are the times of its cuts; `lag` is how many offsets were not loaded when it was planned. `run` is
    `<dag id>/<run id>`, `task` the task that loads it. Times of the attempt are those of the last one.
    """

    id: str
    kind: Kind
    reason: str
    planned_at: int
    offsets: int
    partitions: int
    begin: int | None
    end: int | None
    run: str
    lag: int | None = None
    task: str = ""
    state: RowState = "planned"
    attempts: int = 0
    begun_at: int | None = None
    ended_at: int | None = None
    batches: int = 0
    rows_read: int = 0
    rows_written: int = 0
    late: int = 0
    replayed: int = 0
    dead_letters: int = 0
    may_be_doubled: int = 0
    may_be_out_of_order: int = 0
    lost: int = 0
    bytes_read: int = 0
    error: str = ""
    progress: Progress | None = None
    written: tuple[BatchRow, ...] = ()

    @property
    def open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits to be loaded, as it was seen `at` some moment, and what starts the next run.

    `waiting` is how many of the `offsets` a run would load now, `enough` how many of those start one, `due` when the
    delay runs out. All that is older than `loaded_to` is loaded. `partitions` has for each topic the partitions that
    lag most, as `<partition>,<next offset>,<offsets in the open range>,<lag>` with blanks between them, and `,<late>`
    after those that had late records in the last range; `of_partitions` is how many there are in all. `at_least` means
    that nobody looked, and the open range is all that is known.
    """

    at: int
    offsets: int
    waiting: int | None
    enough: int | None
    due: int | None
    loaded_to: int | None
    reason: str
    partitions: Mapping[str, str]
    of_partitions: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Status(Document):
    """How a load stands. `rows` counts against `row_limit`; `ranges` are the newest ones, oldest first."""

    load: str
    dag: str
    topics: tuple[str, ...]
    of_topics: int
    updated_at: int
    revision: int | None = None
    rows: int = 0
    row_limit: int | None = None
    lag: Backlog | None = None
    ranges: tuple[RangeRow, ...] = ()

    def fitting(self, most: int = LARGEST) -> Self:
        """The status in at most so many characters: partitions are left out first, then old ranges."""
        if len(json.dumps(self.to_value())) <= most:  # as Airflow counts
            return self
        if self.lag is not None and self.lag.partitions:
            places = places_of(self.lag.partitions)
            return replace(self, lag=replace(self.lag, partitions=table(places, len(places) // 2))).fitting(most)
        if len(self.ranges) > 1:
            return replace(self, ranges=self.ranges[len(self.ranges) // 2 :]).fitting(most)
        return self
