"""What of a batch stands in the outputs already: read back from its note's ends, by the identity in each header.

    find_landed(config, batch, outputs, settle) -> Replay
    Begun(range_id, start, end, ...)                 the batch: which range's rows, and of which records
    Outputs(topics, ends, dead_letter_topic, ids)    `ends`, `ids` are the note's; a partition that grew counts from 0

Requests of a writer that is dead may still land. So the outputs are read to their ends again until none of the batch's
rows has come for a settle time; what others write there meanwhile does not matter. Memory holds bits, not rows.
A compacted output is not read: there the batch is sent again whole, in order, and the last value of each key is right.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.kafka.consumers import lent
from airflow_provider_orderedkafka.kafka.identity import doubt
from airflow_provider_orderedkafka.kafka.landed import Landed
from airflow_provider_orderedkafka.kafka.offsets import high_ends, log_starts
from airflow_provider_orderedkafka.kafka.provenance import HEADER, located, range_prefix
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.kafka.topics import discover
from airflow_provider_orderedkafka.kafka.watching import Watch

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
class Begun:
    """A batch that may have been written in part: rows of this range whose records lie from `start` to `end`.

    `batch` is given where version 1 has begun it. Its rows say nothing of an ordinal; so where records give at most one
    row (`at_most_one`) they are those rows, and otherwise nobody can tell which ones they are.
    """

    range_id: str
    start: Offsets
    end: Offsets
    batch: int | None = None
    at_most_one: bool = True


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

    `gone` counts the offsets since the note that retention has taken, so that nobody can tell what stood there;
    `unnamed` the batch's rows that do not say which they are. `settled` is False when rows of the batch were still
    coming at the deadline. `compacted` are the outputs that were not read.
    """

    landed: Landed = field(default_factory=Landed)
    gone: int = 0
    unnamed: int = 0
    settled: bool = True
    compacted: tuple[str, ...] = ()


def find_landed(config: Mapping[str, str], batch: Begun, outputs: Outputs, settle: Settle | None = None) -> Replay:
    """Read the outputs from the note on, until they are settled.

    Raises UnknownTopicError, AccessDeniedError (the principal needs READ on its outputs) or UnreachableError.
    """
    found = discover(config, Named(outputs.topics))
    partitions = [partition for partition in found.partitions if partition.topic not in found.compacted]
    starts, gone = _starts(config, partitions, outputs.ends_of(found.ids))
    scan = _Scan(batch, outputs.dead_letter_topic)
    settled = _read_until_still(config, starts, scan, settle or Settle()) if partitions else True
    landed = scan.landed()
    return Replay(landed, gone, scan.unnamed, settled, tuple(sorted(found.compacted)))


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

    def __init__(self, batch: Begun, dead_letter_topic: str | None) -> None:
        self.count = 0
        self.unnamed = 0
        self._batch = batch
        old = [] if batch.batch is None else [range_prefix(batch.range_id, 1) + batch.batch.to_bytes(4, "big")]
        self._prefixes = (range_prefix(batch.range_id), *old)
        self._dead_letter_topic = dead_letter_topic
        self._waiting = 0
        self._rows: dict[tuple[bytes, int, bool], list[tuple[int, int]]] = defaultdict(list)
        self._landed = Landed()

    def take(self, messages: Sequence[Any]) -> None:
        """Note which of the records are rows of the batch."""
        for message in messages:
            for name, value in message.headers() or ():
                if name == HEADER and value is not None and value.startswith(self._prefixes):
                    self._note(value, dead=message.topic() == self._dead_letter_topic)
        if self._waiting > _ROWS_KEPT:
            self._merge()

    def _note(self, header: bytes, *, dead: bool) -> None:
        ordinal, partition, offset, _, topic = located(header, len(self._prefixes[0]))
        self.count += 1
        if partition < 0 or (header[0] == 1 and not self._batch.at_most_one):
            self.unnamed += 1
        else:
            self._waiting += 1
            self._rows[topic, partition, dead].append((ordinal, offset))

    def _merge(self) -> None:
        start, end = self._batch.start, self._batch.end
        for (topic, number, dead), rows in self._rows.items():
            partition = TopicPartition(topic.decode(), number)
            ordinals, offsets = np.array(rows, np.int64).T
            mine = (offsets >= start.get(partition, 0)) & (offsets < end.get(partition, 0))
            self._landed.add(partition, ordinals[mine], offsets[mine], dead=dead)
        self._rows.clear()
        self._waiting = 0

    def landed(self) -> Landed:
        """What was found."""
        self._merge()
        return self._landed
