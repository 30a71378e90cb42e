"""The Kafka sink of the applications.

The lanes behind it need numpy and pyarrow: they are imported when a range is loaded, once it has been looked whether
this machine has them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments
    from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
    from airflow_provider_orderedkafka.spark.lanes.writer import Writer


def kafka_sink(arguments: "Arguments", frames: "RangeFrames") -> "Writer":
    """What writes the batches of a range to Kafka."""
    from airflow_provider_orderedkafka.spark.lanes.kafka_lanes import writer_for

    return writer_for(arguments, frames)
