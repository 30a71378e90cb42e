"""What a long range takes: records a second, and the memory of driver and Python workers, from its begin to its end.

    python -m benchmarks.long_range                            5 million x 100 B in 32 partitions, copied
    python -m benchmarks.long_range --share 1 --table 10_000_000   50 million, and the first 10 of them into Parquet
    python -m benchmarks.long_range --share 0.01 --directory /data/long --samples long.json

spark-submit runs the packaged applications as a person would, with Spark's own settings (1 GiB for the driver's heap);
every three seconds the memory of their processes is looked at. At the end the output has as many records as the source,
or as many rows; the records of one partition are read back, each there once and each key's in order.
"""

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_orderedkafka.kafka.write.writing import partitions_of
from broker import LocalKafka

RECORDS, PARTITIONS, KEYS, SIZE = 50_000_000, 32, 10_007, 100
BASE = 1_700_000_000_000
LATE_EVERY, LATE_BY = 101, 300
LOOK_SECONDS = 3.0
APPS = Path(__file__).parents[1] / "spark_apps"
KINDS = ("JVM", "driver's Python", "Python workers")
PLACE = ["partition", "offset"]
READ = re.compile(r"batch (\d+)")


def time_of(number: int) -> int:
    """The timestamp of a record, by its number: four a millisecond, one of a hundred late."""
    return BASE + number // 4 - (LATE_BY if number % LATE_EVERY == 0 else 0)


def create(servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        future.result(60)


def fill(servers: str, topic: str, records: int) -> None:
    """Each of two processes writes half of the partitions; a value begins with the number of its record."""
    new = multiprocessing.get_context("spawn").Process
    writers = [new(target=_fill, args=(servers, topic, records, half)) for half in (0, 1)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
        assert each.exitcode == 0, "the topic could not be written"


def _fill(servers: str, topic: str, records: int, half: int) -> None:
    keys = [b"%d" % number for number in range(KEYS)]
    places = partitions_of(pa.array(keys, pa.binary()), PARTITIONS).to_pylist()
    settings = {"linger.ms": 50, "batch.size": 200_000, "queue.buffering.max.messages": 500_000}
    producer = Producer({"bootstrap.servers": servers, "delivery.report.only.error": True, **settings})
    rest = np.random.default_rng(7).bytes(SIZE - 8)
    for number in range(records):
        key = number * 7_919 % KEYS
        if places[key] % 2 != half:
            continue
        value = number.to_bytes(8, "big") + rest
        while True:
            try:
                producer.produce(topic, value, keys[key], places[key], timestamp=time_of(number))
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def command(app: str, servers: str, topic: str, checkpoint: Path, *more: str) -> list[str]:
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    for name in ("driver.bindAddress", "driver.host"):
        submit += ["--conf", f"spark.{name}=127.0.0.1"]
    submit += ["--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR", str(APPS / app)]
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    pairs = [part for item in options.items() for part in ("--option", "=".join(item))]
    return [*submit, "--checkpoint", str(checkpoint), *pairs, *more]


def followed(arguments: list[str], log: Path) -> tuple[list[dict[str, float]], float]:
    """Run it to its end: what its processes had at each look, in MiB, and the seconds that it took."""
    found, begun = [], time.perf_counter()
    with log.open("w") as output, subprocess.Popen(arguments, stdout=output, stderr=output) as application:
        while application.poll() is None:
            looked = memory(psutil.Process(application.pid))
            found.append({"seconds": time.perf_counter() - begun, "batches": batches(log), **looked})
            with suppress(subprocess.TimeoutExpired):
                application.wait(LOOK_SECONDS)
    assert application.returncode == 0, log.read_text()[-3_000:]
    return found, time.perf_counter() - begun


def memory(application: psutil.Process) -> dict[str, float]:
    """The resident memory of an application's processes by kind, in MiB."""
    found = dict.fromkeys(KINDS, 0.0)
    for process in _with_children(application):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            said = process.cmdline()
            kind = "JVM" if "java" in said[0] else KINDS[2] if "pyspark.daemon" in said else KINDS[1]
            found[kind] += process.memory_info().rss / 2**20
    return found


def _with_children(process: psutil.Process) -> Iterator[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        yield process
        yield from process.children(recursive=True)


def batches(log: Path) -> int:
    return max((int(each) for each in READ.findall(log.read_text())), default=0)


def check_copy(servers: str, topic: str, records: int) -> None:
    """As many records as there were; those of one partition once each, a key's in order, with their timestamps."""
    settings = {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer(settings)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, each), 30)[1] for each in range(PARTITIONS)]
    assert sum(ends) == records, f"{sum(ends):,} records of {records:,}"
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen: set[int] = set()
    last: dict[bytes, int] = {}
    while len(seen) < ends[0]:
        for message in consumer.consume(10_000, 5):
            number, key = int.from_bytes(message.value()[:8], "big"), message.key()
            assert number not in seen, f"record {number} is there twice"
            assert last.get(key, -1) < number, f"record {number} of its key is out of order"
            assert message.timestamp()[1] == time_of(number), f"record {number} lost its timestamp"
            seen.add(number)
            last[key] = number
    consumer.close()


def check_files(folder: Path, least: int) -> int:
    """How many rows are there, each record once: all before the end, and late ones that stand before it, too."""
    import pyarrow.dataset as ds

    found = ds.dataset(folder, format="parquet", exclude_invalid_files=True).to_table(columns=PLACE)
    rows = found.num_rows
    assert found.group_by(PLACE).aggregate([]).num_rows == rows, "a record is there twice"
    assert least <= rows < least + PARTITIONS, f"{rows:,} rows of {least:,}"
    return rows


def show(name: str, records: int, seconds: float, samples: list[dict[str, float]]) -> None:
    """Print what it took, and the memory of each kind: the median of the looks' first half, of the second, the most."""
    print(f"{name}: {records:,} records in {seconds:.0f} s, {records / seconds:,.0f} a second")
    working = [each for each in samples if each["batches"] > 0]
    for kind in KINDS:
        first, second = np.array_split([each[kind] for each in working], 2)
        most = max(each[kind] for each in samples)
        print(f"  {kind:16} {np.median(first):7.0f} MiB, then {np.median(second):7.0f} MiB, at most {most:7.0f} MiB")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.1, help="of 50 million records")
    parser.add_argument("--table", type=int, default=0, help="how many go into Parquet files, too")
    parser.add_argument("--directory", help="where broker and files are; default: a temporary one")
    parser.add_argument("--samples", type=Path, help="a file for what was looked at, as JSON")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as work, LocalKafka(Path(work) / "kafka") as kafka:
        for name, found in measured(
            kafka.bootstrap_servers, Path(work), int(RECORDS * arguments.share), arguments.table
        ):
            show(name, **found)
            kept[name] = found
            if arguments.samples:
                arguments.samples.write_text(json.dumps(kept))


def measured(servers: str, work: Path, records: int, table: int) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = time.perf_counter()
    create(servers, "orders", "copy")
    fill(servers, "orders", records)
    print(f"{records:,} x {SIZE} B written in {time.perf_counter() - begun:.0f} s", flush=True)
    copy = command("ordered_replay.py", servers, "orders", work / "copied", "--output-topic", "copy")
    samples, seconds = followed(copy, work / "copy.log")
    assert "by the direct lane" in (work / "copy.log").read_text(), (work / "copy.log").read_text()
    check_copy(servers, "copy", records)
    yield "a copy, by the direct lane", {"records": records, "seconds": seconds, "samples": samples}
    if table:
        until = ("--option", f"endingTimestamp={BASE + table // 4}")
        into = command("ordered_table.py", servers, "orders", work / "tabled", *until, "--output", f"parquet:{work}/t")
        samples, seconds = followed(into, work / "table.log")
        rows = check_files(work / "t", min(table, records))
        yield "into Parquet files, by DataFrames", {"records": rows, "seconds": seconds, "samples": samples}


if __name__ == "__main__":
    main()
