"""The options of the sink: those of Spark's Kafka sink by the same names, and more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.lanes import KeepOrder
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.write.write_settings import Column, UsePartition, WriteSettings, source_of
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, SINK

_USE_PARTITION: dict[bool | None, UsePartition] = {None: "given", True: "always", False: "never"}


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
    return SinkOptions(
        kafka,
        topic=values.get("topic"),
        output_topics=values.get("outputTopics", ()),
        dead_letter_topic=values.get("deadLetterTopic"),
        use_partition=values.get("usePartition"),
        include_headers=SINK.value(values, "includeHeaders"),
        provenance=values.get("provenance"),
    ).settings(columns)


def application_options(given: Mapping[str, str], source: KafkaConfig, output_topic: str | None) -> SinkOptions:
    """Parse an application's sink options: by default to the source's cluster, with provenance."""
    values = APPLICATION_SINK.parsed(given)
    topic = values.get("topic", output_topic)
    if output_topic is not None and topic != output_topic:
        raise SettingError(f"--output-topic {output_topic!r} and --sink-option topic={topic!r} differ: name one")
    return SinkOptions(
        KafkaConfig.from_options(given, beneath=source),
        topic=topic,
        output_topics=values.get("outputTopics", ()),
        dead_letter_topic=values.get("deadLetterTopic"),
        use_partition=values.get("usePartition", False),
        include_headers=SINK.value(values, "includeHeaders"),
        provenance=values.get("provenance", True),
        keep_order=APPLICATION_SINK.value(values, "keepOrder"),
        writers=values.get("writers"),
    )
