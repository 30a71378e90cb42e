"""The options of the sink: those of Spark's Kafka sink by the same names, and more."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from airflow_provider_orderedkafka.core.lanes import KeepOrder
from airflow_provider_orderedkafka.core.outputs import DEAD_LETTERS, OF_THE_SINK, OPTIONS_VARIABLE, SERVERS
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.write.write_settings import Column, UsePartition, WriteSettings, source_of
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, SINK

_USE_PARTITION: dict[bool | None, UsePartition] = {None: "given", True: "always", False: "never"}
_UNLESS_SAID: Final = {"usePartition": False, "provenance": True}
"""The defaults of applications that are not those of `df.write`."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options of a writer. By default the rows' columns decide on partitions and provenance."""

    kafka: KafkaConfig
    topic: str | None = None
    output_topics: tuple[str, ...] = ()
    dead_letter_topic: str | None = None
    use_partition: bool | None = None
    include_headers: bool = True
    provenance: bool | None = None
    keep_order: KeepOrder = "key"
    writers: int | None = None

    def __post_init__(self) -> None:
        if self.topic is not None and self.output_topics:
            raise SettingError(
                "options 'topic' and 'outputTopics' exclude each other: the first says where every row goes, "
                "the second what a column 'topic' may name"
            )

    @classmethod
    def of(cls, kafka: KafkaConfig, values: Mapping[str, Any]) -> Self:
        """By the values of options, which fields are named after: `keepOrder` is `keep_order`."""
        return cls(kafka, **{re.sub("([A-Z])", r"_\1", name).lower(): value for name, value in values.items()})

    def settings(self, columns: Sequence[Column]) -> WriteSettings:
        """The settings to write rows of these columns; the caller adds their range."""
        found = source_of(columns) or ("struct" if self.provenance else None)
        return WriteSettings(
            self.kafka,
            topic=self.topic,
            use_partition=_USE_PARTITION[self.use_partition],
            use_headers=self.include_headers,
            dead_letter_topic=self.dead_letter_topic,
            source=None if self.provenance is False else found,
            output_topics=self.output_topics,
        )


def parse_sink_options(
    given: Mapping[str, str], columns: Sequence[Column], *, overwrite: bool = False
) -> WriteSettings:
    """Parse the options of a writer; raises `SettingError` for a wrong one."""
    if overwrite:
        raise SettingError("a topic can only be appended to: use mode('append') instead of mode('overwrite')")
    kafka, values = KafkaConfig.from_options(given), SINK.parsed(given)
    return SinkOptions.of(kafka, values).settings(columns)


def application_sink(
    given: Mapping[str, str],
    source: KafkaConfig,
    *,
    topic: str | None = None,
    output: KafkaOutput | None = None,
    dead_letters: str | None = None,
) -> SinkOptions:
    """An application's sink: by default on the source's cluster, with provenance.

    What `--output-topic`, `--output` and `--decode` say as values stands beside the `given` options. Raises
    `SettingError` for a wrong option, and for what is set twice.
    """
    options, own = _lower(given), {}
    if output is not None:
        options, own = _with_output(options, output), output.values
    values: Mapping[str, Any] = APPLICATION_SINK.parsed(options)
    said = {"--output": own, "--output-topic": {"topic": topic}, "--decode": {DEAD_LETTERS: dead_letters}}
    for argument, more in said.items():
        values = _joined(values, more, argument)
    if odd := sorted(set(values) & {option.name for option in APPLICATION_SINK.of_group("table")}):
        raise SettingError(
            f"option {odd[0]!r} is for tables and files alone: name one by 'path' or 'table', or leave it out"
        )
    return SinkOptions.of(KafkaConfig.from_options(options, beneath=source), {**_UNLESS_SAID, **values})


def _joined(values: Mapping[str, Any], more: Mapping[str, Any], argument: str) -> dict[str, Any]:
    """The values, and those that an argument says; twice the same is fine."""
    said = {name: value for name, value in more.items() if value is not None}
    for name, value in said.items():
        if values.get(name, value) != value:
            raise SettingError(f"{name!r} is set twice: {values[name]!r}, and by {argument} {value!r}; leave one out")
    return {**values, **said}


def _with_output(options: Mapping[str, str], output: KafkaOutput) -> dict[str, str]:
    if output.kafka_conn_id is not None and SERVERS not in options:
        raise SettingError(
            f"the output is on the cluster of connection {output.kafka_conn_id!r}, and nothing says where that is: "
            f"give its options with --sink-option {SERVERS}=..., or in {OPTIONS_VARIABLE} as '{OF_THE_SINK}{SERVERS}'"
        )
    return _joined(options, _lower(output.options), "--output")


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in options.items()}
