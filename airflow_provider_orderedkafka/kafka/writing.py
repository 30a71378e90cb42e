"""The one way in which rows become records: Arrow batches in, a tally out.

    plan_write(settings, columns) -> WriteSettings      on the driver: checks the columns, looks the topics up
    write(batches, settings, writer=0, landed=NOTHING_LANDED, max_rows=None) -> Written         in a task

Columns: `value` (binary or string), and where they are there `key`, `topic`, `partition`, `headers`, `timestamp`;
others are ignored. Rows are numbered from 0 in the order in which they come; with provenance the number is part of
each record's identity. Rows of `landed` are left out, rows from `max_rows` on are never written. When it returns every
record is acknowledged; when it raises, a rerun with the same rows, and what landed, completes the work:

    RowError        a row cannot be written (or, with a dead letter topic, becomes a dead letter and raises nothing)
    DeliveryError   Kafka did not take a record, or not in time
    ReplayError     a rerun's rows are not those that landed
    OrderViolationError   the rows of `keep_order` did not come in its order (column `_seq`)
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from airflow_provider_orderedkafka.core.identities import NOTHING_LANDED, IntervalSet, Landed
from airflow_provider_orderedkafka.errors import OrderViolationError, ReplayError, RowError, SettingError
from airflow_provider_orderedkafka.kafka import arrays
from airflow_provider_orderedkafka.kafka.dead_letters import Grave, dead_letters, payload_bytes
from airflow_provider_orderedkafka.kafka.faults import Targets, find_faults
from airflow_provider_orderedkafka.kafka.outputs import look_up_outputs, with_limits
from airflow_provider_orderedkafka.kafka.payloads import as_list
from airflow_provider_orderedkafka.kafka.producer import POOL, ProducerPool, producer_config
from airflow_provider_orderedkafka.kafka.provenance import Stamp
from airflow_provider_orderedkafka.kafka.replays import checksum
from airflow_provider_orderedkafka.kafka.rows import Rows, columns_of
from airflow_provider_orderedkafka.kafka.sending import Deliveries, Lent
from airflow_provider_orderedkafka.kafka.write_settings import SEQUENCE, Column, WriteSettings, Written, check_columns


def plan_write(settings: WriteSettings, columns: Sequence[Column]) -> WriteSettings:
    """The settings for the tasks: checked against the columns, and with what the cluster says of the topics.

    SettingError, UnknownTopicError, AccessDeniedError or UnreachableError before anything is written.
    """
    check_columns(columns, settings)
    producer_config(settings.config)
    outputs = look_up_outputs(settings.config, settings.topics)
    dead = settings.dead_letter_topic
    if dead is not None and outputs[dead].compacted:
        raise SettingError(f"'deadLetterTopic' {dead!r} is compacted, and would lose all but the last of each key")
    return replace(settings, outputs=outputs, config=with_limits(settings.config, outputs))


def write(
    batches: Iterable[Any],
    settings: WriteSettings,
    writer: int = 0,
    landed: Landed = NOTHING_LANDED,
    max_rows: int | None = None,
    *,
    pool: ProducerPool = POOL,
) -> Written:
    """Write the rows, in order; return when all are acknowledged."""
    with pool.lend(settings.config) as producer:
        task = _Task(settings, writer, landed, producer)
        for batch in _first_rows(batches, max_rows):
            task.take(batch)
        producer.settle(task.deliveries)
    return task.written


def _first_rows(batches: Iterable[Any], most: int | None) -> Iterator[Any]:
    left = most
    for batch in batches:
        if left is None:
            yield batch
        elif left > 0:
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
        else:
            return


@dataclass(slots=True)
class _Task:
    """One writer's sequence, while it is written."""

    settings: WriteSettings
    writer: int
    landed: Landed
    producer: Lent
    written: Written = field(default_factory=Written)
    deliveries: Deliveries = field(default_factory=Deliveries)
    last: int = -1
    stamp: Stamp | None = field(init=False)
    targets: Targets = field(init=False)

    def __post_init__(self) -> None:
        batch = self.settings.batch
        self.stamp = None if batch is None else Stamp(batch.range_id, batch.batch, self.writer)
        self.targets = Targets(self.settings, 0 if self.stamp is None else self.stamp.most_bytes)

    def take(self, batch: Any) -> None:
        """Write a batch's rows but for those that are there already, the faulty ones as dead letters."""
        if not batch.num_rows:
            return
        numbers = np.arange(self.written.seen, self.written.seen + batch.num_rows)
        self._check_order(batch)
        self._compare(batch, numbers)
        missing = self._missing(numbers)
        left_out = len(numbers) - int(missing.sum())
        if left_out:
            dead = sum(end - start for start, end in self._within(self.landed.dead_letters, numbers))
            batch, numbers = batch.filter(missing), numbers[missing]
            self.written += Written(left_out=left_out - dead, dead_left_out=dead)
        if len(numbers):
            self._send(batch, numbers)

    def _check_order(self, batch: Any) -> None:
        if SEQUENCE not in batch.schema.names:
            return
        places = np.concatenate([[self.last], arrays.numbers(batch.column(SEQUENCE))])
        self.last = int(places[-1])
        if (wrong := np.flatnonzero(np.diff(places) <= 0)).size:
            raise OrderViolationError(
                f"row {self.written.seen + int(wrong[0])} of writer {self.writer} came out of order: its place is "
                f"{places[wrong[0] + 1]}, after {places[wrong[0]]}; nothing of this batch counts as written"
            )

    def _missing(self, numbers: Any) -> Any:
        missing = np.ones(len(numbers), bool)
        for start, end in self._within(self.landed.rows, numbers):
            missing[start - numbers[0] : end - numbers[0]] = False
        return missing

    @staticmethod
    def _within(rows: IntervalSet, numbers: Any) -> Iterator[tuple[int, int]]:
        return rows.within(int(numbers[0]), int(numbers[-1]) + 1)

    def _compare(self, batch: Any, numbers: Any) -> None:
        """A rerun must give the rows that landed."""
        samples = {s.row: s.checksum for s in self.landed.samples if numbers[0] <= s.row <= numbers[-1]}
        if not samples or self.stamp is None:
            return
        places = np.array(sorted(samples)) - numbers[0]
        rows = Rows.of(batch.take(places), numbers[places], self.settings)
        keys = as_list(rows.keys) if rows.keys is not None else [None] * len(rows)
        found = zip(rows.numbers.tolist(), keys, as_list(rows.values), rows.stamps(self.stamp), strict=True)
        for index, (row, key, value, stamp) in enumerate(found):
            if checksum(key, value, stamp) != samples[row]:
                raise ReplayError(
                    f"{rows.where(index, self.settings, self.writer)}: this run gives another record than the one that "
                    "an earlier attempt wrote for the same row, so what is there already cannot be told; the transform "
                    "must give the same rows in the same order each time (no random values, clock or outside lookup)"
                )

    def _send(self, batch: Any, numbers: Any) -> None:
        rows = Rows.of(batch, numbers, self.settings)
        faults = find_faults(rows, self.targets)
        if faults:
            self._bury(rows, faults)
            sound = np.ones(len(rows), bool)
            sound[list(faults)] = False
            rows = Rows.of(batch.filter(sound), numbers[sound], self.settings)
        if len(rows):
            self._send_sound(rows)

    def _send_sound(self, rows: Rows) -> None:
        stamps = None if self.stamp is None else rows.stamps(self.stamp)
        chunk = columns_of(rows, self.settings.topic, stamps, partial(self._describe, rows))
        self.producer.send(chunk, self.deliveries)
        topics = {self.settings.topic: len(rows)} if self.settings.topic is not None else Counter(chunk.topics)
        self.written += Written(rows=len(rows), bytes=int(rows.sizes().sum()), by_topic=topics)

    def _describe(self, rows: Rows, key: bytes | None, value: bytes | None) -> str:
        index = rows.find(key, value)
        return f"a record with key {key!r}" if index is None else rows.where(index, self.settings, self.writer)

    def _bury(self, rows: Rows, faults: dict[int, str]) -> None:
        """Send faulty rows to the dead letter topic, or raise for the first."""
        index, reason = next(iter(faults.items()))
        topic = self.settings.dead_letter_topic
        output = self.targets.get(topic) if topic is not None else None
        if output is None:
            raise RowError(
                f"{rows.where(index, self.settings, self.writer)}: {reason}. Of {len(rows):,} rows looked at "
                f"{len(faults):,} cannot be written: mend the transform, or keep them aside with 'deadLetterTopic'"
            )
        stamps = None if self.stamp is None else rows.stamps(self.stamp)
        chunk = dead_letters(rows, faults, Grave(output, self.targets.max_bytes(output)), stamps)
        self.producer.send(chunk, self.deliveries)
        self.written += Written(
            dead_letters=len(faults), bytes=payload_bytes(chunk), by_topic={output.name: len(faults)}
        )
