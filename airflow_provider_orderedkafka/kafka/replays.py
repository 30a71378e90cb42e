"""What of a batch stands in the outputs already: read back from its note's ends, by the identity in each header.

    find_landed(config, batch, outputs, settle) -> Replay
    Outputs(topics, ends, dead_letter_topic, ids)    `ends`, `ids` are the note's; a partition that grew counts from 0

Requests of a writer that is dead may still land, so the outputs are read until they have settled (`settling`). Memory
holds intervals, not rows. What landed in a compacted output is not left out: there the batch is sent again whole, in
order, and the last value of each key is right, since nothing of the dead writer comes behind it any more.
"""

import logging
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_orderedkafka.core.identities import IntervalSet, Landed, Sample
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.kafka.offsets import high_ends
from airflow_provider_orderedkafka.kafka.provenance import HEADER, WRITER_AND_ROW, batch_prefix
from airflow_provider_orderedkafka.kafka.settling import Settle, read_until_settled
from airflow_provider_orderedkafka.kafka.topics import discover
from airflow_provider_orderedkafka.kafka.write_settings import BatchName

SAMPLED_ROWS: Final = 64
"""The rows of each writer, from its first on, that a rerun is compared with."""

_ROWS_KEPT: Final = 200_000

_log = logging.getLogger(__name__)


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
    there; `settled` is False when more of its rows may still come, or may be there where nobody sees them yet.
    `compacted` are the outputs whose rows are not left out.
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
    """Read the outputs from the note on, until they are settled; compacted ones from now on, for settling alone.

    Raises UnknownTopicError, AccessDeniedError (the principal needs READ on its outputs) or UnreachableError.
    """
    found = discover(config, Named(outputs.topics))
    compacted = [partition for partition in found.partitions if partition.topic in found.compacted]
    noted = Offsets({**outputs.ends_of(found.ids), **high_ends(config, compacted, "read_uncommitted")})
    scan = _Scan(batch, outputs.dead_letter_topic, found.compacted)
    read = read_until_settled(config, found.partitions, noted, scan.take, settle or Settle())
    return Replay(scan.landed(), read.gone, read.settled, tuple(sorted(found.compacted)))


class _Scan:
    """The batch's rows, as they are found; the same row twice counts once."""

    def __init__(self, batch: BatchName, dead_letter_topic: str | None, compacted: frozenset[str]) -> None:
        self._compacted = compacted
        self._prefix = batch_prefix(*batch)
        self._dead_letter_topic = dead_letter_topic
        self._waiting = 0
        self._rows: dict[int, list[int]] = defaultdict(list)
        self._dead_rows: dict[int, list[int]] = defaultdict(list)
        self._sets: dict[int, IntervalSet] = defaultdict(IntervalSet)
        self._dead: dict[int, IntervalSet] = defaultdict(IntervalSet)
        self._samples: dict[int, dict[int, int]] = defaultdict(dict)

    def take(self, messages: Sequence[Any]) -> int:
        """Note which of the records are rows of the batch, and answer how many."""
        at, count = len(self._prefix), 0
        for message in messages:
            for name, value in message.headers() or ():
                if name == HEADER and value is not None and value.startswith(self._prefix):
                    count += 1
                    if message.topic() not in self._compacted:
                        writer, row = WRITER_AND_ROW.unpack_from(value, at)
                        self._note(writer, row, message, value)
        if self._waiting > _ROWS_KEPT:
            self._merge()
        return count

    def _note(self, writer: int, row: int, message: Any, stamp: bytes) -> None:
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
