"""Plan where the batches of a range end, a window at a time; what earlier attempts stored comes first."""

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core import plan
from airflow_provider_orderedkafka.core.order.cuts import Place
from airflow_provider_orderedkafka.core.plan import Planned, Size, needs_sample, rest_of, size_of
from airflow_provider_orderedkafka.kafka.lookup.topics import check_ids
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.core.order.index import OwnIndex
    from airflow_provider_orderedkafka.core.order.positions import TopicPartition


class Plan:
    """The remaining batches of a range."""

    def __init__(self, frames: RangeFrames, checkpoint: Checkpoint) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._own: dict[TopicPartition, OwnIndex] = {}

    def window(self, number: int, start: Place) -> list[Planned]:
        """The next batches from this number and place; none at the range's end."""
        loaded = self._frames.loaded
        if start.offsets == loaded.end.offsets:
            return []
        size, begun = self._size, self._begun(number)
        ends = [] if begun is None else [begun]
        rest = rest_of(loaded, begun or start)
        if rest.offsets:
            ends += self._frames.cluster.planner(rest, self._own).ends(size.offsets, plan.WINDOW - len(ends))
        return plan.window(loaded, number, start, ends, size)

    def _begun(self, number: int) -> Place | None:
        """The end of a batch that an earlier attempt began."""
        begun = self._checkpoint.note(number) or self._checkpoint.allotment(number)
        return None if begun is None else begun.end

    @cached_property
    def _size(self) -> Size:
        """Determined before the first window; also checks that the topics are still the range's."""
        from airflow_provider_orderedkafka.kafka.read.samples import average_bytes

        loaded, cluster = self._frames.loaded, self._frames.cluster
        check_ids(cluster.topics().ids, loaded.topics)
        average = average_bytes(loaded.span, self._frames.read) if needs_sample(loaded) else None
        return size_of(loaded, average, self._frames.slice_offsets)
