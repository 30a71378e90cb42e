"""Write rows as records: Arrow batches in, counts out. Every lane and sink writes through here.

Columns: `value` (binary or string) and optionally `key`, `topic`, `partition`, `headers`, `timestamp`; others are
ignored. With provenance each record identifies its row: by its source (`_source`) and, if a record can give more than
one row, by which of them it is (`_ordinal`). When `write` returns, every record is acknowledged; if it raises, a rerun
without the rows that landed completes the work:

    RowError        a row cannot be written (or, with a dead letter topic, becomes a dead letter and raises nothing)
    DeliveryError   Kafka did not take a record, or not in time
    OrderViolationError   rows did not arrive in the order of `keep_order` (column `_seq`)
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from airflow_provider_orderedkafka.errors import OrderViolationError, RowError, SettingError
from airflow_provider_orderedkafka.kafka.provenance import SEQUENCE, Stamp
from airflow_provider_orderedkafka.kafka.write.dead_letters import DeadLetterTopic, dead_letters, payload_bytes
from airflow_provider_orderedkafka.kafka.write.faults import Targets, find_faults
from airflow_provider_orderedkafka.kafka.write.outputs import look_up_outputs, with_limits
from airflow_provider_orderedkafka.kafka.write.placing import placed
from airflow_provider_orderedkafka.kafka.write.producer import POOL, ProducerPool, producer_config
from airflow_provider_orderedkafka.kafka.write.rows import Rows, columns_of
from airflow_provider_orderedkafka.kafka.write.sending import Deliveries, PooledProducer
from airflow_provider_orderedkafka.kafka.write.write_settings import Column, WriteSettings, Written, check_columns


def plan_write(settings: WriteSettings, columns: Sequence[Column]) -> WriteSettings:
    """On the driver: check the settings against columns and topics, and complete them for the tasks.

    Raises SettingError, UnknownTopicError, AccessDeniedError or UnreachableError before anything is written.
    """
    check_columns(columns, settings)
    producer_config(settings.config)
    outputs = look_up_outputs(settings.config, settings.topics)
    dead = settings.dead_letter_topic
    if dead is not None and outputs[dead].compacted:
        raise SettingError(f"'deadLetterTopic' {dead!r} is compacted, and would lose all but the last of each key")
    return replace(settings, outputs=outputs, config=with_limits(settings.config, outputs))


def write(batches: Iterable[Any], settings: WriteSettings, *, pool: ProducerPool = POOL) -> Written:
    """Write the rows, in order; return when all are acknowledged."""
    with pool.lend(settings.config) as producer:
        task = _Task(settings, producer)
        for batch in batches:
            task.take(batch)
        producer.settle(task.deliveries)
    return task.written


@dataclass(slots=True)
class _Task:
    """The state of one writing task."""

    settings: WriteSettings
    producer: PooledProducer
    written: Written = field(default_factory=Written)
    deliveries: Deliveries = field(default_factory=Deliveries)
    last: int = -1
    stamp: Stamp | None = field(init=False)
    targets: Targets = field(init=False)

    def __post_init__(self) -> None:
        self.stamp = None if self.settings.range_id is None else Stamp(self.settings.range_id)
        self.targets = Targets(self.settings, 0 if self.stamp is None else self.stamp.most_bytes)

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
        stamps = None if self.stamp is None else rows.stamps(self.stamp)
        chunk = columns_of(rows, self.settings.topic, stamps, partial(self._describe, rows, self.written.seen))
        chunk = replace(chunk, partitions=placed(rows, self.targets))
        self.producer.send(chunk, self.deliveries)
        topics = {self.settings.topic: len(rows)} if self.settings.topic is not None else Counter(chunk.topics)
        self.written += Written(rows=len(rows), bytes=int(rows.sizes().sum()), by_topic=topics)

    def _describe(self, rows: Rows, seen: int, key: bytes | None, value: bytes | None) -> str:
        index = rows.find(key, value)
        return f"a record with key {key!r}" if index is None else rows.where(index, self.settings, seen + index)

    def _send_dead_letters(self, rows: Rows, faults: dict[int, str]) -> None:
        """Send faulty rows to the dead letter topic; without one, raise for the first."""
        index, reason = next(iter(faults.items()))
        topic = self.settings.dead_letter_topic
        output = self.targets.get(topic) if topic is not None else None
        if output is None:
            place = rows.origin(index)
            raise RowError(
                f"{rows.where(index, self.settings, self.written.seen + index)}: {reason}. Of {len(rows):,} rows "
                f"checked, {len(faults):,} cannot be written: fix the transform, or send them to a dead letter topic "
                f"with 'deadLetterTopic'",
                **({} if place is None else {**place[0]._asdict(), "offset": place[1]}),
            )
        stamps = None if self.stamp is None else rows.stamps(self.stamp)
        chunk = dead_letters(rows, faults, DeadLetterTopic(output, self.targets.max_bytes(output)), stamps)
        self.producer.send(chunk, self.deliveries)
        self.written += Written(
            dead_letters=len(faults), bytes=payload_bytes(chunk), by_topic={output.name: len(faults)}
        )
