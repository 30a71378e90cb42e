"""Upserts into Delta: whose tables are right after what users reported of such tables, and what upserts cost.

    python -m benchmarks.upserts                      both: 2 million changes into a new table, 1 % of 10 million rows
    python -m benchmarks.upserts --only histories
    python -m benchmarks.upserts --only costs --changes 200000 --rows 200000 --runs 1

Ours is a load by hand. The others read the same topic in micro-batches: `row_number()` and a MERGE without a guard, as
one writes it by hand, and the engine of Spark's AUTO CDC, called as its pipelines call it, behind the check by which
they refuse Delta; by the record's time, by time, partition and offset, and by the order of our source. All tables have
deletion vectors. In the costs a key stays in its partition and times rise, so all are right: each table is checked
before a time is printed. All take turns at being the first; the first turn warms up.
"""

import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_provider_orderedkafka.core.codec import encode
from airflow_provider_orderedkafka.outputs import DeltaOutput
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.app import run_available_now
from benchmarks.data import BASE
from benchmarks.peers import options, session
from benchmarks.processor import processor
from benchmarks.tables import LAKES, ROOT
from broker import LocalKafka

sys.path.insert(0, str(ROOT / "tests"))
from support.histories import HISTORIES, History, runs, side_by_side
from support.records import Records
from support.topics import Topics
from support.upserts import Upserts, recorded

COLUMNS = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
COLUMNS |= {"timestamp": "timestamp"}
VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
PARTITIONS, BATCHES, SIZE, OURS = 8, 4, 100, "orderedkafka"
TO_CHANGE = 100
"""One row in so many."""


def by_row_number(batch: DataFrame, table: str) -> None:
    """The newest change of each key of a batch, merged as it comes."""
    if not batch.sparkSession.catalog.tableExists(table):
        _create(batch, table, batch.schema.simpleString()[7:-1].replace(":", " "))
    newest = "row_number() OVER (PARTITION BY key ORDER BY timestamp DESC)"
    batch.withColumn("n", f.expr(newest)).where("n = 1").drop("n").createOrReplaceTempView("newest")
    batch.sparkSession.sql(
        f"MERGE INTO {table} t USING newest s ON t.key = s.key WHEN MATCHED AND s.value IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.value IS NOT NULL THEN INSERT *"
    )


def by_auto_cdc(sequence: str) -> Callable[[DataFrame, str], None]:
    """What a pipeline's flow does with each of its micro-batches, its tables made as it makes them."""

    def merge(batch: DataFrame, table: str) -> None:
        jvm = batch.sparkSession._jvm
        assert jvm is not None
        cdc, some, none = jvm.org.apache.spark.sql.pipelines.autocdc, jvm.scala.Option.apply, jvm.scala.Option.empty()
        keys = jvm.scala.jdk.javaapi.CollectionConverters.asScala([cdc.UnqualifiedColumnName("key")]).toSeq()
        kind, deleted = _object(jvm, "ScdType$Type1"), some(f.expr("value IS NULL")._jc)
        args = cdc.ChangeArgs(keys, f.expr(sequence)._jc, kind, deleted, none)
        sequences = batch.select(f.expr(sequence))._jdf.schema().apply(0).dataType()
        if not batch.sparkSession.catalog.tableExists(table):
            made = _object(jvm, "Scd1BatchProcessor")
            own = f"{made.cdcMetadataColName()} {made.cdcMetadataColSchema(sequences).sql()}"
            _create(batch, table, f"{batch.schema.simpleString()[7:-1].replace(':', ' ')}, {own}")
            _create(batch, f"{table}_aux", f"key binary, {own}")
        target, aux = (jvm.org.apache.spark.sql.catalyst.TableIdentifier(n, some("default")) for n in _both(table))
        cdc.Scd1ForeachBatchHandler(cdc.Scd1BatchProcessor(args, sequences), aux, target).execute(batch._jdf, 0)

    return merge


def _both(table: str) -> tuple[str, str]:
    return table, f"{table}_aux"


def _create(batch: DataFrame, table: str, columns: str) -> None:
    batch.sparkSession.sql(f"CREATE TABLE {table} ({columns}) USING delta {VECTORS}")


def _object(jvm: Any, name: str) -> Any:
    """A Scala object of AUTO CDC."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.loadClass(f"org.apache.spark.sql.pipelines.autocdc.{name}$").getField("MODULE$").get(None)


class Peer(NamedTuple):
    """What merges a micro-batch, and the source that it is read from."""

    merge: Callable[[DataFrame, str], None]
    source: str = "kafka"

    @property
    def columns(self) -> list[str]:
        return [*COLUMNS, "order_time"] if self.source == OURS else [*COLUMNS]


BY_HAND, BY_POSITION = "row_number() + MERGE", "AUTO CDC, time, partition, offset"
PEERS = {
    BY_HAND: Peer(by_row_number),
    "AUTO CDC, time": Peer(by_auto_cdc("timestamp")),
    BY_POSITION: Peer(by_auto_cdc("struct(timestamp, partition, offset)")),
    "AUTO CDC, order of orderedkafka": Peer(by_auto_cdc("struct(order_time, topic, partition, offset)"), OURS),
}


@dataclass(frozen=True)
class Place:
    """Where all read, and where they write."""

    spark: SparkSession
    folder: Path
    servers: str

    def asked(self, topic: str, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers, "subscribe": topic, "startingOffsets": "earliest", **more}

    def stream(self, peer: Peer, topic: str, table: str, batch: int, *, die: bool = False) -> None:
        """One run of what is new; it may die when it has merged its first batch."""
        rows = self.spark.readStream.format(peer.source).options(**self.asked(topic, maxOffsetsPerTrigger=str(batch)))

        def merge(batch: DataFrame, _number: int) -> None:
            peer.merge(batch, table)
            if die:
                raise ConnectionError("killed")

        query = rows.load().select(*peer.columns).writeStream.foreachBatch(merge).trigger(availableNow=True)
        with contextlib.suppress(StreamingQueryException) if die else contextlib.nullcontext():
            query.option("checkpointLocation", str(self.folder / table)).start().awaitTermination()

    def live(self, name: str, histories: list[History]) -> list[tuple[str, str]]:
        """What the table of a peer has after histories of one kind."""
        peer, records, topic = PEERS[name], Records(self.servers), new_topic(self.servers, 2)
        table, ends, then = f"t_{uuid4().hex}", [], histories[0].then
        each_run = runs(histories)
        for number, changes in enumerate(each_run, 1):
            records.produce(topic, map(recorded, changes))
            ends.append(records.ends(topic))
            if then == "killed" and number == len(each_run):
                self.stream(peer, topic, table, histories[0].batch, die=True)
            self.stream(peer, topic, table, histories[0].batch)
        if then == "replayed":
            first = self.spark.read.format(peer.source)
            first = first.options(**self.asked(topic, endingOffsets=json.dumps({topic: ends[0]})))
            peer.merge(first.load().select(*peer.columns), table)
        found = self.spark.sql(f"SELECT decode(key, 'utf-8') AS key, decode(value, 'utf-8') AS value FROM {table}")
        return [(row["key"], row["value"]) for row in found.collect()]


def new_topic(servers: str, partitions: int) -> str:
    return Topics(servers, "upserts").create("changes", partitions)


@contextlib.contextmanager
def opened(servers: str) -> Iterator[Place]:
    lake = LAKES["delta"]
    more = {"spark.jars.packages": lake.package, "spark.sql.shuffle.partitions": "2"}
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder), lake.pyspark, {**lake.settings, **more})
        register(spark)
        yield Place(spark, Path(folder), servers)
        spark.stop()


def ours(servers: str) -> Callable[[list[History]], list[tuple[str, str]]]:
    """What our table has after histories of one kind, in the process that the tests of upserts use."""
    from support.lake import Lake
    from support.table_formats import DELTA

    lake = Lake(Path(tempfile.mkdtemp()), DELTA)

    def live(histories: list[History]) -> list[tuple[str, str]]:
        folder = Path(tempfile.mkdtemp(dir=lake.folder))
        upserts = Upserts(lake, servers, folder, new_topic(servers, 2), **histories[0].output)
        upserts.live(histories, Records(servers))
        return upserts.values()

    return live


def tell_histories(place: Place) -> None:
    """Say who is right."""
    lives = {name: partial(place.live, name) for name in PEERS}
    for name, live in {**lives, OURS: ours(place.servers)}.items():
        wrong = []
        for histories in side_by_side():
            values = live(histories)
            wrong += [(each, each.of(values)) for each in histories if each.of(values) != sorted(each.right.items())]
        print(f"  {name:34} {len(HISTORIES) - len(wrong)} of {len(HISTORIES)} right", flush=True)
        for history, found in wrong:
            print(f"    {history.name} ({history.report}): {found}, not {sorted(history.right.items())}")


class Cost(NamedTuple):
    """How long it took, and how much of the processor, broker and all."""

    seconds: float
    processor: float


def application(place: Place, topic: str, table: str, batch: int) -> None:
    """Ours, as it is run without Airflow."""
    asked = place.asked(topic, maxOffsetsPerTrigger=str(batch))
    argv = [part for item in asked.items() for part in ("--option", "=".join(item))]
    output = json.dumps(encode(DeltaOutput(str(place.folder / f"{table}_there"), upsert=("key",))))
    with contextlib.redirect_stdout(io.StringIO()):
        run_available_now(argv=[*argv, "--checkpoint", str(place.folder / table), "--output", output])


def contend(place: Place, name: str, topic: str, table: str, batch: int) -> Cost:
    os.sync()  # what others have left to be written is not this one's
    begun, worked = time.perf_counter(), processor()
    if name == OURS:
        application(place, topic, table, batch)
    else:
        place.stream(PEERS[name], topic, table, batch)
    return Cost(time.perf_counter() - begun, processor() - worked)


def check(place: Place, name: str, table: str, last: Mapping[int, int]) -> None:
    """See that the table has, of each key, the number of its last change."""
    where = f"delta.`{place.folder / f'{table}_there'}`" if name == OURS else table
    number = "CAST(split(decode(value, 'utf-8'), ' ')[0] AS BIGINT)"
    [found] = place.spark.sql(
        f"SELECT count(*), sum(hash(CAST(decode(key, 'utf-8') AS BIGINT), {number})) FROM {where}"
    ).collect()
    pairs = place.spark.createDataFrame(list(last.items()), "key bigint, number bigint")
    [right] = pairs.selectExpr("count(*)", "sum(hash(key, number))").collect()
    assert tuple(found) == tuple(right), f"{name}: {found}, and {right} is right"


def produce(servers: str, topic: str, keys: Iterator[int], begin: int, last: dict[int, int]) -> int:
    """Write a change of each key given, in the partition of its key; return the next number."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 500_000})
    number = begin
    for number, key in enumerate(keys, begin):
        value = (b"%d " % number).ljust(SIZE, b"x")
        while True:
            try:
                producer.produce(topic, value, b"%d" % key, key % PARTITIONS, timestamp=BASE + number // 4)
                break
            except BufferError:
                producer.poll(0.05)
        last[key] = number
    producer.flush()
    return number + 1


def contenders(turn: int) -> list[str]:
    names = [OURS, BY_HAND, BY_POSITION]
    return names[turn % len(names) :] + names[: turn % len(names)]


def tell_new(place: Place, changes: int, turns: int) -> None:
    """What it costs to merge changes, ten of each key, into a table that is not there yet."""
    topic, last, taken = new_topic(place.servers, PARTITIONS), {}, {name: [] for name in contenders(0)}
    produce(place.servers, topic, (number * 7_919 % (changes // 10) for number in range(changes)), 0, last)
    for turn in range(turns + 1):
        for name in contenders(turn):
            table = f"t_{uuid4().hex}"
            taken[name].append(contend(place, name, topic, table, changes // BATCHES + PARTITIONS))
            check(place, name, table, last)
    tell(f"{changes:,} changes of {changes // 10:,} keys into a new table, {BATCHES} batches", taken)


def tell_there(place: Place, rows: int, turns: int) -> None:
    """What it costs to change a few of the rows of a table."""
    topic, last, tables = new_topic(place.servers, PARTITIONS), {}, {name: f"t_{uuid4().hex}" for name in contenders(0)}
    taken: dict[str, list[Cost]] = {name: [] for name in tables}
    number = produce(place.servers, topic, iter(range(rows)), 0, last)
    for name, table in tables.items():
        contend(place, name, topic, table, rows // BATCHES + PARTITIONS)
    for turn in range(turns + 1):
        changed = (key * TO_CHANGE + turn for key in range(rows // TO_CHANGE))
        number = produce(place.servers, topic, changed, number, last)
        for name in contenders(turn):
            taken[name].append(contend(place, name, topic, tables[name], rows))
            check(place, name, tables[name], last)
    tell(f"{rows // TO_CHANGE:,} changes of as many keys in a table of {rows:,} rows", taken)


def tell(what: str, taken: dict[str, list[Cost]]) -> None:
    print(f"{what}; {LAKES['delta'].package}, {len(taken[OURS]) - 1} runs")
    medians = {name: Cost(*map(statistics.median, zip(*costs[1:], strict=True))) for name, costs in taken.items()}
    for name, (_, *costs) in taken.items():
        spread, (seconds, worked), peer = [each.seconds for each in costs], medians[name], medians[BY_HAND]
        print(
            f"  {name:34} {seconds:6.1f} s ({min(spread):.1f} to {max(spread):.1f}), processor {worked:6.1f} s; "
            f"{seconds / peer.seconds:.2f} of {BY_HAND!r} (processor {worked / peer.processor:.2f})",
            flush=True,
        )


def main() -> None:
    parser = options(__doc__, 3)
    parser.add_argument("--only", choices=("histories", "costs"))
    parser.add_argument("--changes", type=int, default=2_000_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as work,
        LocalKafka(Path(work) / "kafka") as broker,
        opened(broker.bootstrap_servers) as place,
    ):
        if given.only != "costs":
            tell_histories(place)
        if given.only != "histories":
            tell_new(place, given.changes, given.runs)
            tell_there(place, given.rows, given.runs)


if __name__ == "__main__":
    main()
