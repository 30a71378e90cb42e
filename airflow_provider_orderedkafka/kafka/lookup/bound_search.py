"""Find the first visible record at or after each bound, while records arrive."""

from collections.abc import Mapping
from typing import Final

from airflow_provider_orderedkafka.core.order.cuts import Bound, counts
from airflow_provider_orderedkafka.core.order.ports import Sighting
from airflow_provider_orderedkafka.core.order.positions import TopicPartition

NO_TIMESTAMP: Final = -1


class BoundSearch:
    """One search in many partitions.

    `seen` has the results, `open` how many records have failed the bound in each partition that is not done.
    """

    def __init__(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> None:
        self.open = dict.fromkeys(bounds, 0)
        self.seen: dict[TopicPartition, Sighting] = {}
        self._bounds = bounds
        self._limits = limits
        self._latest = latest
        self._patience = patience
        self.reached({partition: bound.offset for partition, bound in bounds.items()})

    def judge(self, partition: TopicPartition, offset: int, timestamp: int) -> None:
        if partition not in self.open or offset >= self._limits[partition]:
            return
        passed = self.open[partition]
        if self._satisfied(self._bounds[partition], timestamp):
            self._close(partition, Sighting(offset, timestamp, passed))
        elif passed >= self._patience:
            self._close(partition, Sighting(offset, timestamp, passed + 1, gave_up=True))
        else:
            self.open[partition] = passed + 1

    def reached(self, positions: Mapping[TopicPartition, int]) -> None:
        """Close partitions that were read up to their limit."""
        for partition, position in positions.items():
            if partition in self.open and position >= self._limits[partition]:
                self._close(partition, Sighting(None, NO_TIMESTAMP, self.open[partition]))

    def _satisfied(self, bound: Bound, timestamp: int) -> bool:
        return bound.time is None or (counts(timestamp, self._latest) and timestamp >= bound.time)

    def _close(self, partition: TopicPartition, sighting: Sighting) -> None:
        del self.open[partition]
        self.seen[partition] = sighting
