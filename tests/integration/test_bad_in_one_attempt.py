"""A record that is bad in one attempt and not in the other, on its way to topics, in both lanes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.applications import Application
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import StateError
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint

COUNT, BAD, EACH_GIVES = 30, 12, 3
LANES = {"direct": ["keepOrder=none"], "DataFrame": ["keepOrder=partition", "writers=2"]}
KEY = b"k"

Attempt = Callable[[], Report]


def tripled(bad_one: Path) -> Any:
    """Three rows of each record, but one record is bad while there is such a file."""

    def transform(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [value for value in batch.column("value").to_pylist() for _ in range(3)]
        made = batch.take(pa.array([row // 3 for row in range(len(values))]))
        errors = ["bad for now" if value == b"12" and bad_one.exists() else None for value in values]
        return made.append_column("_error", pa.array(errors, pa.string()))

    return transform


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def bad_one(tmp_path: Path) -> Path:
    return tmp_path / "bad"


@pytest.fixture
def begun(
    app: Application,
    topics: Topics,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    lane: str,
    bad_one: Path,
) -> Callable[[str, str], Attempt]:
    """Loads a topic but for the end: all has landed, and the attempt dies before it counts. Gives the next attempt."""

    def until_it_counts(output: str, dead: str) -> Attempt:
        source = topics.create("a", 2)
        records.produce(source, [Record(b"%d" % n, 1_700_000_000_000 + n, 0, KEY) for n in range(COUNT)])
        argv = ["--output-topic", output, "--bad-records", "1000", "--dead-letters", dead]
        argv += [f"--sink-option={option}" for option in LANES[lane]]
        load = partial(app.load, whole_range(app.servers, source), *argv, arrow_transform=tripled(bad_one))

        def die(*_: object) -> None:
            raise StateError("it dies before it counts")

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "put_counts", die)
            with pytest.raises(SystemExit):
                load()
        assert f"{lane} lane" in capfd.readouterr().out
        return load

    return until_it_counts


def numbers(records: Records, topic: str) -> list[int]:
    return [int(seen.value or b"-1") for seen in records.read(topic)]


def expected(*without: int) -> list[int]:
    return [number for number in range(COUNT) for _ in range(EACH_GIVES) if number not in without]


def test_a_record_whose_dead_letter_landed_gives_no_row_once_it_is_good(
    begun: Callable[[str, str], Attempt], topics: Topics, records: Records, bad_one: Path
) -> None:
    output, dead = topics.create("out", 2), topics.create("dead")
    bad_one.touch()
    next_attempt = begun(output, dead)
    bad_one.unlink()
    report = next_attempt()
    assert (numbers(records, output), numbers(records, dead)) == (expected(BAD), [BAD])
    assert (report.rows_emitted, report.dead_letters, report.replayed) == (87, 1, 88)
    assert (report.may_be_doubled, report.may_be_out_of_order) == (0, 0)


def test_a_record_whose_rows_landed_is_a_dead_letter_too_once_it_is_bad_and_its_rows_are_counted(
    begun: Callable[[str, str], Attempt], topics: Topics, records: Records, bad_one: Path
) -> None:
    output, dead = topics.create("out", 2), topics.create("dead")
    next_attempt = begun(output, dead)
    bad_one.touch()
    report = next_attempt()
    assert (numbers(records, output), numbers(records, dead)) == (expected(), [BAD])
    assert (report.rows_emitted, report.dead_letters) == (90, 1)
    assert (report.may_be_doubled, report.may_be_out_of_order) == (EACH_GIVES, 0)
