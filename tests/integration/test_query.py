"""The streaming query of a load, as Spark shows it to whoever looks: in both lanes, batch after batch."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from support.applications import Application, events, lane_of, source_and_output
from support.loop import Before, World, Writer
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.compat.spark import OWN_STOP, be_interrupted
from airflow_provider_orderedkafka.core.batches import Batch, Note, Tally
from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.application import attempt
from airflow_provider_orderedkafka.spark.application import report as reporting
from airflow_provider_orderedkafka.spark.application.batch_loop import Plan
from airflow_provider_orderedkafka.spark.application.query import METRICS, Query
from airflow_provider_orderedkafka.spark.lanes.engine import Engine
from airflow_provider_orderedkafka.spark.session.starting import LazySession, in_background
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.table_sink import table_sink
from airflow_provider_orderedkafka.storage import LocalState

pytestmark = pytest.mark.versions

LANES = {"direct": None, "frames": lambda frame: frame}
ONE_WRITER = ("--sink-option", "writers=1")
"""Then what has no transform takes the direct lane."""


class Listener(StreamingQueryListener):
    """Keeps what Spark tells of queries."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.batches: list[tuple[int, int, int]] = []
        self.errors: list[str | None] = []

    def onQueryStarted(self, event: Any) -> None:
        self.names.append(event.name)

    def onQueryProgress(self, event: Any) -> None:
        if found := event.progress.observedMetrics.get(METRICS):
            self.batches.append((found.batch, found.planned_offsets, found.offsets_left))

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.errors.append(event.exception)

    def wait(self, queries: int) -> None:
        """Until so many queries have ended: a listener hears of them a moment later."""
        deadline = monotonic() + 30
        while len(self.errors) < queries and monotonic() < deadline:
            sleep(0.05)


@pytest.fixture
def listener(spark: Any) -> Iterator[Listener]:
    found = Listener()
    spark.streams.addListener(found)
    yield found
    spark.streams.removeListener(found)


@pytest.mark.parametrize("lane", LANES)
def test_a_listener_of_queries_sees_each_batch_what_it_spans_and_what_is_left(
    app: Application, topics: Topics, records: Records, spark: Any, listener: Listener, lane: str
) -> None:
    source, output = source_and_output(topics, records, 70)
    app.load(
        whole_range(app.servers, source, batch_offsets=30), "--output-topic", output, *ONE_WRITER, transform=LANES[lane]
    )
    listener.wait(1)
    assert listener.names == ["orderedkafka: range r1"]
    assert listener.batches == [(1, 30, 40), (2, 30, 10), (3, 10, 0)]
    assert listener.errors == [None]
    assert not spark.streams.active


@pytest.mark.parametrize("lane", LANES)
def test_a_long_range_is_several_queries_in_turn_and_nothing_of_them_stays(
    app: Application,
    topics: Topics,
    records: Records,
    listener: Listener,
    lane: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(attempt, "Plan", partial(Plan, at_once=2))
    source, output = source_and_output(topics, records, 50)
    app.load(
        whole_range(app.servers, source, batch_offsets=10), "--output-topic", output, *ONE_WRITER, transform=LANES[lane]
    )
    listener.wait(3)
    assert [batch for batch, _, _ in listener.batches] == [1, 2, 3, 4, 5]
    assert len(listener.names) == 3
    out = capsys.readouterr().out
    assert (lane_of(out) == "direct") == (lane == "direct")
    said = [line.split(":")[0] for line in out.splitlines() if line.startswith("batch ")]
    assert said == [*(f"batch {n} of about 5" for n in range(1, 5)), "batch 5 of 5"]
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert app.left() == ["report.json"]


@pytest.fixture(scope="module")
def long_topic(records: Records) -> str:
    """A topic whose batch takes long, written once."""
    name = Topics(records.servers, "long").create(partitions=3)
    records.produce(name, events(250_000, 1))
    return name


@pytest.mark.parametrize("way", [*LANES, "table"])
def test_a_batch_that_takes_long_says_how_many_rows_of_it_are_done(
    app: Application,
    topics: Topics,
    long_topic: str,
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def slow(batch: Any) -> Any:
        sleep(batch.num_rows / 20_000)
        return batch

    def slowly(frame: Any) -> Any:
        return frame.mapInArrow(lambda batches: map(slow, batches), frame.schema)

    monkeypatch.setattr(reporting, "SILENCE", 300)
    monkeypatch.setattr(reporting, "LOOK_SECONDS", 0.1)
    put_counts = Checkpoint.put_counts
    monkeypatch.setattr(Checkpoint, "put_counts", lambda *counted: (sleep(0.5), put_counts(*counted)))
    table = f"parquet:{tmp_path / 'orders'}"
    output = ("--output", table) if way == "table" else ("--output-topic", topics.create("out", 2))
    how: dict[str, Any] = {"arrow_transform": slow} if way == "direct" else {"transform": slowly}
    if way == "table":
        how["sink"] = table_sink
    app.load(whole_range(app.servers, long_topic), *output, **how)
    out = capsys.readouterr().out
    assert re.search(r"^range r1: 250,000 offsets; Spark is starting$", out, re.MULTILINE)
    check_moves(out)


def check_moves(out: str) -> None:
    """What was said of one batch while it ran rises, with its rows, their rate and the time that is left."""
    reported = [found for line in out.splitlines() if (found := Progress.of_line(line)) is not None and found.running]
    done = [each.offsets_done for each in reported]
    assert done == sorted(done)
    between = [each for each in reported if 0 < each.share < 1]
    assert len({each.offsets_done for each in between}) > 1, out
    for each in between:
        assert each.rows_read >= each.offsets_done
        assert each.rows_per_second > 0
        assert each.seconds_left is not None


def test_files_that_spark_takes_in_another_order_change_nothing(
    app: Application, topics: Topics, records: Records, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    date = LocalState.date
    monkeypatch.setattr(LocalState, "date", lambda state, name, seconds: date(state, name, -seconds))
    source, output = source_and_output(topics, records, 40)
    report = app.load(whole_range(app.servers, source, batch_offsets=10), "--output-topic", output)
    listener.wait(1)
    assert [batch for batch, _, _ in listener.batches] == [4, 3, 2, 1]
    assert (report.batches, report.rows_emitted) == (4, 40)
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS


@pytest.mark.parametrize("lane", LANES)
def test_a_loss_is_told_in_our_words_is_mended_by_no_retry_and_no_batch_comes_after_it(
    app: Application, topics: Topics, records: Records, listener: Listener, capfd: pytest.CaptureFixture[str], lane: str
) -> None:
    source, output = source_and_output(topics, records, 60)
    loaded = whole_range(app.servers, source, batch_offsets=20)
    records.delete_before(source, {0: 5})
    with pytest.raises(SystemExit) as caught:
        app.load(loaded, "--output-topic", output, *ONE_WRITER, transform=LANES[lane])
    assert caught.value.code == 65
    listener.wait(len(listener.names))  # the direct lane ends before its query begins
    assert [batch for batch, _, _ in listener.batches] in ([], [1])
    failed = Report.from_text((app.checkpoint / "failure.json").read_text())
    assert (failed.complete, failed.rows_emitted, failed.stop) == (False, 0, loaded.start)
    said = capfd.readouterr().err
    assert f"{source}[0]@" in said
    assert "MicroBatchExecution" not in said
    assert "StreamingQueryException" not in said


@pytest.fixture
def app(kafka: Any, spark: Any, tmp_path: Path) -> Application:
    """A folder whose name means something to those who read patterns or addresses."""
    return Application(kafka.bootstrap_servers, tmp_path / "of [a] {load}, 100%25 *?")


@dataclass
class Failing(Writer):
    """Fails after its work."""

    work: Callable[[], object] = lambda: None
    begun: Event = field(default_factory=Event)

    def write(self, batch: Batch, note: Note, before: Before | None) -> Tally:
        self.begun.set()
        self.work()
        raise SettingError("told to end")


def in_python(_spark: Any, seconds: float) -> None:
    sleep(seconds)


def heedless(spark: Any, seconds: float) -> None:
    """Work in Spark that takes every interruption for its own."""
    end = monotonic() + seconds
    while monotonic() < end:
        with suppress(Py4JJavaError):
            spark._jvm.java.lang.Thread.sleep(100)


@pytest.mark.parametrize(
    ("work", "writes", "stops"),
    [(in_python, 1, 0), (in_python, 0, 1), (heedless, 1, 0)],
    ids=["the batch", "the stop", "heedless work in Spark"],
)
def test_however_long_a_stopped_query_takes_spark_sees_it_end_well_and_no_batch_that_was_not_loaded(
    spark: Any,
    listener: Listener,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Any, float], None],
    writes: float,
    stops: float,
) -> None:
    stop = StreamingQuery.stop
    monkeypatch.setattr(StreamingQuery, "stop", lambda query: (sleep(stops), stop(query)))
    writer = Failing(work=lambda: work(spark, writes))
    world = replace(World.at(tmp_path), writer=writer)
    loop, session = world.loop(), LazySession()
    frames: Any = SimpleNamespace(loaded=world.loaded, engine=Engine(session))
    query = Query(frames, world.checkpoint)
    running = in_background(lambda: loop.run(query.run))
    assert writer.begun.wait(30)
    loop.stop()
    query.stop(30)
    running.result(30)
    listener.wait(1)
    assert (listener.errors, listener.batches) == ([None], [])


def test_spark_knows_its_own_stop_by_a_text_that_does_not_overflow_its_stack(spark: Any) -> None:
    with pytest.raises(InterruptedError) as caught:
        be_interrupted()
    text = "".join(format_exception(caught.value))
    jvm, sql = spark._jvm, "org.apache.spark.sql.execution.streaming"
    names = [f"{sql}.runtime.StreamExecution", f"{sql}.StreamExecution"]  # from 4.1 on, and before
    (query,) = [found for name in names if isinstance(found := getattr(jvm, name), JavaClass)]
    assert query.isInterruptionException(jvm.py4j.Py4JException(text), spark.sparkContext._jsc.sc())
    assert len(text.partition(OWN_STOP[:50])[2]) < 100
