"""The Kafka sink of the applications: its options, checked before anything runs, and the writer for its lane."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.lanes import KeepOrder, Lane, lane
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.writing import plan_write
from airflow_provider_orderedkafka.spark.arrow_transforms import as_frames
from airflow_provider_orderedkafka.spark.direct_writer import DirectWriter
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.kafka_output import KafkaOutput
from airflow_provider_orderedkafka.spark.kafka_writer import KafkaWriter, in_order
from airflow_provider_orderedkafka.spark.looks import Look, look_at
from airflow_provider_orderedkafka.spark.ordering import check_no_shuffle, default_writers
from airflow_provider_orderedkafka.spark.sink_options import parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.command import Arguments

OWN = {"keeporder": "keepOrder", "writers": "writers"}
"""The options that the application has beside those of the sink, by their names in lower case."""

TASKS_FOR_A_CORE = 2
"""Shares are uneven, so there are more of them than cores."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the application's own sink options say."""

    keep_order: KeepOrder
    writers: int | None


def kafka_sink(arguments: "Arguments", frames: RangeFrames, before: Setup | None) -> KafkaWriter | DirectWriter:
    """What writes the batches of a range to Kafka; `before` is how earlier attempts did."""
    asked = _asked(arguments.sink_options)
    look = look_at(frames, arguments)
    if arguments.arrow_transform is not None:
        frames = replace(frames, transform=as_frames(arguments.arrow_transform, look.schema))
    output = _output(arguments, frames, asked)
    way = lane(look.facts(asked.keep_order, asked.writers, output))
    setup = Setup(
        lane=way.kind,
        writers=_writers(asked, way, look, frames),
        keep_order=asked.keep_order,
        placed=look.placed if way.by_key else None,
        output=", ".join(sorted(output.settings.topics)),
        transform=arguments.transform_name,
        reason=way.reason,
    )
    if before is not None and before.fits(setup):
        setup = before
    if setup.lane == "direct":
        placed = None if setup.placed is None else (setup.placed, look.partitions)
        source = "columns" if arguments.arrow_transform is None and output.settings.source else output.settings.source
        output = replace(output, settings=replace(output.settings, source=source))
        return DirectWriter(frames, output, arguments.arrow_transform, placed, setup)
    rows = in_order(frames.rows, setup, output)  # what cannot be kept in order is refused now
    return KafkaWriter(frames, replace(output, shuffled=setup.keep_order == "none" and _shuffled(rows)), setup)


def _shuffled(rows: "DataFrame") -> bool:
    try:
        check_no_shuffle(rows)
    except SettingError:
        return True
    return False


def _writers(asked: Asked, way: Lane, look: Look, frames: RangeFrames) -> int:
    if way.one_task:
        return 1
    if way.kind == "frames":
        return asked.writers or default_writers(frames.session)
    cores = frames.session.sparkContext.defaultParallelism
    return min(asked.writers or TASKS_FOR_A_CORE * cores, look.partitions)


def _output(arguments: "Arguments", frames: RangeFrames, asked: Asked) -> KafkaOutput:
    columns = frames.columns()
    options = {name: value for name, value in arguments.sink_options.items() if name.lower() not in OWN}
    settings = parse_sink_options(_completed(options, arguments), columns)
    if settings.topic is None and not settings.output_topics:
        raise SettingError(
            "where to write is not said: name --output-topic; or, where the transform makes a column 'topic', say "
            "which topics it may name with --sink-option outputTopics=a,b"
        )
    if asked.keep_order == "partition" and settings.topic is None and settings.use_partition != "always":
        raise SettingError(
            "keepOrder=partition needs to know the output's partitions: name one --output-topic, or let a column "
            "'partition' say them with --sink-option usePartition=true"
        )
    return KafkaOutput(frames.loaded.id, plan_write(settings, columns))


def _completed(options: Mapping[str, str], arguments: "Arguments") -> dict[str, str]:
    """The sink's options: the source's cluster where none is named, and nothing routes that was not asked to."""
    lower = {name.lower(): value for name, value in options.items()}
    found = dict(options)
    if "kafka.bootstrap.servers" not in lower:
        found = {name: value for name, value in arguments.options.items() if name.lower().startswith("kafka.")} | found
    if arguments.output_topic is not None:
        if lower.get("topic", arguments.output_topic) != arguments.output_topic:
            raise SettingError(
                f"--output-topic {arguments.output_topic!r} and --sink-option topic={lower['topic']!r} differ: name one"
            )
        found["topic"] = arguments.output_topic
    defaults = {"usePartition": "false", "provenance": "true"}
    return {name: value for name, value in defaults.items() if name.lower() not in lower} | found


def _asked(options: Mapping[str, str]) -> Asked:
    own = {OWN[name.lower()]: value for name, value in options.items() if name.lower() in OWN}
    order, writers = own.get("keepOrder", "key").lower(), own.get("writers")
    if order not in get_args(KeepOrder):
        raise SettingError(f"sink option 'keepOrder' must be 'key', 'partition' or 'none', found {own['keepOrder']!r}")
    if writers is not None and (not writers.isdecimal() or int(writers) < 1):
        raise SettingError(f"sink option 'writers' must be a whole number from 1 on, found {writers!r}")
    kept: KeepOrder = next(each for each in get_args(KeepOrder) if each == order)
    return Asked(kept, None if writers is None else int(writers))
