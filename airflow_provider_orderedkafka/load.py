"""`OrderedLoad`: what one repeating load is, said once, checked when it is said.

Cheap to import, frozen, compared by value. Everything that a DAG, a command or an application needs to know about a
load is here; what it found out is in the ledger.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Self, get_args

from airflow_provider_orderedkafka.core.codec import canonical
from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss
from airflow_provider_orderedkafka.core.durations import format_duration, parse_duration
from airflow_provider_orderedkafka.core.pacing import Pace
from airflow_provider_orderedkafka.core.starts import Start, parse_start
from airflow_provider_orderedkafka.errors import SettingError

Duration = str | timedelta
StartSetting = str | datetime | Mapping[str, Sequence[int]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class OrderedLoad:
    """One repeating load: its topics, where it starts, how it is paced, what it may do.

    :param name: Its name for good: the ledger, the tasks and the mirror hang on it.
    :param topics: The topics to load, together and in one order.
    :param start: Where the first run starts: `"earliest"`, `"latest"`, `"committed:<group>"`, an aware datetime,
        a time ago such as `"-2h"`, or `{"topic": [offset, ...]}`. Resolved once, at the first look.
        A topic that is added later starts there too, at the first look at it; a partition that a topic gets, at its
        first offset.
    :param kafka_conn_id: The `kafka` connection of Airflow's own provider.
    :param min_offsets: Run when at least so many offsets are there.
    :param max_delay: Run when so long has passed since the last run and anything is there, such as `"15m"`. As in Spark
        it counts from the last run, not from the oldest record that waits: after a quiet night one record starts a run.
    :param max_offsets: The most that one run spans.
    :param grace: How far behind the present a run ends, so that what is written late by no more than that is in order.
    :param transaction_wait: For how long an open transaction keeps a run from ending after its first record, counted
        from that one's timestamp, so that what it commits is not late. After that the others go on without it.
    :param batch_offsets: The offsets that one batch spans. By default five million, or fewer: about 4 GiB by a sample
        of records, and what the slices of many partitions take in the driver.
    :param row_limit: Rows in all, over every run: always the first in order.
    :param future_tolerance: Timestamps later than this after the planning time count as missing.
    :param on_data_loss: When offsets are gone before they were read: `"fail"`, or `"count"` and go on.
    :param isolation: `"read_committed"`, or `"read_uncommitted"`.
    :param include_headers: Whether the records' headers are read.
    """

    name: str
    topics: Sequence[str]
    start: StartSetting = "latest"
    kafka_conn_id: str = "kafka_default"
    min_offsets: int | None = None
    max_delay: Duration | None = None
    max_offsets: int | None = None
    grace: Duration = "5s"
    transaction_wait: Duration = "15m"
    batch_offsets: int | None = None
    row_limit: int | None = None
    future_tolerance: Duration = "5m"
    on_data_loss: OnDataLoss = "fail"
    isolation: Isolation = "read_committed"
    include_headers: bool = True

    def __post_init__(self) -> None:
        _check_topics(self)
        topics = (self.topics,) if isinstance(self.topics, str) else self.topics
        object.__setattr__(self, "topics", tuple(sorted(set(topics))))
        if isinstance(self.start, Mapping):
            parse_start(dict(self.start), "start")  # what is no start may not be JSON either
            object.__setattr__(self, "start", canonical(self.start))
        for rule in (_check_name, _check_numbers, _check_choices, _check_times, _check_pairs):
            rule(self)

    @property
    def pace(self) -> Pace:
        """When to run."""
        return Pace(self.min_offsets, None if self.max_delay is None else parse_duration(self.max_delay, "max_delay"))

    @property
    def grace_ms(self) -> int:
        """`grace` in milliseconds."""
        return parse_duration(self.grace, "grace")

    @property
    def transaction_wait_ms(self) -> int:
        """`transaction_wait` in milliseconds."""
        return parse_duration(self.transaction_wait, "transaction_wait")

    @property
    def future_tolerance_ms(self) -> int:
        """`future_tolerance` in milliseconds."""
        return parse_duration(self.future_tolerance, "future_tolerance")

    @property
    def start_policy(self) -> Start:
        """`start`, read."""
        return parse_start(self.start, "start")

    def to_json(self) -> dict[str, Any]:
        """What a trigger needs of it, in values that Airflow can store: everything but the start, which is resolved."""
        kept = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "start"}
        for name in ("max_delay", "grace", "transaction_wait", "future_tolerance"):
            value = kept[name]
            kept[name] = None if value is None else format_duration(parse_duration(value, name))
        return {**kept, "topics": list(self.topics)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The load that `to_json` described."""
        return cls(**value)


def _check_name(load: OrderedLoad) -> None:
    if not isinstance(load.name, str) or not _NAME.fullmatch(load.name):
        raise SettingError(
            f"a load's name is 1 to 100 letters, digits, '_' or '-', and begins with a letter or digit, found "
            f"{load.name!r}; it becomes part of task ids, an asset's URI and a consumer group's name"
        )


def _check_topics(load: OrderedLoad) -> None:
    topics = [load.topics] if isinstance(load.topics, str) else load.topics
    if not topics or not isinstance(topics, Collection):
        raise SettingError(f"load {load.name!r} names no topics: topics=['orders'] would do, found {load.topics!r}")
    for topic in topics:
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
            raise SettingError(
                f"load {load.name!r}: {topic!r} cannot be a topic's name; Kafka allows letters, digits, ._-"
            )


def _check_numbers(load: OrderedLoad) -> None:
    for name in ("min_offsets", "max_offsets", "batch_offsets", "row_limit"):
        value = getattr(load, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise SettingError(f"load {load.name!r}: {name} must be an integer from 1 on, or None, found {value!r}")


def _check_choices(load: OrderedLoad) -> None:
    for name, kind in (("on_data_loss", OnDataLoss), ("isolation", Isolation)):
        if getattr(load, name) not in get_args(kind):
            raise SettingError(
                f"load {load.name!r}: {name} must be {' or '.join(map(repr, get_args(kind)))}, "
                f"found {getattr(load, name)!r}"
            )


def _check_times(load: OrderedLoad) -> None:
    _ = load.pace, load.grace_ms, load.transaction_wait_ms, load.future_tolerance_ms, load.start_policy
    if load.pace.max_delay == 0:
        raise SettingError(f"load {load.name!r}: max_delay must be longer than nothing; leave min_offsets out instead")


def _check_pairs(load: OrderedLoad) -> None:
    if load.max_offsets is not None and (load.min_offsets or 1) > load.max_offsets:
        raise SettingError(
            f"load {load.name!r}: min_offsets={load.min_offsets!r} is more than max_offsets={load.max_offsets!r}: what "
            "is left after a run would wait for ever more; lower min_offsets or raise max_offsets"
        )
