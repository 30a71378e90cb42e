"""`OrderedLoad`: the settings of one load, checked when it is created.

Cheap to import, frozen, compared by value. Settings are here; how far the load has come is in its ledger.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Self, get_args

from .core.codec import canonical
from .core.documents import Isolation
from .core.notation.spelling import arguments, format_duration, parse_duration
from .core.notation.starts import Start, parse_start
from .core.notation.subscriptions import (
    Assigned,
    Matching,
    Subscription,
    Topics,
    check_start,
    names,
    parse_subscription,
    subscription_of,
)
from .core.order.cuts import OnDataLoss
from .core.pacing import DelayFrom, Pace, Terms, rewinding
from .errors import SettingError

Duration = str | timedelta
StartSetting = str | datetime | Mapping[str, str | datetime | Sequence[int] | Mapping[str, int]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


@arguments()
@dataclass(frozen=True, slots=True)
class OrderedLoad:
    """The settings of one load: which topics, from where, how often, how much at a time.

    Durations are a `timedelta` or text with a unit, such as `"5s"`, `"15m"` or `"1h30m"`. A setting that cannot work
    raises a `SettingError` here, so when the DAG file is parsed.

    :param name: Identifies the load. Its ledger, tasks and consumer group are named after it, so it must not change.
    :param topics: The topics to load, merged into one time order: their names; `re.compile("orders-.*")`, all whose
        whole name matches; or chosen partitions, `{"orders": [0, 3]}`.
    :param start: Where the first run starts: `"earliest"`, `"latest"`, `"committed:<group>"` (0 where the group has
        none; an error if it has none at all), an aware `datetime`, a time ago such as `"-2h"`, or offsets by topic such
        as `{"orders": [120, 98]}`; or one of these for each topic, `{"orders": "earliest", "metrics": "-1h"}`. Later
        runs start where the last one stopped. A topic added later starts here too, when it is first seen; a new
        partition of a known topic starts at offset 0, and a topic that a pattern matches later starts at its earliest
        offsets.
    :param kafka_conn_id: ID of the Airflow connection to Kafka (type `kafka`).
    :param min_offsets: Minimum number of new offsets that starts a run. None: any.
    :param max_delay: Start a run after this long if there is anything to load. None: wait for `min_offsets`, however
        long that takes.
    :param delay_from: What `max_delay` counts from. `"last_run"`, as in Spark: after a quiet night, the first record
        starts a run at once, and so it does before the first run, if there is no `min_offsets`. `"oldest"`: the oldest
        record that waits, by its order time, so that a run is never smaller than it has to be.
    :param max_offsets: Maximum number of offsets in one run.
    :param grace: How far behind the present a run ends, so that records written up to this late are still in order.
    :param transaction_wait: How long to wait for an open transaction, counted from the timestamp of its first record,
        before loading what comes after it.
    :param batch_offsets: Number of offsets in one batch. None: five million, or fewer, if their records take more than
        about 4 GiB, or if there are very many partitions.
    :param row_limit: Maximum number of rows written, over all runs: the first ones in order.
    :param future_tolerance: How far ahead of the present a timestamp may be before it counts as missing.
    :param on_data_loss: What to do if offsets are deleted before they are read: `"fail"`, or `"count"` them and go on.
    :param isolation: Which records to read: `"read_committed"` or `"read_uncommitted"`.
    :param include_headers: Whether to read record headers.
    :param ledger: Where the ledger is kept: a folder or a location in an object store, such as `"s3://bucket/ledgers"`,
        that all of Airflow reaches. None: in Airflow's asset state store, which it has from 3.3 on.
    """

    name: str
    topics: Topics
    start: StartSetting = "latest"
    kafka_conn_id: str = "kafka_default"
    min_offsets: int | None = None
    max_delay: Duration | None = None
    delay_from: DelayFrom = "last_run"
    max_offsets: int | None = None
    grace: Duration = "5s"
    transaction_wait: Duration = "15m"
    batch_offsets: int | None = None
    row_limit: int | None = None
    future_tolerance: Duration = "5m"
    on_data_loss: OnDataLoss = "fail"
    isolation: Isolation = "read_committed"
    include_headers: bool = True
    ledger: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", _kept(self))
        check_name(self.name)
        try:
            if isinstance(self.start, Mapping):
                parse_start(dict(self.start), "start")  # an invalid start may not be JSON either
                object.__setattr__(self, "start", canonical({t: _plain(each) for t, each in self.start.items()}))
            wrong = next(_mistakes(self), None)
        except SettingError as error:
            raise SettingError(f"load {self.name!r}: {error}") from error
        if wrong is not None:
            raise SettingError(f"load {self.name!r}: {wrong}")

    @property
    def subscription(self) -> Subscription:
        if isinstance(self.topics, str):
            return parse_subscription("assign", self.topics)
        return subscription_of(self.topics)

    @property
    def named(self) -> tuple[str, ...]:
        """The names of its topics, as far as they are said; a pattern says none."""
        return names(self.subscription)

    @property
    def pace(self) -> Pace:
        delay = None if self.max_delay is None else parse_duration(self.max_delay, "max_delay")
        return Pace(self.min_offsets, delay, self.delay_from)

    @property
    def grace_ms(self) -> int:
        return parse_duration(self.grace, "grace")

    @property
    def terms(self) -> Terms:
        return Terms(
            load=self.name,
            subscription=self.subscription,
            start=self.start_policy,
            grace=self.grace_ms,
            transaction_wait=parse_duration(self.transaction_wait, "transaction_wait"),
            future_tolerance=parse_duration(self.future_tolerance, "future_tolerance"),
            isolation=self.isolation,
            on_data_loss=self.on_data_loss,
            include_headers=self.include_headers,
            pace=self.pace,
            max_offsets=self.max_offsets,
            batch_offsets=self.batch_offsets,
            row_limit=self.row_limit,
            way_out=rewinding(self.name, self.subscription),
        )

    @property
    def start_policy(self) -> Start:
        return parse_start(self.start, "start")

    def to_json(self) -> dict[str, Any]:
        """The load as JSON values for a trigger's arguments; without `start`, which is resolved by then."""
        kept = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "start"}
        for name in ("max_delay", "grace", "transaction_wait", "future_tolerance"):
            value = kept[name]
            kept[name] = None if value is None else format_duration(parse_duration(value, name))
        found = self.subscription
        topics = {"pattern": found.pattern} if isinstance(found, Matching) else self.topics
        return {**kept, "topics": topics if isinstance(topics, str | dict) else list(self.named)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        topics = value["topics"]
        return cls(**{**value, "topics": re.compile(topics["pattern"]) if isinstance(topics, Mapping) else topics})


def _kept(load: OrderedLoad) -> Topics:
    """The topics as they are kept: one way to say the same, which can be compared and be a key."""
    try:
        if isinstance(load.topics, str) and load.topics.startswith("{"):
            found = parse_subscription("assign", load.topics)
        else:
            found = subscription_of(load.topics)
    except SettingError as error:
        raise SettingError(f"load {load.name!r}: {error}") from error
    if isinstance(found, Assigned):
        return canonical({t: [p.partition for p in found.partitions if p.topic == t] for t in names(found)})
    return re.compile(found.pattern) if isinstance(found, Matching) else found.topics


def _plain(start: Any) -> Any:
    if isinstance(start, datetime):
        return str(parse_start(start, "start"))
    return dict(start) if isinstance(start, Mapping) else start if isinstance(start, str) else list(start)


def is_absolute(location: str) -> bool:
    """Whether it is the same place for every process, wherever it runs."""
    return _ABSOLUTE.match(location) is not None


def check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(
            "a load's name must be 1 to 100 letters, digits, '_' or '-', and begin with a letter or digit, found "
            f"{name!r}; it becomes part of task ids, an asset's URI and a consumer group's name"
        )


def check_absolute(location: str, what: str) -> None:
    if not is_absolute(location):
        raise SettingError(
            f"{what} must be an absolute path or a location such as 's3://bucket/{what}s', found {location!r}: each of "
            "Airflow's processes would look in another folder"
        )


def _mistakes(load: OrderedLoad) -> Iterator[str]:
    """What makes a load impossible, one rule after the other; each may rely on those before it."""
    for name in ("min_offsets", "max_offsets", "batch_offsets", "row_limit"):
        value = getattr(load, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            yield f"{name} must be an integer from 1 on, or None, found {value!r}"
    for name, kind in (("delay_from", DelayFrom), ("on_data_loss", OnDataLoss), ("isolation", Isolation)):
        value, choices = getattr(load, name), get_args(kind)
        if value not in choices:
            yield f"{name} must be {' or '.join(map(repr, choices))}, found {value!r}"
    if not isinstance(load.kafka_conn_id, str) or not load.kafka_conn_id:
        yield f"kafka_conn_id must be the ID of a connection, found {load.kafka_conn_id!r}"
    terms = load.terms  # reads each of its durations, and the start
    check_start(terms.start, terms.subscription)
    if terms.pace.max_delay == 0:
        yield "max_delay must be longer than 0; to start with any offset at once, leave min_offsets out"
    if load.max_delay is None and load.delay_from != "last_run":
        yield (
            f"delay_from={load.delay_from!r} says what max_delay counts from, but max_delay is missing: set max_delay, "
            "such as '15m', or leave delay_from out"
        )
    if load.max_offsets is not None and (load.min_offsets or 1) > load.max_offsets:
        yield (
            f"min_offsets={load.min_offsets!r} is more than max_offsets={load.max_offsets!r}: offsets left over by a "
            "run could wait for ever; lower min_offsets or raise max_offsets"
        )
    if load.ledger is not None:
        check_absolute(load.ledger, "ledger")
