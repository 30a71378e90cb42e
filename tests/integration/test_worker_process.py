"""What a process that reads, or writes, takes: which packages it imports, and how much memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import Record

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.bundle import build_bundle
from airflow_provider_orderedkafka.spark.executors import check_executors
from airflow_provider_orderedkafka.spark.session import start_session


def run(program):
    """Run a program in a process of its own; what it printed."""
    paths = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=120, env={**os.environ, **paths}, stdout=subprocess.PIPE
    )
    return done.stdout.decode()


def test_reading_does_not_import_pandas(kafka, topics, records):
    topic = topics.create()
    headers = [("a", b"1"), ("b", None)]
    records.produce(topic, [Record(b"x", timestamp=1, headers=headers), Record(None, timestamp=2)])
    program = f"""
import sys
from support.slices import whole
from airflow_provider_orderedkafka.kafka.reader import read_slice
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
settings = ReadSettings({{"bootstrap.servers": {kafka.bootstrap_servers!r}}}, include_headers=True)
(batch,) = read_slice(whole({topic!r}, {{0: 2}}), settings)
assert batch.num_rows == 2
assert "pandas" not in sys.modules
"""
    run(program)


def test_writing_does_not_import_pandas(kafka, topics):
    topic = topics.create()
    columns = {
        "topic": "string",
        "value": "binary",
        "key": "binary",
        "headers": "array<struct<key:string,value:binary>>",
    }
    program = f"""
import sys
import numpy as np
import pyarrow as pa
from airflow_provider_orderedkafka.kafka import buffers
from airflow_provider_orderedkafka.kafka.write_settings import WriteSettings
from airflow_provider_orderedkafka.kafka.writing import plan_write, write
sizes = np.array([1, -1], np.int64)
pairs = pa.struct([("key", pa.string()), ("value", pa.binary())])
header = buffers.structs(pairs, buffers.texts(["a", "b"]), buffers.payloads([b"1", b""], sizes))
rows = {{
    "topic": buffers.repeated({topic!r}, 2),
    "value": buffers.payloads([b"x", b""], sizes),
    "key": buffers.payloads([b"", b"k"], np.array([-1, 1], np.int64)),
    "headers": buffers.lists(pa.list_(pairs), np.array([2, -1], np.int64), header),
}}
settings = WriteSettings({{"bootstrap.servers": {kafka.bootstrap_servers!r}}}, output_topics=({topic!r},))
settings = plan_write(settings, {list(columns.items())!r})
print(write([pa.RecordBatch.from_arrays(list(rows.values()), list(rows))], settings).rows)
buffers.counts(rows=2)
assert "pandas" not in sys.modules
"""
    assert run(program) == "2\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the process's size")
@pytest.mark.parametrize(
    ("value", "headers", "third"),
    [(bytes(1_000), [], 100_000), (b"x", [("trace", bytes(20_000))], 10_000)],
    ids=["large values", "large headers"],
)
def test_a_worker_stays_small_and_does_not_grow_with_the_topic(kafka, topics, records, value, headers, third):
    topic = topics.create()
    written = (Record(value, timestamp=t, headers=headers) for t in range(1, 3 * third + 1))
    records.produce(topic, written, **{"linger.ms": 50, "queue.buffering.max.messages": 2_000})
    program = f"""
from pathlib import Path
from support.slices import whole
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.spark.reading import read_batches
settings = ReadSettings({{"bootstrap.servers": {kafka.bootstrap_servers!r}}}, include_headers=True)
for end in ({third}, {2 * third}, {3 * third}):
    slice_ = whole({topic!r}, {{0: end}}, {{0: end - {third}}})
    rows = sum(batch.num_rows for batch in read_batches(slice_, settings))
    most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(rows, int(most.split()[1]) // 1024)
"""
    sizes = [tuple(map(int, line.split())) for line in run(program).splitlines()]
    assert [rows for rows, _ in sizes] == [third] * 3
    assert sizes[2][1] < min(300, sizes[0][1] + 40)


def test_a_secret_in_a_large_function_is_in_no_file_of_spark(tmp_path):
    program = f"""
import os
from functools import partial
from pathlib import Path
import pyarrow as pa
from support import quick_java
from airflow_provider_orderedkafka.spark.session import start_session
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


@pytest.mark.parametrize(("writing", "ready"), [("config", 1), ("None", 0)])
def test_a_process_that_read_is_ready_to_write_where_a_batch_follows(kafka, writing, ready):
    program = f"""
from airflow_provider_orderedkafka.kafka.producer import POOL
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.spark.frames import _read
config = {{"bootstrap.servers": {kafka.bootstrap_servers!r}}}
assert list(_read([], ReadSettings(config), {writing}, None, iter(()))) == []
print(len(POOL))
"""
    assert run(program) == f"{ready}\n"


def test_dataframes_run_in_the_worker_processes_that_tasks_before_them_have_started(spark):
    session = start_session()
    assert session is spark

    def parent(batches):
        from airflow_provider_orderedkafka.kafka import buffers

        for _ in batches:
            yield buffers.counts(parent=os.getppid())

    of_tasks = session.sparkContext.parallelize([0], 1).map(lambda _: os.getppid()).collect()
    of_frames = [row.parent for row in session.range(1, numPartitions=1).mapInArrow(parent, "parent long").collect()]
    assert of_frames == of_tasks


def test_a_daemon_of_workers_starts_no_thread_by_what_it_imports(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as Spark sets it
    program = """
import os, sys
from airflow_provider_orderedkafka.spark.worker_daemon import NEEDED, imported
imported()
assert {*NEEDED, "confluent_kafka", "numpy", "pyarrow"} <= set(sys.modules)
assert "pandas" not in sys.modules
print(len(os.listdir("/proc/self/task")))
"""
    assert run(program) == "1\n"


def test_workers_of_one_daemon_draw_different_numbers():
    program = """
import numpy.random as random, os
from airflow_provider_orderedkafka.spark.worker_daemon import imported
random.seed(1)
imported()
for _ in range(2):
    if os.fork() == 0:
        print(random.random(), flush=True)
        os._exit(0)
    os.wait()
"""
    first, second = run(program).splitlines()
    assert first != second


def test_workers_of_a_local_session_have_what_they_need_before_their_first_task(tmp_path):
    program = """
import os, sys
from pathlib import Path
from airflow_provider_orderedkafka.spark.session import LazySession

def look(_):
    import pyspark
    yield Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\\0")[2], pyspark.__file__, "pyarrow" in sys.modules

spark = LazySession()
context = spark.started().sparkContext
((daemon, pyspark, loaded),) = context.parallelize([0], 1).mapPartitions(look).collect()
assert daemon == "airflow_provider_orderedkafka.spark.worker_daemon", daemon
assert ".zip" not in pyspark, pyspark
assert loaded
spark.stop()
"""
    script = tmp_path / "look.py"
    script.write_text(program)
    submit = Path(sys.executable).parent / "spark-submit"
    settings = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", script]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, **settings}, cwd=tmp_path)


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
    with pytest.raises(SettingError, match="has no airflow_provider_orderedkafka: ship it with --py-files"):
        check_executors(spark)
    context.addPyFile(str(build_bundle(tmp_path / "bundle.zip")))
    with pytest.raises(SettingError, match="has no confluent-kafka and pyarrow and numpy"):
        check_executors(spark)
