"""Read Kafka in time order without Spark or Airflow: `read` gives Arrow batches.

    from airflow_provider_orderedkafka.reader import read

    with read("localhost:9092", ["orders", "refunds"], start="-2h") as batches:
        for batch in batches:
            ...

Rows come in the order `(order_time, topic, partition, offset)` over all partitions and topics, cut into slices and read
as the Spark source reads them. Memory is bounded by bytes, however many records there are and however they are spread.
"""

import logging
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, get_args

import pyarrow as pa

from .core.codec import Document
from .core.documents import Isolation, Range
from .core.next_range import Ends, Survey, check_ends, new_range, next_place
from .core.notation.spelling import arguments, listed, meant, parse_duration
from .core.notation.starts import Earliest, Latest, parse_start
from .core.notation.subscriptions import Discovery, Topics, subscription_of
from .core.order.cuts import FUTURE_TOLERANCE, NO_FLOOR, Bound, Floor, OnDataLoss, Place, Slice, Span
from .core.order.planning import Planner, split
from .core.order.positions import LARGEST, Offsets, Position, TopicPartition, is_integer
from .core.pacing import Pace, Terms, WayOut
from .decoding.formats import Decode
from .decoding.payloads import RecordDecoder
from .decoding.registry import Registry
from .errors import SettingError
from .kafka.clients.config import KafkaConfig
from .kafka.clients.pools import MIB, ReadSettings, ReadTally
from .kafka.lookup.log import KafkaLog
from .kafka.lookup.survey import Brokers, ResolvedStart, marked, resolve, survey
from .kafka.lookup.topics import discover
from .kafka.read.columns import BatchBuilder, names, schema
from .kafka.read.slices import fetching, read_slice

if TYPE_CHECKING:
    from .core.order.timeline import OwnIndex

_log = logging.getLogger(__name__)

SLICE_OFFSETS: Final = 50_000
BYTE_BUDGET: Final = 48 * MIB
"""How much of a slice is fetched before it is cut again; the columns made from that come on top."""

WINDOW_OFFSETS: Final = 5_000_000
"""How many offsets are planned at a time, so that the first row does not wait for the look-ups of the last."""

WINDOWS: Final = 20

LOOK_SECONDS: Final = 1.0
"""How often a reader that follows looks for more, while there is none."""

LATER: Final = "swap start and end, or ask for a later end"

TRANSACTION_WAIT: Final = 15 * 60 * 1_000

READER: Final = WayOut(
    "the reader", "read it anew", "read it anew", "read that, too, with start={to}", "read it anew without that topic"
)

Start = str | int | datetime | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    terms: Terms
    settings: ReadSettings
    columns: tuple[str, ...]
    decode: Decode | None = None
    registry: Registry | None = None
    follow: bool = False
    begun: "Standing | None" = None


@dataclass(frozen=True, slots=True)
class Standing(Document):
    """Where a reader stands: what it read of `topics`, by name and id, lies before the place."""

    place: Place
    topics: Mapping[str, str]

    @classmethod
    def of(cls, start: Any) -> "Standing | None":
        """The `position` of a reader that was given as a start; None for any other start."""
        return cls.from_value(start) if isinstance(start, dict) and start.keys() >= {"place", "version"} else None


@arguments()
def read(
    servers: str | Mapping[str, Any],
    topics: Topics,
    *,
    start: Start = "earliest",
    end: Start = "latest",
    columns: Sequence[str] | None = None,
    headers: bool = False,
    decode: Decode | None = None,
    registry: str | Mapping[str, str] | None = None,
    follow: bool = False,
    grace: str | None = None,
    isolation: Isolation = "read_committed",
    on_data_loss: OnDataLoss = "fail",
    batch_bytes: int = 4 * MIB,
) -> "Batches":
    """Read topics in time order; nothing is asked of Kafka before the first batch, or its schema, is.

    :param servers: The brokers, `"host:9092"`, or a mapping of librdkafka's settings.
    :param topics: Names of topics, a compiled pattern that matches whole names, or partitions by topic, such as
        `{"orders": [0, 3]}`.
    :param start: Where to begin: `"earliest"`, `"latest"`, a time (`"2026-01-31T12:00:00Z"`, a datetime with a zone, or
        milliseconds since 1970), a time ago (`"-2h"`), `"committed:<group>"`, offsets (`{"orders": [0, 17]}`), or one
        of these for each topic (`{"orders": "earliest", "refunds": "-1h"}`); or the `position` of another reader, to go
        on in its order. With offsets alone the order begins anew.
    :param end: Where to end, exclusive; the same values. `"latest"` is the end of the log as it is when reading begins.
    :param columns: The columns, in this order, of `key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
        `timestampType`, `headers`, `order_time` and `late`. Default: all, `headers` if asked for.
    :param headers: Whether to read the records' headers.
    :param decode: How keys and values are decoded, such as `Decode(value=Avro(registry="main"))`. A record that cannot
        be decoded is an error.
    :param registry: The schema registry: its URL, or a mapping of its client's settings.
    :param follow: Whether to go on as records come, without an end.
    :param grace: With `follow`, for how long to wait for older records of other partitions before a record is handed
        on, such as `"10s"`. What comes later still is flagged as late. Default: not at all.
    :param isolation: `"read_committed"` or `"read_uncommitted"`.
    :param on_data_loss: What to do where retention deleted records that were to be read: `"fail"`, or `"count"` them.
    :param batch_bytes: About how large a batch is.
    """
    _check_follow(follow=follow, end=end, grace=grace)
    asked = _columns(columns, headers=headers)
    settings = ReadSettings(
        KafkaConfig.from_connection({"bootstrap.servers": servers} if isinstance(servers, str) else servers),
        isolation=_one_of("isolation", isolation, Isolation),
        include_headers="headers" in asked or bool(decode and decode.registries),
        on_data_loss=_one_of("on_data_loss", on_data_loss, OnDataLoss),
        byte_budget=BYTE_BUDGET,
        batch_bytes=_whole("batch_bytes", batch_bytes),
    )
    begun = Standing.of(_plain(start))
    terms = Terms(
        load="",
        subscription=subscription_of(topics),
        start=Earliest() if begun else parse_start(_plain(start), "start"),
        end=None if end == "latest" else parse_start(_plain(end), "end"),
        grace=None if grace is None else parse_duration(grace, "grace"),
        transaction_wait=TRANSACTION_WAIT,
        future_tolerance=FUTURE_TOLERANCE,
        isolation=isolation,
        on_data_loss=on_data_loss,
        include_headers=settings.include_headers,
        pace=Pace(),
        way_out=READER,
    )
    return Batches(Request(terms, settings, asked, decode, _registry(decode, registry), follow, begun))


def around(
    servers: str | Mapping[str, Any], topics: Any, record: tuple[str, int, int], reach: int
) -> tuple[dict[str, Any], dict[str, dict[int, int]]]:
    """Start and end of a reader that reads `reach` offsets before and behind a record's place in each partition.

    `record` is its topic, partition and offset; `SettingError` if there is none.
    """
    request = read(servers, topics)._request
    kafka, terms = request.settings.kafka, request.terms
    here, offset = TopicPartition(*record[:2]), record[2]
    found = discover(kafka, terms.subscription)
    if here not in found.partitions:
        known = listed(sorted(found.partitions))
        raise SettingError(f"{here} is not read: there are {known}; name its topic, or another partition")
    now = _now()
    starts, ends = (resolve(Brokers(kafka), terms, end, found, now).offsets for end in (Earliest(), Latest()))
    log, latest = KafkaLog(kafka, terms.isolation), now + FUTURE_TOLERANCE
    inside = starts[here] <= offset < ends[here]
    if not inside or log.look({here: Bound(offset)}, {here: offset + 1}, LARGEST, 1)[here].offset is None:
        raise SettingError(
            f"there is no record {here.at(offset)}: it is gone, was aborted, is a transaction's marker or not written "
            f"yet; {here} has offsets from {starts[here]} on, below {ends[here]}"
        )

    def order_time(end: int) -> int:
        span = Span(Offsets({here: starts[here]}), Offsets({here: end}), NO_FLOOR, latest)
        return Planner(log, span).end().floor.time

    at = Planner(log, Span(starts, ends, NO_FLOOR, latest)).end(None, order_time(offset + 1)).offsets
    at = at.updated({here: offset})
    first = Offsets({partition: max(place - reach, starts[partition]) for partition, place in at.items()})
    floor = Floor(order_time(first[here])).without(partition for partition in at if partition != here)
    last = {partition: min(place + reach, ends[partition]) for partition, place in at.items()}
    return Standing(Place(first, floor), found.ids).to_value(), _by_topic(last)


def range_between(
    servers: str | Mapping[str, Any], topics: Topics, start: Start, end: Start
) -> tuple[Range, ResolvedStart]:
    """What `read` would read between two places now, with what is gone of it, and how its start was found."""
    request = read(servers, topics, start=start, end=end, on_data_loss="count")._request
    kafka, terms, now = Brokers(request.settings.kafka), request.terms, _now()
    found, until = kafka.discover(terms.subscription), terms.end or Latest()
    begin = resolve(kafka, terms, terms.start, found, now)
    stop = resolve(kafka, terms, until, found, now, word="end")
    check_ends(begin.asked, stop.asked, LATER)
    span = (Place(begin.asked, NO_FLOOR), Place(stop.asked, NO_FLOOR))
    name = f"{', '.join(found.ids)} from {terms.start} to {until}"
    return new_range(name, terms, "replay", found, span, now=now, reason=""), begin


class Batches:
    """Batches of records in order; iterate once. Close it, or use it in a `with` block, when you stop before the end.

    `rows`, `late` and `lost` count what was handed on so far, those older than a record before them in their partition,
    and, by topic and partition, the offsets that retention had deleted. `live` is whether all that there was when
    reading began has been handed on, and `waiting` whether a reader that follows has handed on all that there is.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._tally = ReadTally()
        begun = request.begun
        self._reached: dict[TopicPartition, int] = {} if begun is None else dict(begun.place.offsets)
        self._last: Position | None = None
        self._end: Mapping[TopicPartition, int] = {}
        self._ends = Ends(Offsets(), Offsets())
        self._ids: Mapping[str, str] = {} if begun is None else begun.topics
        self._floor = NO_FLOOR if begun is None else begun.place.floor
        self._own: dict[TopicPartition, OwnIndex] = {}
        self._batches = self._read()
        self._reading, self._closed = threading.Lock(), threading.Event()
        self.waiting = self.live = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._reading:
            batch = None if self._closed.is_set() else next(self._batches, None)
        if self._closed.is_set():
            self.close()
        if batch is None:
            raise StopIteration
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading, from any thread; there are no more batches, but for one that another thread is fetching now."""
        self._closed.set()
        if self._reading.acquire(blocking=False):  # who reads now closes it then
            try:
                self._batches.close()
            finally:
                self._reading.release()

    @property
    def schema(self) -> pa.Schema:
        """The columns of each batch; a schema registry is asked for those that it knows."""
        found = schema(include_headers=self._request.settings.include_headers)
        if self._decoder is not None:
            found = self._decoder.schema(found)
        return pa.schema([found.field(name) for name in self._request.columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a `pyarrow.RecordBatchReader`, which Polars, DuckDB and Arrow's own writers take."""
        return pa.RecordBatchReader.from_batches(self.schema, self)

    @property
    def position(self) -> dict[str, Any]:
        """Where the next reader goes on, in the same order, behind what was handed on: a `start=`, for JSON.

        Kafka is asked which log it is, by the last record before each offset; raises as reading does.
        """
        if not self._reached:
            raise SettingError("position: nothing was read yet, so there is no place to go on from: read a batch first")
        place = Place(Offsets(self._reached), self._behind(self._floor))
        marked_place = marked(Brokers(self._request.settings.kafka), place)
        return Standing(marked_place, self._ids).to_value()

    @property
    def left(self) -> int:
        """How many offsets lie between there and the end, as far as it is known; 0 before reading begins."""
        return sum(end - self._reached.get(partition, 0) for partition, end in self._end.items())

    @property
    def partitions(self) -> pa.Table:
        """Each partition: its next offset, where what is handed on now ends, how many offsets are held back behind it.

        Held back are records that are younger than `grace`, and those behind an open transaction: they stay in Kafka.
        """
        known = sorted(self._reached)
        ends = [self._end.get(partition, self._reached[partition]) for partition in known]
        readable = self._ends.written or self._ends.offsets
        columns = {
            "topic": pa.array([partition.topic for partition in known], pa.string()),
            "partition": pa.array([partition.partition for partition in known], pa.int32()),
            "position": [self._reached[partition] for partition in known],
            "end": ends,
            "held": [max(readable.get(p, 0) - end, 0) for p, end in zip(known, ends, strict=True)],
            "rows": [self._tally.read[partition] for partition in known],
            "late": [self._tally.late[partition] for partition in known],
            "lost": [self._tally.lost.get(partition, 0) for partition in known],
        }
        numbers = {name: pa.array(each, pa.int64()) for name, each in columns.items() if isinstance(each, list)}
        return pa.table({**columns, **numbers})

    @property
    def rows(self) -> int:
        return self._tally.records

    @property
    def late(self) -> int:
        return self._tally.late.total()

    @property
    def lost(self) -> dict[str, dict[int, int]]:
        return _by_topic(self._tally.lost)

    @cached_property
    def _found(self) -> Discovery:
        return discover(self._request.settings.kafka, self._request.terms.subscription)

    @cached_property
    def _decoder(self) -> RecordDecoder | None:
        asked = self._request
        if asked.decode is None:
            return None
        return RecordDecoder.of(asked.decode, sorted(self._found.ids), asked.registry)

    def _read(self) -> Generator[pa.RecordBatch, None, None]:
        """Range after range; one alone, unless it follows."""
        place = self._first()
        while True:
            seen = self._look(place)
            place = place.updated(Place(seen.span(place).start, place.floor))  # what is new begins here
            self._reached = {**place.offsets, **self._reached}
            end = next_place(self._log, place, seen, self._request.terms, self._own)
            if isinstance(end, Place):
                self.waiting, self._end = False, end.offsets
                end = marked(Brokers(self._request.settings.kafka), end) if self._request.follow else end
                yield from self._between(seen, place, end)
                self._floor = self._behind(end.floor)
                place = place.updated(replace(end, floor=self._floor))
            self.live = True
            if not self._request.follow:
                return
            self.waiting = True
            if self._closed.wait(LOOK_SECONDS):
                return

    def _first(self) -> Place:
        asked = self._request
        if asked.begun is not None:
            return asked.begun.place
        start = resolve(Brokers(asked.settings.kafka), asked.terms, asked.terms.start, self._found, _now())
        for remark in start.remarks:
            _log.warning("%s", remark)
        return Place(start.offsets, NO_FLOOR)

    def _look(self, place: Place) -> Survey:
        asked = self._request
        seen = survey(Brokers(asked.settings.kafka), asked.terms, _now(), place)
        known = self._ids or self._found.ids
        seen.check(place, known, READER)
        self._join([topic for topic in seen.found.ids if topic not in known], sorted(seen.found.ids))
        if seen.logs.remark:
            _log.warning("%s", seen.logs.remark)
        self._ids, self._ends = seen.found.ids, seen.ends
        if seen.fixed:
            check_ends(place.offsets, seen.ends.offsets, LATER)
        return seen

    def _join(self, new: Sequence[str], topics: Sequence[str]) -> None:
        """Take in topics that the pattern has come to match; they begin at their earliest offsets."""
        if not new:
            return
        _log.info("the pattern now matches %s, too: it is read from the earliest offset on", ", ".join(map(repr, new)))
        before = self._decoder
        if before is not None and self._request.decode is not None:
            plain = schema(include_headers=self._request.settings.include_headers)
            after = RecordDecoder.of(self._request.decode, topics, self._request.registry)
            if after.schema(plain) != before.schema(plain):
                raise SettingError(
                    f"the pattern now matches {new[0]!r}, whose columns differ from those of the other topics: read it "
                    "by itself, or start over"
                )
            self._decoder = after

    def _between(self, seen: Survey, start: Place, end: Place) -> Iterator[pa.RecordBatch]:
        """The records of a range, planned a window at a time."""
        whole = seen.span(start)
        settings = replace(self._request.settings, topic_ids=seen.found.ids)
        reached = Place(whole.start, start.floor)
        while reached.offsets != end.offsets:
            rest = Span(reached.offsets, end.offsets, reached.floor, whole.latest)
            for place in Planner(self._log, rest, self._own).ends(WINDOW_OFFSETS, WINDOWS):
                span = Span(reached.offsets, place.offsets, reached.floor, whole.latest)
                planner, policy = Planner(self._log, span, self._own), settings.on_data_loss
                slices = planner.slices(SLICE_OFFSETS, policy, seen.found.compacted)
                with fetching(slices, settings) as fetching_settings:
                    for slice_ in slices:
                        yield from self._slice(slice_, fetching_settings)
                reached = Place(place.offsets, self._behind(place.floor))
        self._reached.update(end.offsets)

    def _behind(self, planned: Floor) -> Floor:
        """No lower than what was handed on: a broker that was asked for times may have known less of the log."""
        return planned if self._last is None else planned.raised(self._last.order_time, self._last.partition)

    def _slice(self, slice_: Slice, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
        def resplit(large: Slice, each: int) -> list[Slice]:
            return split(large, self._log, each, settings.on_data_loss)

        read = read_slice(slice_, settings, self._tally, resplit, self._made)
        for batch, reached, last in read:
            self._reached.update(reached)
            self._last = last
            yield batch

    @cached_property
    def _log(self) -> KafkaLog:
        return KafkaLog(self._request.settings.kafka, self._request.terms.isolation)

    def _made(self, builder: BatchBuilder, rows: slice) -> tuple[pa.RecordBatch, dict[TopicPartition, int], Position]:
        """A batch with its columns as they were asked for, where each of its partitions stands behind it, its last."""
        batch = builder.batch(rows)
        if self._decoder is not None:
            batch, _ = self._decoder.split(batch)
        return batch.select(self._request.columns), builder.reached(rows), builder.position(rows.stop - 1)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _by_topic(found: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    nested: dict[str, dict[int, int]] = {}
    for partition, number in sorted(found.items()):
        nested.setdefault(partition.topic, {})[partition.partition] = number
    return nested


def _columns(asked: Sequence[str] | None, *, headers: bool) -> tuple[str, ...]:
    if asked is None:
        return names(include_headers=headers)
    known = names(include_headers=True)
    for name in asked:
        if name not in known:
            hint = meant(str(name), known, f"there are {', '.join(known)}")
            raise SettingError(f"columns: there is no {name!r}; {hint}")
    if not asked:
        raise SettingError(f"columns is empty: leave it out, or name some of {', '.join(known)}")
    return tuple(dict.fromkeys(asked))


def _check_follow(*, follow: bool, end: Any, grace: str | None) -> None:
    if grace is not None and not follow:
        raise SettingError(f"grace={grace!r} is for follow=True: without that, all records are read, however young")
    if follow and end != "latest":
        raise SettingError(f"end={end!r} and follow=True: a reader that follows has no end; leave one out")


def _registry(decode: Decode | None, registry: str | Mapping[str, str] | None) -> Registry | None:
    if decode is None or not decode.registries:
        return None
    if registry is None:
        raise SettingError(
            f"decode= names the registry {decode.registries[0]!r}: give registry='http://...' (--registry http://...)"
        )
    return Registry({"url": registry} if isinstance(registry, str) else registry)


def _plain(value: Any) -> Any:
    """A start as JSON has it: mappings are objects."""
    return {str(key): _plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _one_of(name: str, value: Any, kind: Any) -> Any:
    if value not in get_args(kind):
        raise SettingError(f"{name} must be {' or '.join(map(repr, get_args(kind)))}, found {value!r}")
    return value


def _whole(name: str, value: Any) -> int:
    if not is_integer(value, 1):
        raise SettingError(f"{name} must be a whole number from 1 on, found {value!r}")
    return int(value)
