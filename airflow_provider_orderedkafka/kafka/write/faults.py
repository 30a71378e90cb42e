"""Find rows that cannot become records of their topic, column by column, before anything is sent."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from ...errors import UnknownTopicError
from ..lookup.survey import Brokers
from ..read.columns import Ints, nulls
from .rows import EPOCH, MOST_HEADERS, NO_PARTITION, NOW, Rows, dictionary, stamp_bytes
from .settings import OutputTopic, WriteSettings, look_up_outputs

FORMAT_BYTES: Final = 100
"""The maximum overhead of a batch of one record, besides its key, value and headers."""

_NO_BOUND: Final = 2**62

Reason = Callable[[int], str]


class Targets:
    """Those that are not known yet are looked up."""

    def __init__(self, settings: WriteSettings) -> None:
        self.settings = settings
        self._stamp_bytes = 0 if settings.range_id is None else stamp_bytes(settings.range_id)
        self._known: dict[str, OutputTopic | None] = dict(settings.outputs)
        self._own_bound = int(settings.config.get("message.max.bytes", _NO_BOUND))

    def get(self, name: str) -> OutputTopic | None:
        """The topic; None if it does not exist or may not be written."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def named(self, name: str) -> OutputTopic | None:
        """The same for a topic that a row names, which is never that of dead letters where it is known what may be."""
        known = self.settings.output_topics
        return self.get(name) if not known or name in known else None

    def _look_up(self, name: str) -> OutputTopic | None:
        try:
            return look_up_outputs(Brokers(self.settings.config), [name])[name]
        except UnknownTopicError:
            return None

    def max_bytes(self, output: OutputTopic) -> int:
        """The maximum bytes of key, value and headers of a record."""
        return min(output.max_bytes, self._own_bound) - FORMAT_BYTES - self._stamp_bytes

    def of(self, rows: Rows) -> "Aims":
        if (topic := self.settings.topic) is not None:
            return Aims([topic], np.zeros(len(rows), np.int64), [self.get(topic)], self)
        names, codes = dictionary(rows.topics)
        return Aims(names, codes, [self.named(name) for name in names], self)


@dataclass(frozen=True, slots=True)
class Aims:
    """The topic of each row, by codes."""

    names: list[str]
    codes: Ints
    outputs: list[OutputTopic | None]
    targets: Targets

    def each(self, of: Callable[[OutputTopic], int], otherwise: int) -> Ints:
        """A property of each row's topic; `otherwise` if the topic is null or unknown."""
        table = [otherwise if output is None else of(output) for output in self.outputs]
        return np.array([*table, otherwise])[self.codes]

    def name(self, index: int) -> str:
        return self.names[int(self.codes[index])]


def find_faults(rows: Rows, targets: Targets) -> dict[int, str]:
    """The faulty rows in their order, each with the first rule that it breaks."""
    aims = targets.of(rows)
    found: dict[int, str] = {}
    for rule in _RULES:
        for mask, reason in rule(rows, aims):
            for index in np.flatnonzero(mask).tolist():
                found.setdefault(index, reason(index))
    return dict(sorted(found.items()))


Findings = Iterator[tuple[Any, Reason]]


def _marked(rows: Rows, _aims: Aims) -> Findings:
    if rows.errors is not None:
        yield ~nulls(rows.errors), lambda index: str(rows.errors[index].as_py())


def _topic(_rows: Rows, aims: Aims) -> Findings:
    yield aims.codes < 0, lambda _: "its topic is null, and there is no option 'topic'"
    if None in aims.outputs:
        why = "is not one of 'outputTopics'" if aims.targets.settings.output_topics else "does not exist"
        yield (
            (aims.each(lambda _: 1, 0) == 0) & (aims.codes >= 0),
            lambda index: f"its topic {aims.name(index)!r} {why}",
        )


def _partition(rows: Rows, aims: Aims) -> Findings:
    if rows.partitions is None:
        return
    count = aims.each(lambda output: output.partitions, _NO_BOUND)
    if aims.targets.settings.use_partition == "always":
        yield rows.partitions == NO_PARTITION, lambda _: "its partition is null or -1, and 'usePartition' asks for one"
    yield (
        (rows.partitions < NO_PARTITION) | (rows.partitions >= count),
        lambda index: (
            f"its partition is {rows.partitions[index]}, but {aims.name(index)!r} has 0 to {count[index] - 1}"
        ),
    )


def _size(rows: Rows, aims: Aims) -> Findings:
    sizes = rows.record_bytes()
    most = aims.each(aims.targets.max_bytes, _NO_BOUND)
    silent = aims.each(lambda output: output.compacted is None, 0) == 1

    def reason(index: int) -> str:
        bound = f"{most[index]:,} beside what the format and provenance need"
        takes = f"{aims.name(index)!r} takes {bound} (max.message.bytes)"
        if silent[index]:
            takes = (
                f"Kafka's default is {bound}; the limit of {aims.name(index)!r} is not known, because its settings may "
                "not be read: grant the principal DESCRIBE_CONFIGS there"
            )
        return f"it has {sizes[index]:,} bytes of key, value and headers, but {takes}"

    yield sizes > most, reason


def _key(rows: Rows, aims: Aims) -> Findings:
    compacted = aims.each(lambda output: output.compacted is True, 0) == 1
    if compacted.any():
        null = np.ones(len(rows), bool) if rows.keys is None else nulls(rows.keys)
        yield compacted & null, lambda index: f"it has no key, and {aims.name(index)!r} is compacted"


def _headers(rows: Rows, aims: Aims) -> Findings:
    if rows.headers is None:
        return
    counts, own = rows.header_counts(), int(aims.targets.settings.range_id is not None)
    yield (
        counts + own > MOST_HEADERS,
        lambda index: (
            f"it has {counts[index]:,} headers{' beside provenance' * own}, but Kafka's client (librdkafka) reads none "
            f"where a record has more than {MOST_HEADERS:,}"
        ),
    )
    names = rows.headers.flatten().field("key")
    cut = pc.match_substring(names, "\0").fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's own
    yield _with_one_of(rows, nulls(names)), lambda _: "one of its headers has no name"
    yield (
        _with_one_of(rows, cut),
        lambda _: "one of its headers has U+0000 in its name, where Kafka's client would cut it off",
    )


def _with_one_of(rows: Rows, headers: Any) -> Any:
    """A mask of the rows that have one of these headers."""
    mask = np.zeros(len(rows), bool)
    if headers.any():
        mask[pc.list_parent_indices(rows.headers).to_numpy()[headers]] = True
    return mask


def _timestamp(rows: Rows, aims: Aims) -> Findings:
    off = np.where(np.isin(rows.timestamps, (NOW, EPOCH)), 0, rows.timestamps - int(time.time() * 1_000))
    ahead, behind = aims.each(lambda topic: topic.ahead, _NO_BOUND), aims.each(lambda topic: topic.behind, _NO_BOUND)
    for way, setting, difference, most in (("ahead of", "after", off, ahead), ("behind", "before", -off, behind)):

        def reason(index: int, way: str = way, setting: str = setting, most: Ints = most) -> str:
            return (
                f"its timestamp {rows.timestamps[index]} is {abs(off[index])} ms {way} the clock, but "
                f"{aims.name(index)!r} takes {most[index]} (message.timestamp.{setting}.max.ms)"
            )

        yield difference > most, reason


def _epoch(rows: Rows, aims: Aims) -> Findings:
    epoch = rows.timestamps == EPOCH
    if epoch.any():
        yield (
            epoch & (aims.each(lambda output: output.stamps, 0) == 0),
            lambda _: (
                "its timestamp is exactly 1970-01-01 00:00:00.000, which Kafka's client takes for none and replaces by "
                "the time of writing: set another one in the transform, or null for the time of writing"
            ),
        )


_RULES: Final = (_marked, _topic, _partition, _size, _key, _headers, _timestamp, _epoch)
