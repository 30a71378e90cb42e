"""The Kafka sink of the applications, and its options.

The lanes behind it need numpy and pyarrow: they are imported when a range is loaded, while Spark starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from airflow_provider_orderedkafka.core.lanes import KeepOrder
from airflow_provider_orderedkafka.core.positions import whole_number
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.config import PREFIX

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.batches import Writer
    from airflow_provider_orderedkafka.spark.command import Arguments
    from airflow_provider_orderedkafka.spark.frames import RangeFrames

OWN = {"keeporder": "keepOrder", "writers": "writers"}
"""The options that the application has beside those of the sink, by their names in lower case."""


def kafka_sink(arguments: "Arguments", frames: "RangeFrames") -> "Writer":
    """What writes the batches of a range to Kafka."""
    from airflow_provider_orderedkafka.spark.kafka_lanes import writer_for

    return writer_for(arguments, frames)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the application's own sink options say."""

    keep_order: KeepOrder
    writers: int | None


def asked_of(options: Mapping[str, str]) -> Asked:
    """Read the application's own options."""
    own = {OWN[name.lower()]: value for name, value in options.items() if name.lower() in OWN}
    order, writers = own.get("keepOrder", "key").lower(), own.get("writers")
    if order not in get_args(KeepOrder):
        raise SettingError(f"sink option 'keepOrder' must be 'key', 'partition' or 'none', found {own['keepOrder']!r}")
    if writers is not None and whole_number(writers) is None:
        raise SettingError(f"sink option 'writers' must be a whole number from 1 on, found {writers!r}")
    kept: KeepOrder = next(each for each in get_args(KeepOrder) if each == order)
    return Asked(kept, None if writers is None else whole_number(writers))


def completed(arguments: "Arguments") -> dict[str, str]:
    """The sink's options: the source's cluster where none is named, and nothing routes that was not asked to."""
    options = {name: value for name, value in arguments.sink_options.items() if name.lower() not in OWN}
    lower = {name.lower(): value for name, value in options.items()}
    found = dict(options)
    if "kafka.bootstrap.servers" not in lower:
        found = {PREFIX + name: value for name, value in arguments.source.kafka.items()} | found
    if arguments.output_topic is not None:
        if lower.get("topic", arguments.output_topic) != arguments.output_topic:
            raise SettingError(
                f"--output-topic {arguments.output_topic!r} and --sink-option topic={lower['topic']!r} differ: name one"
            )
        found["topic"] = arguments.output_topic
    defaults = {"usePartition": "false", "provenance": "true"}
    return {name: value for name, value in defaults.items() if name.lower() not in lower} | found
