"""The options of source and sink, as values: the source's have the names of Spark's own Kafka connector, and more.

Everything is checked here, before Kafka is asked anything. How rows become records follows from the options of
`df.write`, or from an output as a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...core.documents import Range
from ...core.notation.starts import Earliest, goes_back, parse_start
from ...core.notation.subscriptions import Named
from ...core.pacing import Pace, Terms
from ...errors import SettingError
from ...kafka.clients.config import KafkaConfig
from ...kafka.write.settings import Column, UsePartition, WriteSettings, check_apart, source_of
from ...outputs import KafkaOutput
from .option_tables import ISOLATION, SINK, SOURCE, OptionTable


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of a reader or a stream; a `range` says what to read, and its terms are the range's own."""

    kafka: KafkaConfig
    terms: Terms
    slice_offsets: int
    range: Range | None = None
    commit_group: str | None = None


SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
EXCLUSIVE: Final = (("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp"))


def parse_options(
    given: Mapping[str, str], *, stream: bool, loaded: Range | None = None, table: OptionTable = SOURCE
) -> SourceOptions:
    """Parse the options of a source; raises `SettingError` for a wrong one.

    `loaded` is a range that is given otherwise than by the option `range`, and shapes the reading like that one.
    """
    kafka, values = KafkaConfig.from_options(given), table.parsed(given)
    if loaded is not None:
        values["range"] = loaded
    if "range" in values:
        return _of_range(kafka, values)
    _check(values, stream=stream)
    kind = next(name for name in SUBSCRIPTIONS if name in values)
    default = "latest" if stream else "earliest"
    moment = values.get("startingTimestamp")
    start = values.get("startingOffsets", parse_start(default, "startingOffsets")) if moment is None else moment
    end = values.get("endingTimestamp")
    if end is not None and goes_back(start, end):
        raise SettingError(f"option 'endingTimestamp' is {end}, before {start}, where reading starts")
    terms = Terms(
        load="",
        subscription=values[kind],
        start=start,
        end=values.get("endingOffsets"),
        end_time=None if end is None else end.time,
        grace=values.get("grace"),
        transaction_wait=SOURCE.value(values, "transactionWait"),
        future_tolerance=SOURCE.value(values, "futureTolerance"),
        isolation=SOURCE.value(values, ISOLATION),
        on_data_loss="fail" if SOURCE.value(values, "failOnDataLoss") else "count",
        include_headers=SOURCE.value(values, "includeHeaders"),
        pace=_pace(values),
        batch_offsets=values.get("maxOffsetsPerTrigger"),
        row_limit=values.get("rowLimit"),
    )
    return SourceOptions(kafka, terms, SOURCE.value(values, "sliceOffsets"), commit_group=values.get("commitGroup"))


def _pace(values: Mapping[str, Any]) -> Pace:
    low = values.get("minOffsetsPerTrigger")
    return Pace(low, values.get("maxTriggerDelay") if low is None else SOURCE.value(values, "maxTriggerDelay"))


def _check(values: Mapping[str, Any], *, stream: bool) -> None:
    chosen = [name for name in SUBSCRIPTIONS if name in values]
    if len(chosen) != 1:
        found = " and ".join(map(repr, chosen)) or "none"
        raise SettingError(f"set exactly one of {', '.join(map(repr, SUBSCRIPTIONS))} (or 'range'), found {found}")
    for one, other in EXCLUSIVE:
        if one in values and other in values:
            raise SettingError(f"options {one!r} and {other!r} say the same thing in two ways: set one of them")
    if not stream and (odd := [o.name for o in SOURCE.options if o.stream_only and o.name in values]):
        raise SettingError(f"option {odd[0]!r} is for streams: 'endingOffsets' bounds what a batch reads")
    low, high = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise SettingError(
            f"option 'minOffsetsPerTrigger' is {low}, more than 'maxOffsetsPerTrigger', {high}: "
            "no trigger could satisfy both; lower the minimum or raise the maximum"
        )


def _of_range(kafka: KafkaConfig, values: Mapping[str, Any]) -> SourceOptions:
    if odd := sorted(set(values) - {option.name for option in SOURCE.options if option.with_range}):
        raise SettingError(f"option {odd[0]!r} cannot be used with 'range', which sets it: leave it out")
    loaded: Range = values["range"]
    terms = Terms(
        load="",
        subscription=Named(tuple(loaded.topics)),
        start=Earliest(),
        transaction_wait=0,
        future_tolerance=loaded.future_tolerance,
        isolation=loaded.isolation,
        on_data_loss=loaded.on_data_loss,
        include_headers=loaded.include_headers,
        pace=Pace(),
        batch_offsets=loaded.batch_offsets,
    )
    return SourceOptions(kafka, terms, SOURCE.value(values, "sliceOffsets"), loaded)


_USE_PARTITION: Final[dict[bool | None, UsePartition]] = {None: "given", True: "always", False: "never"}


def parse_sink_options(
    given: Mapping[str, str], columns: Sequence[Column], *, overwrite: bool = False
) -> WriteSettings:
    """Parse the options of a writer, whose rows' columns decide on partitions and provenance by default.

    Raises `SettingError` for a wrong one.
    """
    if overwrite:
        raise SettingError("a topic can only be appended to: use mode('append') instead of mode('overwrite')")
    kafka, values = KafkaConfig.from_options(given), SINK.parsed(given)
    if "topic" in values and "outputTopics" in values:
        raise SettingError(
            "options 'topic' and 'outputTopics' cannot be used together: the first is the topic of every row, "
            "the second lists the topics that a column 'topic' may name; leave one out"
        )
    check_apart(values.get("deadLetterTopic"), values.get("outputTopics", ()))
    provenance = values.get("provenance")
    return WriteSettings(
        kafka,
        topic=values.get("topic"),
        use_partition=_USE_PARTITION[values.get("usePartition")],
        use_headers=values.get("includeHeaders", True),
        dead_letter_topic=values.get("deadLetterTopic"),
        source=None if provenance is False else source_of(columns) or ("struct" if provenance else None),
        output_topics=values.get("outputTopics", ()),
    )


def settings_of(
    output: KafkaOutput, letters: str | None, kafka: KafkaConfig, columns: Sequence[Column]
) -> WriteSettings:
    """The settings to write rows of these columns; the caller adds their range."""
    return WriteSettings(
        kafka,
        topic=output.topic,
        use_partition=_USE_PARTITION[output.use_partition],
        use_headers=output.include_headers,
        dead_letter_topic=letters,
        source=(source_of(columns) or "struct") if output.provenance else None,
        output_topics=output.topics,
    )
