"""The Kafka sink of the applications: its options, checked before anything runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.writing import plan_write
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.kafka_writer import KafkaWriter
from airflow_provider_orderedkafka.spark.sink_options import parse_sink_options

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.command import Arguments

KeepOrder = Literal["key", "partition", "none"]

OWN = {"keeporder": "keepOrder", "writers": "writers"}
"""The options that the application has beside those of the sink, by their names in lower case."""


def kafka_sink(arguments: "Arguments", frames: RangeFrames) -> KafkaWriter:
    """What writes the batches of a range to Kafka."""
    options = {name: value for name, value in arguments.sink_options.items() if name.lower() not in OWN}
    own = {OWN[name.lower()]: value for name, value in arguments.sink_options.items() if name.lower() in OWN}
    rows = frames.rows()
    settings = parse_sink_options(_completed(options, arguments), rows.dtypes)
    if settings.topic is None and not settings.output_topics:
        raise SettingError(
            "where to write is not said: name --output-topic; or, where the transform makes a column 'topic', say "
            "which topics it may name with --sink-option outputTopics=a,b"
        )
    return KafkaWriter(
        frames=frames,
        settings=plan_write(settings, rows.dtypes),
        keep_order=_keep_order(own),
        writers=_writers(own) or frames.session.sparkContext.defaultParallelism,
    )


def _completed(options: Mapping[str, str], arguments: "Arguments") -> dict[str, str]:
    """The sink's options: the source's cluster where none is named, and nothing routes that was not asked to."""
    lower = {name.lower(): value for name, value in options.items()}
    found = dict(options)
    if "kafka.bootstrap.servers" not in lower:
        found = {name: value for name, value in arguments.options.items() if name.lower().startswith("kafka.")} | found
    if arguments.output_topic is not None:
        if lower.get("topic", arguments.output_topic) != arguments.output_topic:
            raise SettingError(
                f"--output-topic {arguments.output_topic!r} and --sink-option topic={lower['topic']!r} differ"
            )
        found["topic"] = arguments.output_topic
    defaults = {"usePartition": "false", "provenance": "true"}
    return {name: value for name, value in defaults.items() if name.lower() not in lower} | found


def _keep_order(own: Mapping[str, str]) -> KeepOrder:
    found = own.get("keepOrder", "key").lower()
    for each in get_args(KeepOrder):
        if found == each:
            kept: KeepOrder = each
            return kept
    raise SettingError(f"sink option 'keepOrder' must be 'key', 'partition' or 'none', found {own['keepOrder']!r}")


def _writers(own: Mapping[str, str]) -> int | None:
    found = own.get("writers")
    if found is not None and (not found.isdecimal() or int(found) < 1):
        raise SettingError(f"sink option 'writers' must be a whole number from 1 on, found {found!r}")
    return None if found is None else int(found)
