"""Start positions as people write them: parsed here, resolved against Kafka elsewhere.

    "earliest"  "latest"  "committed:<group>"  "2026-01-31T12:00:00Z"  1769860800000  "-2h"
    {"orders": [23, 0, -2]}     an array indexed by partition
    {"orders": {"0": 23}}       as Spark's connector writes it
    {"orders": "earliest", "metrics": "-1h"}   a start for each topic

In explicit offsets -2 stands for the earliest and -1 for the latest, as in Spark. `str` formats a start for people.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ...errors import SettingError
from ..order.positions import LARGEST, TopicPartition
from .spelling import format_duration, nearest, parse_duration

EARLIEST: Final = -2
LATEST: Final = -1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = 253_402_300_799_999  # the end of the year 9999
_IN_SECONDS: Final = range(10**8, 10**11)
"""Numbers that are years from 1973 on in seconds, and in milliseconds the time before there was any Kafka."""

_DATES: Final = range(19_700_101, 21_000_101)
"""Numbers that are dates without dashes, as Airflow writes them in ds_nodash, and in milliseconds a morning of 1970."""

_PARTITION: Final = re.compile("0|[1-9][0-9]{0,9}")
_SHOWN: Final = 200
_COMMITTED: Final = "committed:"
_ALLOWED: Final = (
    "'earliest', 'latest', 'committed:<group>', a moment with a time zone ('2026-01-31T12:00:00Z', or milliseconds "
    "since 1970), a time ago ('-2h'), offsets ({\"topic\": [offset of partition 0, of partition 1, ...]}), or one of "
    'these for each topic ({"topic": "earliest", ...})'
)
_MOMENT: Final = "a moment with a time zone, such as '2026-01-31T12:00:00Z', or milliseconds since 1970"


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset that each partition still has."""

    def __str__(self) -> str:
        return "earliest"


@dataclass(frozen=True, slots=True)
class Latest:
    """The high end of each partition: only what comes from now on."""

    def __str__(self) -> str:
        return "latest"


@dataclass(frozen=True, slots=True)
class Committed:
    """The offsets of a consumer group; the earliest for partitions without one."""

    group: str

    def __str__(self) -> str:
        return f"{_COMMITTED}{self.group}"


@dataclass(frozen=True, slots=True)
class Moment:
    """The first record of each partition whose timestamp is at least `time`, in milliseconds since the epoch."""

    time: int

    def __str__(self) -> str:
        try:
            return (
                (_EPOCH + timedelta(milliseconds=self.time)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            )
        except OverflowError:
            return f"{self.time} ms"


@dataclass(frozen=True, slots=True)
class Ago:
    """A time ago, in milliseconds before the first poll."""

    milliseconds: int

    def at(self, now: int) -> Moment:
        return Moment(max(now - self.milliseconds, 0))

    def __str__(self) -> str:
        return f"-{format_duration(self.milliseconds)}"


@dataclass(frozen=True, slots=True)
class Explicit:
    """An offset for each partition, or `EARLIEST`, or `LATEST`; every partition that is read must be named."""

    offsets: tuple[tuple[TopicPartition, int], ...]

    def __str__(self) -> str:
        return ", ".join(_NAMED.get(offset, "{}").format(p.at(offset), p=p) for p, offset in self.offsets)


_NAMED: Final = {EARLIEST: "{p}@earliest", LATEST: "{p}@latest"}


@dataclass(frozen=True, slots=True)
class ByTopic:
    """A start for each topic, by name; every topic that is read must be named."""

    starts: "tuple[tuple[str, Start], ...]"

    def __str__(self) -> str:
        return ", ".join(f"{start}" if isinstance(start, Explicit) else f"{t}@{start}" for t, start in self.starts)


Start = Earliest | Latest | Committed | Moment | Ago | Explicit | ByTopic


def goes_back(start: Start, end: Start) -> bool:
    """Whether a span from `start` to `end` would go back, as far as the two alone tell."""
    match start, end:
        case (Moment(begin), Moment(stop)) | (Ago(stop), Ago(begin)):
            return begin > stop
        case (Explicit(), Explicit()):
            stops = dict(end.offsets)
            return any(offset > stops.get(p, offset) >= 0 for p, offset in start.offsets)
        case (Latest(), Earliest()):
            return True
    return False


def parse_start(value: object, name: str) -> Start:
    """Read a start policy given for the setting `name`; a `SettingError` says what is wrong and what is allowed."""
    if isinstance(value, dict):
        return _by_topic(value, name)
    if not isinstance(value, str):
        return parse_moment(value, name, _ALLOWED)
    text = value.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.startswith("{"):
        return _by_topic(read_json(text, name), name)
    if text.startswith(_COMMITTED) and text != _COMMITTED:
        return Committed(text.removeprefix(_COMMITTED))
    if text.startswith("-"):
        return _ago(text, name)
    return parse_moment(text, name, _ALLOWED)


_WORDS: Final[dict[str, Start]] = {"earliest": Earliest(), "latest": Latest()}


def parse_moment(value: object, name: str, allowed: str = _MOMENT) -> Moment:
    """Read a moment: an aware datetime, ISO text with a time zone, or milliseconds since the epoch."""
    if isinstance(value, datetime):
        return _moment(value, name, value)
    if isinstance(value, int) and not isinstance(value, bool):
        _check_unit(value, name)
        return Moment(_expect(0 <= value <= _LAST, value, name, value, allowed))
    if isinstance(value, str):
        text = value.strip()
        try:
            if text.isascii() and text.isdigit():
                return parse_moment(int(text), name, allowed)
            return _moment(datetime.fromisoformat(text), name, value)
        except ValueError as error:
            if isinstance(error, SettingError):
                raise
    raise SettingError(f"{name!r} must be {allowed}, found {value!r}{_hint(value)}")


def _check_unit(value: int, name: str) -> None:
    if value in _IN_SECONDS:
        raise SettingError(
            f"{name!r} must be in milliseconds, found {value!r}, which is {Moment(value)}: in seconds it would be "
            f"{Moment(value * 1_000)}"
        )
    if value in _DATES:
        raise SettingError(f"{name!r} must be {_MOMENT}, found {value!r}, which is {Moment(value)}")


def _hint(value: object) -> str:
    text = str(value).strip()
    if (near := nearest(text, _WORDS)) is not None:
        return f"; did you mean {near!r}?"
    try:
        return f"; did you mean '-{text}'?" if parse_duration(text, "") else ""
    except SettingError:
        return ""


def _moment(moment: datetime, name: str, given: object) -> Moment:
    if moment.tzinfo is None:
        raise SettingError(
            f"{name!r} needs a time zone, or it would be another moment on another machine, found {given!r}; add 'Z' "
            "for UTC, or an offset such as '+02:00'"
        )
    time = (moment - _EPOCH) // timedelta(milliseconds=1)
    return Moment(_expect(0 <= time <= _LAST, time, name, given, "a moment in the years 1970 to 9999, in UTC"))


def _ago(text: str, name: str) -> Ago:
    try:
        return Ago(parse_duration(text[1:], name))
    except SettingError:
        raise SettingError(
            f"{name!r} begins with '-', so it must be a time ago such as '-2h' or '-1h30m', found {text!r}; for the "
            "ends of the log, use 'earliest' or 'latest'"
        ) from None


def read_json(text: str, name: str) -> Any:
    """Parse JSON; an error names line and column."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise SettingError(
            f"{name!r} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}, found {text[:_SHOWN]!r}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{name!r}: {error}, found {text[:_SHOWN]!r}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in names if names.count(key) > 1)!r} is named twice")
    return found


def _by_topic(value: dict[str, Any], name: str) -> Start:
    """A number alone could be an offset or a time, so it is neither."""
    if not any(isinstance(each, str | datetime) for each in value.values()):
        return _explicit(value, name)
    starts = ((topic, _of_one(topic, each, name)) for topic, each in value.items())
    return ByTopic(tuple(sorted(starts, key=lambda each: each[0])))


def _of_one(topic: str, value: Any, name: str) -> Start:
    if isinstance(value, str | datetime):
        return parse_start(value, f"{name}.{topic}")
    return _explicit({topic: value}, name)


def _explicit(value: dict[str, Any], name: str) -> Explicit:
    _expect(bool(value), None, name, value, 'offsets for at least one topic, such as {"orders": [0, 0]}')
    pairs = [pair for topic, offsets in value.items() for pair in _of_topic(topic, offsets, name)]
    return Explicit(tuple(sorted(pairs)))


def _of_topic(topic: str, offsets: Any, name: str) -> Iterator[tuple[TopicPartition, int]]:
    path = f"{name}.{topic}"
    expected = "an array of offsets indexed by partition, or an object of offsets by partition"
    _expect(isinstance(offsets, list | dict) and bool(offsets), None, path, offsets, expected)
    for key, offset in offsets.items() if isinstance(offsets, dict) else enumerate(offsets):
        partition = str(key)
        whole = _PARTITION.fullmatch(partition) is not None
        _expect(whole, None, path, key, "partitions numbered from 0 on")
        valid = isinstance(offset, int) and not isinstance(offset, bool) and EARLIEST <= offset <= LARGEST
        _expect(valid, None, f"{path}[{partition}]", offset, "an offset from 0 on, -2 for earliest or -1 for latest")
        yield TopicPartition(topic, int(partition)), offset


def _expect(holds: bool, value: Any, name: str, found: object, expected: str) -> Any:  # noqa: FBT001 - reads as what it expects
    if not holds:
        raise SettingError(f"{name!r} must be {expected}, found {found!r}")
    return value
