"""The options of the source: those of Spark's own Kafka connector by the same names, and a few of ours.

Spark hands options over in lower case. Everything is checked here, before Kafka is asked anything: an unknown option
is named with the nearest known one, a known one with a value that it cannot have says what it can have.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider_orderedkafka.core.documents import Isolation, OnDataLoss, Range
from airflow_provider_orderedkafka.core.durations import parse_duration
from airflow_provider_orderedkafka.core.pacing import Pace
from airflow_provider_orderedkafka.core.plan import SLICE_OFFSETS
from airflow_provider_orderedkafka.core.positions import whole_number
from airflow_provider_orderedkafka.core.starts import Moment, Start, parse_moment, parse_start
from airflow_provider_orderedkafka.core.subscriptions import Subscription, parse_subscription
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.config import ISOLATION as ISOLATION_LEVEL
from airflow_provider_orderedkafka.kafka.config import PREFIX, KafkaConfig

FUTURE_TOLERANCE: Final = 5 * 60 * 1_000
MAX_TRIGGER_DELAY: Final = 15 * 60 * 1_000  # where a minimum is set, as Spark has it
TRANSACTION_WAIT: Final = 15 * 60 * 1_000
ISOLATION: Final = PREFIX + ISOLATION_LEVEL
_OF_SPARK: Final = re.compile(r"(\d+)(min)?")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader or a stream was asked for; `range` replaces everything that says what to read."""

    kafka: KafkaConfig
    subscription: Subscription | None
    range: Range | None
    start: Start | None
    end: Start | None
    end_time: Moment | None
    grace: int | None
    transaction_wait: int
    pace: Pace
    most: int | None
    slice_offsets: int
    future_tolerance: int
    isolation: Isolation
    on_data_loss: OnDataLoss
    include_headers: bool


def _count(name: str, text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise SettingError(f"option {name!r} must be a whole number from 1 on, found {text!r}")
    return number


def _flag(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise SettingError(f"option {name!r} must be 'true' or 'false', found {text!r}")
    return text.strip().lower() == "true"


def _isolation(name: str, text: str) -> str:
    if text not in ("read_committed", "read_uncommitted"):
        raise SettingError(f"option {name!r} must be 'read_committed' or 'read_uncommitted', found {text!r}")
    return text


def _duration(name: str, text: str) -> int:
    return parse_duration(text, name)


def _spark_duration(name: str, text: str) -> int:
    """As Spark's connector reads it, too: a number alone is milliseconds, and minutes may be `min`."""
    found = _OF_SPARK.fullmatch(text.strip().lower())
    return parse_duration(found[1] + ("m" if found[2] else "ms") if found else text, name)


def _range(name: str, text: str) -> Range:
    if text.lstrip().startswith("{"):
        return Range.from_text(text)
    try:
        found = Path(text).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise SettingError(
            f"option {name!r} must be a range document or a path to one, found {text!r}: {error}"
        ) from error
    return Range.from_text(found)


def _subscription(name: str, text: str) -> Subscription:
    return parse_subscription(name, text)


PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "subscribe": _subscription,
    "subscribePattern": _subscription,
    "assign": _subscription,
    "range": _range,
    "startingOffsets": lambda name, text: parse_start(text, name),
    "startingTimestamp": lambda name, text: parse_moment(text, name),
    "endingOffsets": lambda name, text: parse_start(text, name),
    "endingTimestamp": lambda name, text: parse_moment(text, name),
    "minOffsetsPerTrigger": _count,
    "maxOffsetsPerTrigger": _count,
    "maxTriggerDelay": _spark_duration,
    "failOnDataLoss": _flag,
    "includeHeaders": _flag,
    "sliceOffsets": _count,
    "grace": _duration,
    "transactionWait": _duration,
    "futureTolerance": _duration,
    ISOLATION: _isolation,
}

INSTEAD: Final = {
    "minPartitions": "a Spark partition is a slice: set 'sliceOffsets'",
    "maxRecordsPerPartition": "a Spark partition is a slice: set 'sliceOffsets'",
    "groupIdPrefix": "no consumer group is used for reading; leave it out",
    "startingOffsetsByTimestamp": "one moment holds for all partitions: set 'startingTimestamp'",
    "endingOffsetsByTimestamp": "one moment holds for all partitions: set 'endingTimestamp'",
    "startingOffsetsByTimestampStrategy": "a partition without a record from that moment on is read from its end; "
    "leave it out",
    "kafkaConsumer.pollTimeoutMs": "an outage is ridden out by itself; leave it out",
    "fetchOffset.numRetries": "an outage is ridden out by itself; leave it out",
    "fetchOffset.retryIntervalMs": "an outage is ridden out by itself; leave it out",
}

WITH_RANGE: Final = frozenset({"range", "sliceOffsets"})
SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
EXCLUSIVE: Final = (("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp"))
STREAM_ONLY: Final = ("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay")


def parse_options(given: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Read the options of a source; a `SettingError` names the one that is wrong and the way out."""
    kafka, values = KafkaConfig.from_options(given), _parsed(given)
    if "range" in values:
        return _of_range(kafka, values)
    _check(values, stream=stream)
    kind = next(name for name in SUBSCRIPTIONS if name in values)
    default = "latest" if stream else "earliest"
    moment = values.get("startingTimestamp")
    start = values.get("startingOffsets", parse_start(default, "startingOffsets")) if moment is None else moment
    return SourceOptions(
        kafka=kafka,
        subscription=values[kind],
        range=None,
        start=start,
        end=values.get("endingOffsets"),
        end_time=values.get("endingTimestamp"),
        grace=values.get("grace"),
        transaction_wait=values.get("transactionWait", TRANSACTION_WAIT),
        pace=_pace(values),
        most=values.get("maxOffsetsPerTrigger"),
        slice_offsets=values.get("sliceOffsets", SLICE_OFFSETS),
        future_tolerance=values.get("futureTolerance", FUTURE_TOLERANCE),
        isolation=values.get(ISOLATION, "read_committed"),
        on_data_loss="fail" if values.get("failOnDataLoss", True) else "count",
        include_headers=values.get("includeHeaders", False),
    )


def _pace(values: Mapping[str, Any]) -> Pace:
    low, delay = values.get("minOffsetsPerTrigger"), values.get("maxTriggerDelay")
    return Pace(low, MAX_TRIGGER_DELAY if delay is None and low is not None else delay)


def _parsed(given: Mapping[str, str]) -> dict[str, Any]:
    """The options but `kafka.*`, parsed; unknown names are refused."""
    canonical = {name.lower(): name for name in PARSERS}
    values = {}
    for given_name, text in given.items():
        name = canonical.get(given_name.lower())
        if name is not None:
            values[name] = PARSERS[name](name, text)
        elif not given_name.lower().startswith(PREFIX):
            raise _unknown(given_name)
    return values


def _unknown(given_name: str) -> SettingError:
    for name, instead in INSTEAD.items():
        if given_name.lower() == name.lower():
            return SettingError(f"option {name!r} of Spark's connector has no meaning here: {instead}")
    lower = {name.lower(): name for name in PARSERS}
    near = difflib.get_close_matches(given_name.lower(), lower, 1)
    hint = f"did you mean {lower[near[0]]!r}?" if near else "known are 'kafka.*' and " + ", ".join(map(repr, PARSERS))
    return SettingError(f"unknown option {given_name!r}: {hint}")


def _check(values: Mapping[str, Any], *, stream: bool) -> None:
    chosen = [name for name in SUBSCRIPTIONS if name in values]
    if len(chosen) != 1:
        found = " and ".join(map(repr, chosen)) or "none"
        raise SettingError(f"set exactly one of {', '.join(map(repr, SUBSCRIPTIONS))} (or 'range'), found {found}")
    for one, other in EXCLUSIVE:
        if one in values and other in values:
            raise SettingError(f"options {one!r} and {other!r} say the same thing in two ways: set one of them")
    if not stream and (odd := [name for name in STREAM_ONLY if name in values]):
        raise SettingError(f"option {odd[0]!r} is for streams: use 'endingOffsets' to bound what a batch reads")
    low, high = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise SettingError(
            f"option 'minOffsetsPerTrigger' is {low}, more than 'maxOffsetsPerTrigger', {high}: "
            "no trigger could satisfy both; lower the minimum or raise the maximum"
        )


def _of_range(kafka: KafkaConfig, values: Mapping[str, Any]) -> SourceOptions:
    if odd := sorted(set(values) - WITH_RANGE):
        raise SettingError(f"option {odd[0]!r} cannot stand beside 'range', which says all of it: leave it out")
    given: Range = values["range"]
    return SourceOptions(
        kafka=kafka,
        subscription=None,
        range=given,
        start=None,
        end=None,
        end_time=None,
        grace=None,
        transaction_wait=TRANSACTION_WAIT,
        pace=Pace(),
        most=given.batch_offsets,
        slice_offsets=values.get("sliceOffsets", SLICE_OFFSETS),
        future_tolerance=given.future_tolerance,
        isolation=given.isolation,
        on_data_loss=given.on_data_loss,
        include_headers=given.include_headers,
    )
