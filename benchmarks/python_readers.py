"""Reading a topic in time order in Python, without Spark: ours, its peers, and a plain consumer that sorts.

    make bench ARGS=python_readers                                    two million records, every reader
    python -m benchmarks.python_readers --records 10000000 --only orderedkafka

Each reads in a process of its own, whose memory is what it had at most. Whether rows are right is judged by the order
time alone, the highest timestamp so far in a row's partition: it must never fall, and no row may be missing or come
twice.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.processor import processor

SHAPES = {"skewed": [97 * 31 / 3] + [1.0] * 31, "even": [1.0] * 32}
SIZE = 100
MOST_SECONDS = 60.0


@dataclass
class Outcome:
    """What a reader did: rows, how often order time and offsets in their partition fell; wall, processor, MB."""

    rows: int = 0
    falls: int = 0
    misplaced: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    megabytes: int = 0


def ours(servers: str, topic: str, _records: int) -> Iterator[pa.RecordBatch]:
    from airflow_provider_orderedkafka.reader import read

    with read(servers, topic) as batches:
        yield from batches


def peer(module: str) -> Callable[[str, str, int], Iterator[pa.RecordBatch]]:
    """kafkarrow, or kafkars, which it was called before."""

    def batches(servers: str, topic: str, records: int) -> Iterator[pa.RecordBatch]:
        made = __import__(module)
        manager = made.ConsumerManager(
            config={"bootstrap.servers": servers}, topics=[made.SourceTopic.from_earliest(topic)]
        )
        begun, rows = time.perf_counter(), 0
        while rows < records and time.perf_counter() - begun < MOST_SECONDS:
            batch = manager.poll(timeout_ms=1_000)
            rows += batch.num_rows
            yield batch

    return batches


def plain(servers: str, topic: str, records: int) -> Iterator[pa.RecordBatch]:
    """All of it in memory, sorted by time, as one table."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "plain", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    rows: list[tuple[int, int, int, bytes | None, bytes | None]] = []
    while len(rows) < records:
        rows += [
            (m.timestamp()[1], m.partition(), m.offset(), m.key(), m.value()) for m in consumer.consume(10_000, 1.0)
        ]
    consumer.close()
    rows.sort()
    stamps, numbers, offsets, keys, values = zip(*rows, strict=True)
    columns = [
        pa.array(stamps, pa.timestamp("ms", "UTC")),
        pa.array(numbers, pa.int32()),
        pa.array(offsets, pa.int64()),
    ]
    yield pa.record_batch(
        [*columns, pa.array(keys), pa.array(values)], names=["timestamp", "partition", "offset", "key", "value"]
    )


READERS: dict[str, Callable[[str, str, int], Iterator[pa.RecordBatch]]] = {
    "orderedkafka": ours,
    "kafkarrow": peer("kafkarrow"),
    "kafkars": peer("kafkars"),
    "plain": plain,
}


def judged(batches: Iterable[pa.RecordBatch]) -> Outcome:
    """Read all of it, and see whether the order time ever falls."""
    found, begun = Outcome(), time.perf_counter()
    highest: dict[int, int] = {}
    reached: dict[int, int] = {}
    last = -1
    for batch in batches:
        if not batch.num_rows:
            continue
        stamps = batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
        offsets, partitions = batch.column("offset").to_numpy(), batch.column("partition").to_numpy()
        order_times = np.empty_like(stamps)
        for partition in np.unique(partitions).tolist():
            mine = np.flatnonzero(partitions == partition)
            order_times[mine] = np.maximum.accumulate(np.maximum(stamps[mine], highest.get(partition, 0)))
            here = offsets[mine]
            found.misplaced += int((here[1:] < here[:-1]).sum()) + int(here[0] < reached.get(partition, 0))
            highest[partition], reached[partition] = int(order_times[mine[-1]]), int(here[-1])
        found.falls += int((order_times[1:] < order_times[:-1]).sum()) + int(order_times[0] < last)
        last, found.rows = int(order_times[-1]), found.rows + batch.num_rows
    found.seconds = time.perf_counter() - begun
    found.megabytes = _most_megabytes()
    return found


def _most_megabytes() -> int:
    """What this process had at most: on Linux not what it was begun by, which counts there otherwise."""
    file = Path("/proc/self/status")
    if file.exists():
        return int(next(line for line in file.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) // 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024 // 1_024


def alone(reader: str, servers: str, topic: str, records: int) -> Outcome | None:
    """In a process of its own, whose start is in the processor's time, too; None where it is not installed."""
    worked = processor()
    command = [sys.executable, "-m", "benchmarks.python_readers", "--reader", reader, "--at", servers, topic]
    done = subprocess.run([*command, "--records", str(records)], capture_output=True, text=True, check=False)
    if done.returncode and "ModuleNotFoundError" in done.stderr:
        return None
    done.check_returncode()
    return replace(Outcome(**json.loads(done.stdout)), processor=processor() - worked)


def _line(reader: str, records: int, found: Outcome | None) -> str:
    if found is None:
        return f"| {reader} | not installed | | | |"
    wrong = [
        f"{count:,} {what}"
        for count, what in (
            (records - found.rows, f"missing after {MOST_SECONDS:,.0f} s"),
            (found.falls, "falls in order time"),
            (found.misplaced, "falls in the order of a partition"),
        )
        if count
    ]
    speed = f"{found.rows / found.seconds:,.0f}"
    return f"| {reader} | {'; '.join(wrong) or 'right'} | {speed} | {found.processor:.1f} s | {found.megabytes:,} MB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--only", choices=READERS, action="append", help="this reader alone")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="this shape alone")
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--at", nargs=2, help=argparse.SUPPRESS)
    asked: Any = parser.parse_args()
    if asked.reader:
        servers, topic = asked.at
        print(json.dumps(asdict(judged(READERS[asked.reader](servers, topic, asked.records)))))
        return
    from benchmarks.data import Data, write
    from broker import LocalKafka

    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as broker:
        for shape in asked.shape or SHAPES:
            topic = write(broker.bootstrap_servers, shape, Data(shape, asked.records, SIZE, SHAPES[shape]))
            print(f"\n{asked.records:,} records of {SIZE} B in 32 partitions, {shape}\n", flush=True)
            print("| | rows | records a second | processor | memory |\n| --- | --- | --- | --- | --- |", flush=True)
            for reader in asked.only or READERS:
                print(
                    _line(reader, asked.records, alone(reader, broker.bootstrap_servers, topic, asked.records)),
                    flush=True,
                )


if __name__ == "__main__":
    main()
