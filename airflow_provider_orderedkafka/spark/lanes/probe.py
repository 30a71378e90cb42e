"""Sample a range before anything is written, to choose the lane."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.lanes import Facts, KeepOrder, Placement
from airflow_provider_orderedkafka.kafka.read.samples import sample
from airflow_provider_orderedkafka.kafka.write.partitioners import PARTITIONERS, misplaced
from airflow_provider_orderedkafka.spark.lanes.arrow_transforms import rekeys
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import OutputTopics
from airflow_provider_orderedkafka.spark.lanes.making import Making

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments


@dataclass(frozen=True, slots=True)
class Probe:
    """What was seen. `columns` are those of an Arrow transform's rows, `placement` how the sample's keys are placed."""

    by_topic: dict[str, int]
    transformed: bool
    rekeyed: bool
    placement: Placement | None
    columns: Any

    @property
    def partitions(self) -> int:
        """The most partitions that a topic has."""
        return max(self.by_topic.values())

    def facts(self, keep_order: KeepOrder, writers: int | None, output: OutputTopics) -> Facts:
        """What the lane is decided by."""
        return Facts(
            transformed=self.transformed,
            keep_order=keep_order,
            writers=writers,
            partitions=self.by_topic,
            outputs=output.partitions,
            use_partition=output.settings.use_partition == "always",
            placed=self.placement is not None,
            rekeyed=self.rekeyed,
            copied=not self.transformed and self.columns is None,
        )


def probe(frames: RangeFrames, arguments: "Arguments") -> Probe:
    """Look at a range; records are only looked at where the direct lane may be taken."""
    cluster, loaded = frames.cluster, frames.loaded
    by_topic = {topic.name: topic.partitions for topic in cluster.topics().topics}
    sampled = [] if arguments.transform is not None else sample(loaded.span, frames.read)
    transforms = frames.making.transform is not None
    return Probe(
        by_topic=by_topic,
        transformed=arguments.transform is not None or not (transforms or frames.making.idle),
        rekeyed=transforms and _rekeyed(frames.making, sampled),
        placement=_placement(sampled, max(by_topic.values())),
        columns=frames.made_columns(sampled) if transforms else None,
    )


def _rekeyed(making: Making, sampled: list[Any]) -> bool:
    return any(rekeys(batch.column("key"), making.split(batch)[0]) for batch in sampled)


def _placement(sampled: list[Any], partitions: int) -> Placement | None:
    """What explains where the sample's keys are, if anything does."""
    possible = ((name, partitions) for name in PARTITIONERS)
    return next((each for each in possible if not any(misplaced(batch, each) for batch in sampled)), None)
