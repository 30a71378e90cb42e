"""Write rows as records: Arrow batches in, counts out. Every lane and sink writes through here.

Columns: `value` (binary or string) and optionally `key`, `topic`, `partition`, `headers`, `timestamp`; others are
ignored. With provenance each record identifies its row: by its source (`_source`) and, if a record can give more than
one row, by which of them it is (`_ordinal`). When `write` returns, every record is acknowledged; if it raises, a rerun
without the rows that landed completes the work:

    RowError        a row cannot be written (or, with a dead letter topic, becomes a dead letter and raises nothing)
    DeliveryError   Kafka did not take a record, or not in time
    OrderViolationError   rows did not arrive in the order of `keep_order` (column `_seq`)

A row's partition is chosen here, so that it does not change while a batch is written. Kafka's client would use new
partitions in the middle of a batch, even some that are not known yet where the batch is looked for later; here they
count from the next batch on. A key goes where the producer's partitioner would place it among this many partitions. A
row that names its partition keeps it. A row without a key is placed by its source, so that a replay places it in the
same partition; or like an empty key, where the partitioner does not spread them. Dead letters are placed alike.
`PARTITIONERS` compute a key's partition as librdkafka does, and by `murmur2` as Kafka's own default does for records
with a key.

A dead letter has the row's key, value, headers and timestamp, its provenance, and the header `orderedkafka.error` with
what was wrong. What its topic would refuse is left out: key, value and headers of a row that is too large, a timestamp
that is out of bounds.
"""

import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...core.lanes import Partitioner, Placement
from ...errors import OrderViolationError, RowError, SettingError
from ..lookup.survey import Brokers, Kafka
from ..provenance import ERROR_HEADER, HEADER, SEQUENCE
from ..read.columns import Ints, Records, as_array, as_list, nulls, sizes
from .faults import Targets, find_faults
from .producer import Chunk, Deliveries, PooledProducer, producer_config
from .rows import MOST_HEADERS, NO_PARTITION, NOW, Rows, columns_of, header_lists, sendable, without_provenance
from .settings import Column, OutputTopic, WriteSettings, Written, check_columns, look_up_outputs, with_limits
from .turns import Transaction

_log = logging.getLogger(__name__)


def plan_write(settings: WriteSettings, columns: Sequence[Column], kafka: Kafka | None = None) -> WriteSettings:
    """On the driver: check settings, columns and topics, and complete them for tasks; raises before a row is sent."""
    check_columns(columns, settings)
    producer_config(settings.config)
    outputs = look_up_outputs(kafka or Brokers(settings.config), settings.topics)
    dead = settings.dead_letter_topic
    if dead is not None and outputs[dead].compacted:
        raise SettingError(
            f"'deadLetterTopic' {dead!r} is compacted, and would lose all but the last dead letter of each key: name a "
            "topic that is not"
        )
    if dead is not None and outputs[dead].compacted is None:
        _log.warning(
            "'deadLetterTopic' %r may be compacted, and then loses all but the last dead letter of each key: its "
            "settings may not be read; grant the principal DESCRIBE_CONFIGS there",
            dead,
        )
    return replace(settings, outputs=outputs, config=with_limits(settings.config, outputs))


def write(batches: Iterable[Any], settings: WriteSettings) -> Written:
    """Write the rows, in order; return when all are acknowledged."""
    written = Written()
    for written in steps(batches, settings):  # noqa: B007 - the last one counts
        pass
    return written


def steps(batches: Iterable[Any], settings: WriteSettings) -> Iterator[Written]:
    """The same, step by step: what was handed over after each batch, and last what is acknowledged."""
    with settings.producer() as producer:
        task = _Task(settings, producer)
        for batch in batches:
            task.take(batch)
            yield task.written
        producer.settle(task.deliveries)
    yield task.written


@dataclass(slots=True)
class _Task:
    settings: WriteSettings
    producer: PooledProducer | Transaction
    written: Written = field(default_factory=Written)
    deliveries: Deliveries = field(default_factory=Deliveries)
    last: int = -1
    targets: Targets = field(init=False)

    def __post_init__(self) -> None:
        self.targets = Targets(self.settings)

    def take(self, batch: Any) -> None:
        """Write a batch's rows, the faulty ones as dead letters."""
        if not batch.num_rows:
            return
        self._check_order(batch)
        rows = Rows.of(batch, self.settings)
        faults = find_faults(rows, self.targets)
        if faults:
            self._send_dead_letters(rows, faults)
            sound = np.ones(len(rows), bool)
            sound[list(faults)] = False
            rows = Rows.of(batch.filter(sound), self.settings)
        if len(rows):
            self._send(rows)

    def _check_order(self, batch: Any) -> None:
        if SEQUENCE not in batch.schema.names:
            return
        places = np.concatenate([[self.last], batch.column(SEQUENCE).to_numpy()])
        self.last = int(places[-1])
        if (wrong := np.flatnonzero(np.diff(places) <= 0)).size:
            raise OrderViolationError(
                f"row {self.written.seen + int(wrong[0])} of its task came out of order: its place is "
                f"{places[wrong[0] + 1]}, after {places[wrong[0]]}; nothing of this batch counts as written"
            )

    def _send(self, rows: Rows) -> None:
        settings, describe = self.settings, partial(self._describe, rows, self.written.seen)
        counts = self.targets.of(rows).each(lambda output: settings.partitions.get(output.name, 0), 0)
        given = np.full(len(rows), NO_PARTITION) if rows.partitions is None else rows.partitions
        chunk = columns_of(rows, settings, placed(rows, given, counts, settings), describe)
        self.producer.send(chunk, self.deliveries)
        topics = {self.settings.topic: len(rows)} if self.settings.topic is not None else Counter(chunk.topics)
        self.written += Written(rows=len(rows), bytes=int(rows.sizes().sum()), by_topic=topics)

    def _describe(self, rows: Rows, seen: int, key: bytes | None, value: bytes | None) -> str:
        index = rows.find(key, value)
        return f"a record with key {key!r}" if index is None else rows.where(index, self.settings, seen + index)

    def _send_dead_letters(self, rows: Rows, faults: dict[int, str]) -> None:
        """Send faulty rows to the dead letter topic; without one, raise for the first.

        They are acknowledged before the rows behind them are sent: should they be sound at the next attempt, they would
        otherwise be written behind those.
        """
        index, reason = next(iter(faults.items()))
        topic = self.settings.dead_letter_topic
        output = self.targets.get(topic) if topic is not None else None
        if output is None:
            place = rows.origin(index)
            raise RowError(
                f"{rows.where(index, self.settings, self.written.seen + index)}: {reason}. Of {len(rows):,} rows "
                f"checked, {len(faults):,} cannot be written: fix the transform, or let them go to a topic of dead "
                f"letters: bad_records=Allow(10, to='<topic>') in a DAG, --bad-records 10 --dead-letters <topic> by "
                f"hand, the option deadLetterTopic of df.write",
                **({} if place is None else {**place[0]._asdict(), "offset": place[1]}),
            )
        stamps = rows.stamps(self.settings.range_id)
        chunk = dead_letters(rows, faults, output, self.targets.max_bytes(output), stamps)
        count = np.full(len(rows), self.settings.partitions.get(output.name, 0))
        places = placed(rows, np.full(len(rows), NO_PARTITION), count, self.settings)
        chunk = replace(chunk, partitions=[places[index] for index in faults])
        self.producer.send(chunk, self.deliveries)
        self.producer.settle(self.deliveries)
        self.written += Written(
            dead_letters=len(faults),
            bytes=sum(len(each or b"") for each in (*chunk.keys, *chunk.values)),
            by_topic={output.name: len(faults)},
        )


_KNOWN: Final[dict[str, Partitioner]] = {
    "murmur2_random": "murmur2",
    "murmur2": "murmur2",
    "consistent_random": "crc32",
    "consistent": "crc32",
}
"""The supported partitioners of Kafka's client; with others the client places the rows."""


_RUN: Final = 1_000
"""How many offsets of a source partition go to one partition before the next one's turn: enough for a large batch."""


def placed(rows: Rows, given: Ints, counts: Ints, settings: WriteSettings) -> list[int]:
    """The partition of each row, in a topic with `counts` partitions; -1 leaves it to Kafka's client."""
    one_by_one = settings.keyless == "one by one"
    named = settings.partitioner
    partitioner = "murmur2" if one_by_one else _KNOWN.get(named)  # as with DataFrames, whatever is set
    if partitioner is None:
        return _as_list(given)
    ours = (given == NO_PARTITION) & (counts > 0)
    spreads = one_by_one or named.endswith("random")
    keyed = ours & _keyed(rows, partitioner) if spreads else ours  # one that does not takes none for an empty key
    keys = rows.keys if spreads else _with_empty(rows)
    for count in np.unique(counts[keyed]).tolist():
        here = keyed & (counts == count)
        there = PARTITIONERS[partitioner](keys, count).fill_null(NO_PARTITION).to_numpy()
        given = np.where(here, there, given)
    if rows.source is not None and spreads:
        spread = ours & ~keyed & rows.source.known()
        turn = rows.source.offsets // (1 if one_by_one else _RUN) + rows.source.partitions
        given = np.where(spread, turn % np.maximum(counts, 1), given)
    return _as_list(given)


def _keyed(rows: Rows, partitioner: Partitioner) -> NDArray[np.bool_]:
    if rows.keys is None:
        return np.zeros(len(rows), np.bool_)
    found: NDArray[np.bool_] = ~nulls(rows.keys)
    return found & (sizes(rows.keys) > 0) if partitioner == "crc32" else found  # it treats an empty key like none


def _with_empty(rows: Rows) -> Any:
    return pa.repeat(b"", len(rows)) if rows.keys is None else as_array(rows.keys).fill_null(b"")


def _as_list(partitions: Ints) -> list[int]:
    found: list[int] = partitions.tolist()
    return found


_ERROR_BYTES: Final = 2_000
_OWN_HEADERS: Final = 2


def dead_letters(
    rows: Rows, faults: dict[int, str], output: OutputTopic, max_bytes: int, stamps: list[bytes] | None
) -> Chunk:
    """The faulty rows, for a topic that takes at most `max_bytes` of key, value and headers."""
    places = list(faults)
    sizes = rows.record_bytes()[places]
    few = rows.header_counts()[places] + _OWN_HEADERS <= MOST_HEADERS
    fits = ((sizes <= max_bytes - _ERROR_BYTES) & few).tolist()
    own = [[]] * len(rows) if rows.headers is None else header_lists(rows.headers)
    headers = [
        _headers(own[place] if fit else [], faults[place], stamps[place] if stamps else None)
        for place, fit in zip(places, fits, strict=True)
    ]
    return Chunk(
        topics=[output.name] * len(places),
        values=_kept(as_list(rows.values), places, fits),
        keys=_kept([None] * len(rows) if rows.keys is None else as_list(rows.keys), places, fits),
        partitions=[NO_PARTITION] * len(places),
        timestamps=_in_bounds(sendable(rows.timestamps[places]), output),
        headers=headers,
        describe=lambda key, _value: f"a dead letter with key {key!r}",
    )


def _headers(own: list[Any], reason: str, stamp: bytes | None) -> list[Any]:
    named = [(name, value) for name, value in without_provenance(own) if name is not None and "\0" not in name]
    return [*named, (ERROR_HEADER, _cut(reason)), *([] if stamp is None else [(HEADER, stamp)])]


def _cut(reason: str) -> bytes:
    """As much of it as there is room for, in whole characters."""
    return reason.encode()[:_ERROR_BYTES].decode(errors="ignore").encode()


def _kept(column: list[Any], places: list[int], fits: list[bool]) -> list[Any]:
    return [column[place] if fit else None for place, fit in zip(places, fits, strict=True)]


def _in_bounds(timestamps: Any, output: OutputTopic) -> list[int]:
    off = timestamps - int(time.time() * 1_000)
    kept: list[int] = np.where((off <= output.ahead) & (-off <= output.behind), timestamps, NOW).tolist()
    return kept


_SEED: Final = np.uint32(0x9747B28C)
_MIX: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_WORD: Final = 4


def partitions_of(keys: Any, partitions: int) -> Any:
    array = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else as_array(keys)
    array = array.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = array.buffers()
    edges = np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    found = (hashes(data, edges[:-1], np.diff(edges)) & _POSITIVE) % np.uint32(partitions)
    return pa.array(found.astype(np.int32), mask=array.is_null().to_numpy(zero_copy_only=False))


def hashes(data: Any, starts: Any, lengths: Any) -> Any:
    """The hash of each piece of `data`; pieces of equal length are hashed together, word by word."""
    found = np.zeros(len(starts), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        found[rows] = _of_length(data, starts[rows], length)
    return found


def _of_length(data: Any, starts: Any, length: int) -> Any:
    result: Any = np.full(len(starts), _SEED ^ np.uint32(length), np.uint32)
    for at in range(0, length - length % _WORD, _WORD):
        word = _word(data, starts + at, _WORD) * _MIX
        result = (result * _MIX) ^ ((word ^ (word >> 24)) * _MIX)
    if rest := length % _WORD:
        result = (result ^ _word(data, starts + length - rest, rest)) * _MIX
    result = (result ^ (result >> 13)) * _MIX
    return result ^ (result >> 15)


def _word(data: Any, starts: Any, size: int) -> Any:
    """The little-endian number of `size` bytes at each start."""
    word: Any = np.zeros(len(starts), np.uint32)
    for byte in range(size):
        word |= data[starts + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _crc32(keys: Any, partitions: int) -> Any:
    values = as_list(keys)
    found = np.fromiter((zlib.crc32(value or b"") for value in values), np.uint32, len(values))
    return pa.array((found % np.uint32(partitions)).astype(np.int32), mask=nulls(keys))


PARTITIONERS: Final[dict[Partitioner, Callable[[Any, int], Any]]] = {"murmur2": partitions_of, "crc32": _crc32}
"""The defaults of Java's producers and of librdkafka's."""


def misplaced(batch: Any, placement: Placement | None) -> int:
    """How many rows have a key that would be placed elsewhere, ignoring rows without a key."""
    if placement is None:
        return 0
    partitioner, partitions = placement
    keys = batch.keys() if isinstance(batch, Records) else batch.column("key")
    expected = PARTITIONERS[partitioner](keys, partitions)
    return pc.sum(pc.not_equal(expected, batch.column("partition"))).as_py() or 0
