"""How fast Kafka is read in time order: ours, Spark's own connector with and without `orderBy`, and kafkarrow.

The connector reads with its defaults, and tuned, by four options of its consumers.

    make bench                      everything, medians of five alternating runs
    python -m benchmarks.reading --runs 3 --only wide

Every contender's order is checked before any time is printed; what is not in order is said to be so. Beside the wall
stands the processor's time of the whole tree: Spark, its Python workers and the broker.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import Data, write
from benchmarks.peers import CONNECTOR, TUNED, options, session
from benchmarks.processor import living, since
from benchmarks.python_readers import Outcome, alone
from broker import LocalKafka

DATA = {
    "deep": Data("2 million x 1 kB, 8 partitions", 2_000_000, 1_000, [1] * 8),
    "wide": Data("5 million x 100 B, 32 partitions", 5_000_000, 100, [1] * 32),
    "skewed": Data("1 million x 1 kB, 8 partitions, 97 % in one", 1_000_000, 1_000, [97 * 7 / 3] + [1] * 7),
}


@dataclass(frozen=True)
class Contender:
    """Who reads, whether in order by promise, and how: a DataFrame, or seconds taken by a process of its own."""

    name: str
    frame: Callable[[SparkSession, str, str], DataFrame]


def ours(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    reader = spark.read.format("orderedkafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).load()


def connector(spark: SparkSession, servers: str, topic: str, **more: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.options(subscribe=topic, startingOffsets="earliest", **more).load()


def in_order(frame: DataFrame) -> DataFrame:
    return frame.orderBy("timestamp", "topic", "partition", "offset")


tuned = partial(connector, **TUNED)
CONTENDERS = [
    Contender("orderedkafka", ours),
    Contender("connector, orderBy", lambda *where: in_order(connector(*where))),
    Contender("tuned, orderBy", lambda *where: in_order(tuned(*where))),
    Contender("connector, no order", connector),
    Contender("tuned, no order", tuned),
]


@dataclass(frozen=True)
class Cost:
    """How long it took, and how much of the processor."""

    seconds: float
    processor: float


def cost(frame: DataFrame) -> Cost:
    """What it costs to make every row."""
    begun, before = time.perf_counter(), living()
    frame.write.format("noop").mode("overwrite").save()
    return Cost(time.perf_counter() - begun, since(before))


def disorder(frame: DataFrame) -> tuple[int, int]:
    """Rows, and neighbours whose time falls: within each Spark partition and from one to the next."""
    time_column = "order_time" if "order_time" in frame.columns else "timestamp"
    found = frame.selectExpr(f"unix_millis({time_column}) AS time").mapInArrow(
        _summary, "part int, rows long, falls long, first long, last long"
    )
    parts = sorted(found.collect())
    falls = sum(part.falls for part in parts)
    falls += sum(one.last > other.first for one, other in pairwise(parts))
    return sum(part.rows for part in parts), falls


def _summary(batches: Iterator) -> Iterator:
    import pyarrow as pa
    from pyspark import TaskContext

    rows, falls, first, last = 0, 0, None, None
    for batch in batches:
        times = batch.column(0).to_numpy()
        if not len(times):
            continue
        falls += int((times[1:] < times[:-1]).sum()) + int(last is not None and times[0] < last)
        first, last, rows = times[0] if first is None else first, times[-1], rows + len(times)
    if rows:
        part = TaskContext.get().partitionId()
        yield pa.RecordBatch.from_pydict(
            {"part": pa.array([part], pa.int32()), "rows": [rows], "falls": [falls], "first": [first], "last": [last]}
        )


def measure(spark: SparkSession, servers: str, topic: str, data: Data, runs: int) -> None:
    """Check everybody, then let them take turns."""
    print(f"\n{data.name}")
    order = {each.name: disorder(each.frame(spark, servers, topic)) for each in CONTENDERS}
    costs: dict[str, list[Cost]] = {each.name: [] for each in CONTENDERS}
    peer: list[Outcome] = []
    for _ in range(runs):
        for each in CONTENDERS:
            costs[each.name].append(cost(each.frame(spark, servers, topic)))
        peer += filter(None, [alone("kafkarrow", servers, topic, data.records)])
    baseline = statistics.median(each.seconds for each in costs["orderedkafka"])
    for name, taken in costs.items():
        rows, falls = order[name]
        used = statistics.median(each.processor for each in taken)
        note = f"{rows:,} rows, {'in order' if not falls else f'{falls:,} falls in time'}"
        _line(name, [each.seconds for each in taken], baseline, f"processor {used:5.1f} s   {note}")
    if peer:
        rows, falls = min(each.rows for each in peer), max(each.falls for each in peer)
        note = f"{rows:,} rows, {'in order' if not falls else f'{falls:,} falls in time'}"
        _line("kafkarrow 0.1.1", [each.seconds for each in peer], baseline, note)
    assert order["orderedkafka"] == (data.records, 0), f"orderedkafka is wrong: {order['orderedkafka']}"


def _line(name: str, taken: list[float], baseline: float, note: str) -> None:
    median = statistics.median(taken)
    spread = f"{min(taken):.1f} to {max(taken):.1f}"
    print(f"  {name:22} {median:7.1f} s   ({spread:>14})   x {median / baseline:4.2f}   {note}", flush=True)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--only", choices=DATA, action="append")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the records, for a quick look")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as broker:
        spark = session(Path(work))
        from airflow_provider_orderedkafka.spark import register

        register(spark)
        print(f"peers: {CONNECTOR}; kafkarrow 0.1.1 (in a process of its own, without Spark)")
        for key in arguments.only or DATA:
            data = DATA[key].scaled(arguments.scale)
            topic = write(broker.bootstrap_servers, key, data)
            measure(spark, broker.bootstrap_servers, topic, data, arguments.runs)
        spark.stop()


if __name__ == "__main__":
    main()
