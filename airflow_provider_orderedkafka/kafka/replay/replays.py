"""Read back which rows of a batch the outputs have: from the ends in its note, by the identity in each header.

Requests of a dead writer may still land, so the outputs are read until they have settled (`settling`). Memory holds
bits, not rows. Compacted outputs get the whole batch again, in order: then the last value of each key is right, since
nothing of the dead writer follows it. `again` counts what arrived there since the note.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.offsets import high_ends
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.kafka.provenance import HEADER, located, range_prefix
from airflow_provider_orderedkafka.kafka.read.headers import headers_of
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.kafka.replay.settling import Settle, read_until_settled

_ROWS_KEPT: Final = 200_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that may have been written in part: rows of this range whose records lie from `start` to `end`.

    `batch` is set if version 1 began it, whose rows have no ordinal: if records give at most one row (`at_most_one`),
    they can still be identified, otherwise not.
    """

    range_id: str
    start: Offsets
    end: Offsets
    batch: int | None = None
    at_most_one: bool = True


@dataclass(frozen=True, slots=True)
class NotedOutputs:
    """The outputs of a batch: their topics, their ends when it was noted, and which one takes dead letters.

    A partition without an end is read whole. `compacted` are those that keep the last value of each key.
    """

    topics: tuple[str, ...]
    ends: Offsets
    dead_letter_topic: str | None = None
    compacted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Replay:
    """What landed of a batch.

    `gone` counts offsets since the note that retention deleted, so that what was there is unknown; `unnamed` counts
    rows of the batch without an identity, `again` the rows that compacted outputs may have twice. `settled` is False if
    more rows may still arrive, or may be there invisibly.
    """

    landed: Landed = field(default_factory=Landed)
    gone: int = 0
    unnamed: int = 0
    again: int = 0
    settled: bool = True


def find_landed(
    config: Mapping[str, str], batch: BegunBatch, outputs: NotedOutputs, settle: Settle | None = None
) -> Replay:
    """Read the outputs from the note on until they have settled; compacted ones only from now on.

    Raises UnknownTopicError, AccessDeniedError (the principal needs READ on its outputs) or UnreachableError.
    """
    found = discover(config, Named(outputs.topics))
    compacted = [partition for partition in found.partitions if partition.topic in outputs.compacted]
    noted, now = outputs.ends, high_ends(config, compacted, "read_uncommitted")
    scan = _Scan(batch, outputs)
    read = read_until_settled(config, found.partitions, Offsets({**noted, **now}), scan.take, settle or Settle())
    again = scan.again + sum(max(end - noted.get(partition, 0), 0) for partition, end in now.items())
    return Replay(scan.landed(), read.gone, scan.unnamed, again, read.settled)


class _Scan:
    """Collects the batch's rows; the same row twice counts once."""

    def __init__(self, batch: BegunBatch, outputs: NotedOutputs) -> None:
        self.unnamed = self.again = 0
        self._batch = batch
        self._outputs = outputs
        old = [] if batch.batch is None else [range_prefix(batch.range_id, 1) + batch.batch.to_bytes(4, "big")]
        self._prefixes = (range_prefix(batch.range_id), *old)
        self._waiting = 0
        self._rows: dict[tuple[bytes, int, bool], list[tuple[int, int]]] = defaultdict(list)
        self._landed = Landed()

    def take(self, messages: Sequence[Any]) -> int:
        """Collect the rows of the batch among these records; return how many there were."""
        count = 0
        for message, headers in zip(messages, headers_of(messages), strict=True):
            for name, value in headers or ():
                if name == HEADER and value is not None and value.startswith(self._prefixes):
                    count += 1
                    if message.topic() in self._outputs.compacted:
                        self.again += 1
                    else:
                        self._note(value, dead=message.topic() == self._outputs.dead_letter_topic)
        if self._waiting > _ROWS_KEPT:
            self._merge()
        return count

    def _note(self, header: bytes, *, dead: bool) -> None:
        ordinal, partition, offset, _, topic = located(header, len(self._prefixes[0]))
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
        self._merge()
        return self._landed
