"""What of a batch stands in the outputs already: read back from its note's ends, by the identity in each header.

    find_landed(config, batch, outputs, settle) -> Replay
    Outputs(topics, ends, dead_letter_topic, ids)    `ends`, `ids` are the note's; a partition that grew counts from 0

Requests of a writer that is dead may still land. So the outputs are read to their ends again until none of the batch's
rows has come for a settle time; what others write there meanwhile does not matter. Memory holds intervals, not rows.
A compacted output is not read: there the batch is sent again whole, in order, and the last value of each key is right.
"""

import logging
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from airflow_provider_orderedkafka.core.identities import IntervalSet, Landed, Sample
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.kafka.consumers import lent
from airflow_provider_orderedkafka.kafka.headers import headers_of
from airflow_provider_orderedkafka.kafka.identity import doubt
from airflow_provider_orderedkafka.kafka.offsets import high_ends, log_starts
from airflow_provider_orderedkafka.kafka.provenance import HEADER, WRITER_AND_ROW, batch_prefix
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.kafka.topics import discover
from airflow_provider_orderedkafka.kafka.watching import Watch
from airflow_provider_orderedkafka.kafka.write_settings import BatchName

SAMPLED_ROWS: Final = 64
"""The rows of each writer, from its first on, that a rerun is compared with."""

_TUNING: Final = {"queued.max.messages.kbytes": "16384", "fetch.max.bytes": "16000000"}
_ROWS_KEPT: Final = 200_000
_LOOK_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settle:
    """How long none of the batch's rows may have come (`still`), and when to stop waiting for that (`deadline`)."""

    still: float = 2.0
    deadline: float = 60.0


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a batch writes: its topics, where they ended when it was noted, and which of them takes dead letters.

    `ids` are the topics' ids from then: one that has another id now was made anew, and its ends mean nothing.
    """

    topics: tuple[str, ...]
    ends: Offsets
    dead_letter_topic: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    def ends_of(self, ids: Mapping[str, str]) -> Offsets:
        """The ends that still mean something, by the topics' ids of now."""
        anew = {topic for topic, was in self.ids.items() if ids.get(topic, was) != was}
        for topic in sorted(anew):
            _log.warning(
                "output topic %r was deleted and created again since the batch was noted: it is read whole", topic
            )
        return Offsets({partition: end for partition, end in self.ends.items() if partition.topic not in anew})


@dataclass(frozen=True, slots=True)
class Replay:
    """What of a batch is there already.

    `may_be_doubled` counts the offsets since the note that retention has taken, so that nobody can tell what stood
    there; `settled` is False when rows of the batch were still coming at the deadline. `compacted` are the outputs
    that were not read.
    """

    landed: Mapping[int, Landed] = field(default_factory=dict)
    may_be_doubled: int = 0
    settled: bool = True
    compacted: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows are there."""
        return sum(len(landed.rows) for landed in self.landed.values())


def find_landed(config: Mapping[str, str], batch: BatchName, outputs: Outputs, settle: Settle | None = None) -> Replay:
    """Read the outputs from the note on, until they are settled.

    Raises UnknownTopicError, AccessDeniedError (the principal needs READ on its outputs) or UnreachableError.
    """
    found = discover(config, Named(outputs.topics))
    partitions = [partition for partition in found.partitions if partition.topic not in found.compacted]
    starts, gone = _starts(config, partitions, outputs.ends_of(found.ids))
    scan = _Scan(batch, outputs.dead_letter_topic)
    settled = _read_until_still(config, starts, scan, settle or Settle()) if partitions else True
    return Replay(scan.landed(), gone, settled, tuple(sorted(found.compacted)))


def _starts(
    config: Mapping[str, str], partitions: Iterable[TopicPartition], noted: Offsets
) -> tuple[dict[TopicPartition, int], int]:
    """Where reading begins, and how many offsets since the note are gone.

    An output that ends before its note was cut back: then all of it is read.
    """
    partitions = list(partitions)
    first, last = log_starts(config, partitions), high_ends(config, partitions, "read_uncommitted")
    starts, gone = {}, 0
    for partition in partitions:
        note = noted.get(partition, 0)
        start = first[partition] if last[partition] < note else max(note, first[partition])
        starts[partition] = start
        gone += max(0, start - note) if partition in noted else 0
    return starts, gone


def _read_until_still(
    config: Mapping[str, str], positions: dict[TopicPartition, int], scan: "_Scan", settle: Settle
) -> bool:
    """Read on to the high ends until none of the batch's rows came for the settle time; False at the deadline."""
    begun = last_came = time.monotonic()
    while True:
        before = scan.count
        ends = high_ends(config, positions, "read_uncommitted")
        positions |= _read(config, positions, ends, scan)
        now = time.monotonic()
        last_came = now if scan.count > before else last_came
        if now - last_came >= settle.still:
            return True
        if now - begun >= settle.deadline:
            return False
        time.sleep(_LOOK_SECONDS)


def _read(
    config: Mapping[str, str], positions: Mapping[TopicPartition, int], ends: Offsets, scan: "_Scan"
) -> dict[TopicPartition, int]:
    wanted = {partition: at for partition, at in positions.items() if at < ends[partition]}
    if not wanted:
        return {}
    settings = ReadSettings({**_TUNING, **config}, read_committed=False)
    with lent(settings) as kept:
        watch = Watch(kept, ends, settings.deadline, partial(doubt, config, list(wanted), {}))
        watch.begin(wanted)
        reached: dict[TopicPartition, int] = {}
        while watch.positions:
            scan.take(watch.take())
            done = {partition: at for partition, at in watch.positions.items() if at >= ends[partition]}
            reached |= done
            watch.let_go(done)
    return reached


class _Scan:
    """The batch's rows, as they are found; the same row twice counts once."""

    def __init__(self, batch: BatchName, dead_letter_topic: str | None) -> None:
        self.count = 0
        self._prefix = batch_prefix(*batch)
        self._dead_letter_topic = dead_letter_topic
        self._waiting = 0
        self._rows: dict[int, list[int]] = defaultdict(list)
        self._dead_rows: dict[int, list[int]] = defaultdict(list)
        self._sets: dict[int, IntervalSet] = defaultdict(IntervalSet)
        self._dead: dict[int, IntervalSet] = defaultdict(IntervalSet)
        self._samples: dict[int, dict[int, int]] = defaultdict(dict)

    def take(self, messages: Sequence[Any]) -> None:
        """Note which of the records are rows of the batch."""
        at = len(self._prefix)
        for message, headers in zip(messages, headers_of(messages), strict=True):
            for name, value in headers or ():
                if name == HEADER and value is not None and value.startswith(self._prefix):
                    writer, row = WRITER_AND_ROW.unpack_from(value, at)
                    self._note(writer, row, message, value)
        if self._waiting > _ROWS_KEPT:
            self._merge()

    def _note(self, writer: int, row: int, message: Any, stamp: bytes) -> None:
        self.count += 1
        self._waiting += 1
        self._rows[writer].append(row)
        if message.topic() == self._dead_letter_topic:
            self._dead_rows[writer].append(row)
        elif row < SAMPLED_ROWS:
            self._samples[writer][row] = checksum(message.key(), message.value(), stamp)

    def _merge(self) -> None:
        for sets, rows in ((self._sets, self._rows), (self._dead, self._dead_rows)):
            for writer, numbers in rows.items():
                sets[writer] |= IntervalSet.of(numbers)
            rows.clear()
        self._waiting = 0

    def landed(self) -> dict[int, Landed]:
        """What was found, by writer."""
        self._merge()
        return {
            writer: Landed(
                rows, self._dead[writer], tuple(Sample(*item) for item in sorted(self._samples[writer].items()))
            )
            for writer, rows in sorted(self._sets.items())
        }


def checksum(key: bytes | None, value: bytes | None, stamp: bytes) -> int:
    """What a rerun's record is compared by with the one that landed."""
    return zlib.crc32(value or b"", zlib.crc32(key or b"", zlib.crc32(stamp)))
