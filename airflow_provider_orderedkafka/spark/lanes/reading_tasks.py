"""What a task does with its slices: it reads the records, makes rows of them at once, and counts both.

A plan shows a function in Python by the name of its class, and `plans` goes by it: `ReadRecords` gives at most one row
for each record, `ReadSeveral` may give more.
"""

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.batches import Tally
from airflow_provider_orderedkafka.core.lanes import Placement
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.write.partitioners import misplaced
from airflow_provider_orderedkafka.spark.connector.reading import read_batches
from airflow_provider_orderedkafka.spark.lanes.making import Making, places
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from airflow_provider_orderedkafka.kafka.replay.landed import Landed

    Batches = Iterator[RecordBatch]


@dataclass(frozen=True, slots=True)
class Counters:
    """What tasks count of slices; keys that are placed in another way than `placement` are `misplaced`."""

    placement: Placement | None
    records: TaskCounter
    bytes: TaskCounter
    losses: TaskCounter
    misplaced: TaskCounter
    late: TaskCounter
    bad: TaskCounter

    def tell(self, number: int, tally: ReadTally, lost: int, elsewhere: int) -> None:
        """Report a slice that was read, in a task."""
        self.records.tell(number, tally.records)
        self.bytes.tell(number, tally.bytes)
        self.losses.tell(number, lost)
        self.misplaced.tell(number, elsewhere)
        for partition, late in tally.late.items():
            self.late.tell((number, partition), late)

    def tally(self) -> Tally:
        """What was counted of the records, once they were read."""
        late: Counter[TopicPartition] = Counter()
        for (_, partition), count in self.late.told.items():
            late[partition] += count
        return Tally(
            rows_read=self.records.total(),
            bytes_read=self.bytes.total(),
            late=late.total(),
            late_in=Offsets(late),
            may_be_out_of_order=self.misplaced.total(),
            lost=self.losses.total(),
        )


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Gives the rows of the slices whose numbers come in. Records `without` which it is done give none."""

    packed: Sequence[bytes]
    settings: ReadSettings
    making: Making
    counters: Counters | None = None
    without: "Landed | None" = None

    def __call__(self, numbers: "Batches") -> "Batches":
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                if number < len(self.packed):
                    yield from self._made(self._left(self._records(number)))

    def _records(self, number: int) -> "Batches":
        slice_, landed = pickle.loads(self.packed[number])  # noqa: S301 - packed by the driver
        tally, elsewhere = ReadTally(), 0
        for records in read_batches(slice_, self.settings, tally):
            elsewhere += 0 if self.counters is None else misplaced(records, self.counters.placement)
            yield records
        if self.counters is not None:
            lost = sum(tally.lost.values()) if landed is None else landed.lost(slice_, tally.lost)
            self.counters.tell(number, tally, lost, elsewhere)

    def _left(self, records: "Batches") -> "Batches":
        if not self.without:
            return records
        from airflow_provider_orderedkafka.kafka.replay.landed_filter import LandedFilter

        return LandedFilter(self.without, "one", "columns").of(records)

    def _made(self, records: "Batches") -> "Batches":
        for batch in records:
            rows, bad = self.making.split(batch)
            if self.counters is not None and bad.num_rows:
                self.counters.bad.tell(places(bad.slice(0, 1))[0], bad.num_rows)
            yield rows


class ReadSeveral(ReadRecords):
    """The same, where a record may give several rows."""

    __slots__ = ()


class ReadBad(ReadRecords):
    """Gives the bad records, as they are, with the column `_error`."""

    __slots__ = ()

    def _made(self, records: "Batches") -> "Batches":
        for batch in records:
            yield self.making.split(batch)[1]
