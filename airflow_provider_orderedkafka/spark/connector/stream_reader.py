"""The reader of `spark.readStream`: how Spark asks for batches, for a `Stream` to answer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from .batch import partitions_of, read_partition
from .options import SourceOptions
from .stream import INITIAL, Stream, StreamOffset

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class OrderedKafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Passes Spark's calls to a `Stream`, which is made at the first one and does not travel to tasks."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...] | None = None) -> None:
        self._options = options
        self._columns = columns
        self._stream: Stream | None = None
        self._planned: StreamOffset | None = None

    def _live(self) -> Stream:
        if self._stream is None:
            self._stream = Stream(self._options)
        return self._stream

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def initialOffset(self) -> dict[str, Any]:
        """A constant: Spark may ask again at any time, and another answer would lose records."""
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.terms.batch_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._live().fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch: a cut within the limit, or `start` if no batch is due."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        at = StreamOffset.from_json(start)
        found = self._live().first() if at is None else self._live().after(at, most)
        self._planned = found or at
        return start if found is None else found.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: the high ends, and how many offsets the planned batch is behind them."""
        return self._live().progress(self._planned)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The slices of a batch, in order. They depend on the two offsets only."""
        before, after = StreamOffset.from_json(start), StreamOffset.from_json(end)
        if before is None or after is None:
            return []
        return partitions_of(self._live(), before, after)

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        return read_partition(self._options, partition, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        at = StreamOffset.from_json(end)
        if at is not None:
            self._live().done(at)
