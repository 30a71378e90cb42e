"""What a process that reads, or writes, takes: which packages it imports, and how much memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import Record

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.bundle import build_bundle
from airflow_provider_orderedkafka.spark.session.starting import check_executors


def run(program):
    """Run a program in a process of its own; what it printed."""
    paths = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=120, env={**os.environ, **paths}, stdout=subprocess.PIPE
    )
    return done.stdout.decode()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the process's size")
@pytest.mark.parametrize(
    ("value", "headers", "third"),
    [(bytes(4_000), [], 25_000), (b"x", [("trace", bytes(20_000))], 5_000)],
    ids=["large values", "large headers"],
)
def test_a_worker_stays_small_and_does_not_grow_with_the_topic(kafka, topics, records, value, headers, third):
    topic = topics.create()
    written = (Record(value, timestamp=t, headers=headers) for t in range(1, 3 * third + 1))
    records.produce(topic, written, **{"linger.ms": 50, "queue.buffering.max.messages": 2_000})
    program = f"""
from pathlib import Path
from support.slices import whole
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.spark.connector.reading import read_batches
settings = ReadSettings({{"bootstrap.servers": {kafka.bootstrap_servers!r}}}, include_headers=True)
for end in ({third}, {2 * third}, {3 * third}):
    slice_ = whole({topic!r}, {{0: end}}, {{0: end - {third}}})
    rows = sum(batch.num_rows for batch in read_batches(slice_, settings))
    most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(rows, int(most.split()[1]) // 1024)
"""
    sizes = [tuple(map(int, line.split())) for line in run(program).splitlines()]
    assert [rows for rows, _ in sizes] == [third] * 3
    assert sizes[2][1] < min(400, sizes[0][1] + 80)  # each third is 100 MB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the process's size")
def test_a_reader_in_python_stays_below_300_mb_however_skewed_a_topic_is(kafka, topics, records):
    topic, count = topics.create(partitions=32), 100_000
    written = (Record(bytes(4_000), n + 1, n % 32 if n % 33 == 0 else 7) for n in range(count))
    records.produce(topic, written, **{"linger.ms": 50, "queue.buffering.max.messages": 2_000})
    program = f"""
from pathlib import Path
from airflow_provider_orderedkafka.reader import read
with read({kafka.bootstrap_servers!r}, {topic!r}) as batches:
    for batch in batches:
        pass
most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(batches.rows, int(most.split()[1]) // 1024)
"""
    rows, megabytes = map(int, run(program).split())
    assert rows == count
    assert megabytes < 300, "all of it is 400 MB"


def test_a_secret_in_a_large_function_is_in_no_file_of_spark(tmp_path):
    program = f"""
import os
from functools import partial
from pathlib import Path
import pyarrow as pa
from support import quick_java
from airflow_provider_orderedkafka.spark.session.starting import start_session
os.environ.update(quick_java.environment())
asked = "--master local[1] --conf spark.ui.enabled=false --conf spark.log.level=ERROR"
os.environ["PYSPARK_SUBMIT_ARGS"] = asked + " --conf spark.local.dir={tmp_path} pyspark-shell"
session = start_session()
secret = "-".join(["a", "canary", "in", "a", "cage"])
shown = secret.replace("canary", "bird")

def by_rdd(secret, ballast, rows):
    yield len(ballast)

def by_frame(secret, ballast, batches):
    list(batches)
    yield pa.RecordBatch.from_pylist([{{"n": len(ballast)}}])

large = os.urandom(2_000_000)
session.sparkContext.parallelize([0], 1).mapPartitions(partial(by_rdd, secret, large)).collect()
session.range(0, 1, 1, 1).mapInArrow(partial(by_frame, secret, large), "n long").collect()
session.sparkContext.broadcast(shown)
files = [path.read_bytes() for path in Path("{tmp_path}").rglob("*") if path.is_file()]
print(*(sum(word.encode() in file for file in files) for word in (secret, shown)))
session.stop()
"""
    assert run(program) == "0 1\n"


def test_the_package_is_not_missed_where_it_came_by_py_files(spark, tmp_path, monkeypatch):
    context = spark.sparkContext
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(context, "pythonExec", str(bare))
    monkeypatch.setattr(context, "_python_includes", [])
    with pytest.raises(SettingError, match="--py-files"):
        check_executors(spark)
    context.addPyFile(str(build_bundle(tmp_path / "bundle.zip")))
    with pytest.raises(SettingError, match=r"confluent-kafka .*pyarrow .*numpy"):
        check_executors(spark)
