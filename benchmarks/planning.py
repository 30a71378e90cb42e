"""How long it takes to cut a topic of very many partitions into slices, before a record is read.

    python -m benchmarks.planning                 64 slices over 500 partitions, the median of five

What the slices hold is counted and checked before any time is printed.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.cuts import Floor, Slice, Span
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers, readable_ends
from airflow_provider_orderedkafka.kafka.lookup.topics import discover, log_starts
from benchmarks.data import Data, write
from benchmarks.peers import options
from benchmarks.processor import processor
from broker import LocalKafka

LATEST = 2**62


class Counted(KafkaLog):
    """The log, with the number of questions that it was asked."""

    look_ups = 0

    def first_at(self, partitions: Sequence[TopicPartition], times: Sequence[int]):
        self.look_ups += len(times)
        return super().first_at(partitions, times)


def plan(config: KafkaConfig, topic: str, slices: int) -> tuple[list[Slice], int, int]:
    """The slices, their offsets in all, and the look-ups that it took."""
    found = discover(config, Named((topic,)))
    starts = log_starts(config, found.partitions)
    ends = readable_ends(Brokers(config), found.partitions, "read_committed", LATEST)
    span = Span(starts, ends.offsets, Floor(), LATEST)
    log = Counted(config)
    planned = Planner(log, span).slices(-(-span.offsets // slices), "fail", found.compacted)
    return planned, span.offsets, log.look_ups


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--slices", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as broker:
        data = Data("planning", 1_000_000, 100, [1.0] * arguments.partitions)
        topic = write(broker.bootstrap_servers, "planned", data)
        config = KafkaConfig({"bootstrap.servers": broker.bootstrap_servers})
        taken, spent = [], []
        for _ in range(arguments.runs):
            begun, before = time.perf_counter(), processor()
            slices, offsets, look_ups = plan(config, topic, arguments.slices)
            taken.append(time.perf_counter() - begun)
            spent.append(processor() - before)
        assert offsets == data.records, f"{offsets:,} offsets, {data.records:,} records"
        sizes = [each.offsets for each in slices]
        assert sum(sizes) == offsets, f"the slices span {sum(sizes):,} offsets of {offsets:,}"
        print(f"{len(slices)} slices over {arguments.partitions} partitions, {look_ups} look-ups: ", end="")
        print(f"{statistics.median(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f}), ", end="")
        print(f"{statistics.median(spent):.2f} s of the processor, broker and all")
        print(f"the smallest slice has {min(sizes):,} offsets, the largest {max(sizes):,}")


if __name__ == "__main__":
    main()
