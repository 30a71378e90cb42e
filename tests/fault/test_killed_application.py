"""Applications that are killed with -9, at named points and at random, and run again: nothing lost, nothing doubled."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.children import Submitted
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Range, Report

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

START = 1_700_000_000_000
PARTITIONS = 4


def events(count: int, seed: int) -> list[Record]:
    """Records whose keys stay in their partitions; some come late."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        key = chance.randrange(200)
        late = chance.randrange(5_000) if chance.random() < 0.05 else 0
        value = f"{number}:".encode().ljust(200, b".")
        found.append(Record(value, START + number * 3 - late, key % PARTITIONS, b"key-%d" % key))
    return found


class Load:
    """One range that is to be loaded, and the files that show how far it is."""

    def __init__(self, servers: str, folder: Path, loaded: Range, output: str, *argv: str) -> None:
        self.checkpoint = folder / "checkpoint"
        self.output = output
        self._log = folder / "log"
        (folder / "range.json").write_text(loaded.to_text())
        self._argv = ["--range", str(folder / "range.json"), "--checkpoint", str(self.checkpoint)]
        self._argv += ["--output-topic", output, "--option", f"kafka.bootstrap.servers={servers}", *argv]

    def start(self) -> Submitted:
        """Another attempt."""
        return Submitted(self._argv, self._log)

    def finish(self) -> Report:
        """Run it to its end."""
        application = self.start()
        assert application.wait() == 0, application.log()[-3000:]
        return self.report()

    def report(self) -> Report:
        """The report beside the checkpoint."""
        return Report.from_text((self.checkpoint / "report.json").read_text())

    def there(self, name: str) -> Callable[[], bool]:
        """Whether this file is there."""
        return (self.checkpoint / name).exists


FRAMES = ("--sink-option", "writers=3", "--transform", "support.transforms:unchanged")
LANES: dict[str, tuple[str, ...]] = {"direct": (), "frames": FRAMES}


def written(records: Records, output: str) -> int:
    """How many offsets the output has."""
    return sum(records.ends(output, "read_uncommitted").values())


BATCH = 5_000

POINTS: dict[str, Callable[[Load, Records], Callable[[], object]]] = {
    "before the note": lambda load, _: load.there("spark/offsets/2"),
    "after the note": lambda load, _: load.there("notes/2.json"),
    "in the middle of the write": lambda load, records: lambda: written(records, load.output) > BATCH,
    "after the write": lambda load, records: lambda: written(records, load.output) >= 2 * BATCH,
    "before Spark's commit": lambda load, _: load.there("counts/2.json"),
    "after Spark's commit": lambda load, _: load.there("spark/commits/2"),
}


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("point", POINTS)
def test_a_load_killed_at_a_named_point_is_completed_by_the_next_attempt(  # noqa: PLR0917
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, point: str, lane: str
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(3 * BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, output, *LANES[lane])
    application = load.start()
    assert application.until(POINTS[point](load, records)), application.log()[-3000:]
    application.kill_driver()
    report = load.finish()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert (report.attempt, report.complete, report.rows_emitted, report.may_be_doubled) == (2, True, 3 * BATCH, 0)


@pytest.mark.parametrize("lane", LANES)
def test_a_batch_whose_workers_are_killed_is_run_again_in_the_same_attempt(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, lane: str
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(3 * BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, output, *LANES[lane])
    application = load.start()
    assert application.until(lambda: written(records, output) > BATCH)
    assert application.kill_workers()
    assert application.wait() == 0, application.log()[-3000:]
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert load.report().attempt == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_load_killed_again_and_again_at_random_ends_with_every_row_once_in_order_up_to_its_limit(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    count = 6_000
    records.produce(source, events(count, seed))
    limit = chance.choice([None, chance.randrange(1, count)])
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=700, rows_left=limit)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, output, *LANES[chance.choice(sorted(LANES))])
    kills = 0
    while kills < 6:
        application = load.start()
        begun = application.until(load.there("lease"))
        time.sleep(chance.uniform(0, 6))
        if not begun or not application.running:
            break
        chance.choice([application.kill, application.kill_driver])()
        kills += 1
    report = load.report() if load.there("report.json")() and load.report().complete else load.finish()
    expected = expected_of(records, source)[: limit or count]
    assert check(expected, records.read(output)) == FLAWLESS
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, len(expected), 0)
    assert report.limit_spent == (limit is not None)


def test_an_older_attempt_that_still_lives_stops_and_the_newer_one_completes_the_range(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(20 * BATCH // 10, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=200)
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, output)
    older = load.start()
    assert older.until(load.there("counts/2.json"))
    newer = load.start()
    assert older.wait() == 75
    assert "attempt 1 has to end: attempt 2" in older.log()
    assert newer.wait() == 0
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert load.report().attempt == 2
