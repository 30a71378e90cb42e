"""The Kafka sink of the applications.

The lanes behind it need numpy and pyarrow: they are imported when a range is loaded, while Spark starts.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.batches import Writer
    from airflow_provider_orderedkafka.spark.command import Arguments
    from airflow_provider_orderedkafka.spark.frames import RangeFrames


def kafka_sink(arguments: "Arguments", frames: "RangeFrames") -> "Writer":
    """What writes the batches of a range to Kafka."""
    from airflow_provider_orderedkafka.spark.kafka_lanes import writer_for

    return writer_for(arguments, frames)
