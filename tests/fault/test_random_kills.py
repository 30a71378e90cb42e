"""Applications that are killed with -9 at random, again and again: every row once, in order, up to the limit.

Each seed is one load: its lane, its limit, its batches, and one or two kills. A kill comes at a moment in the code of
the driver or of a worker that surely comes, or at any time at all; it takes the whole machine, the driver alone, or the
workers alone.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from support.children import Moment, Submitted
from support.loads import EXACTLY_ONCE, GUARANTEES, PARTITIONS, WAYS, Load, events
from support.outputs import FLAWLESS, check_rows, expected_of
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from airflow_provider_orderedkafka.kafka.write.writing import write
from airflow_provider_orderedkafka.storage import LocalState, _write

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

# Those from `SOONER` on are for the night.
SEEDS = int(os.environ.get("ORDEREDKAFKA_KILLED_LOADS", "32"))
SOONER = 2
SIDE_BY_SIDE = 2
RECORDS = 1_200
SECONDS = 0.7
"""A kill at any time comes within so many seconds after a file is there."""

FIRST = {LocalState.put: 3, _write: 3}
DRIVER = {LocalState.put: 2, _write: 2, LocalState.delete: 6}
WORKER = {PooledProducer.send: 1, PooledProducer.settle: 1, write: 1}
"""The functions at whose calls and returns kills come, and up to the how manieth time from the note of a batch on.

Each of them is called so often, whatever follows; those of `FIRST` from the beginning of an attempt on.
"""


ENDINGS = (0, 75, -9)
"""Done, to be run again, killed: nothing that a person would have to decide."""


@dataclass
class Kills:
    """What was killed when, for people to read."""

    chance: random.Random
    log: list[str] = field(default_factory=list)

    def attempt(self, load: Load, last: int) -> None:
        """One attempt, killed at random; `last` is the batch in which the load ends."""
        batches = range(load.newest("notes") + 1, last + 1)
        moment = self._moment(load, batches)
        application = load.start(moment)
        if moment is None:
            application.until(load.there(self._sign(batches)))
            sleep(self.chance.uniform(0, SECONDS))
        else:
            assert application.until_held(), f"{moment} never came: {application.log()[-3000:]}"
        if application.running:
            self._kill(application, load.stage(), moment)
        code = application.wait()
        assert code in ENDINGS, application.log()[-3000:]

    def _moment(self, load: Load, batches: range) -> Moment | None:
        """A moment that comes: from the note of a batch on that is not noted yet, or from the beginning on."""
        places = self.chance.choice([None, FIRST, DRIVER, WORKER] if batches else [None])
        if places is None:
            return None
        function, event = self.chance.choice([*places]), self.chance.choice(["call", "return"])
        once = "/" if places is FIRST else str(load.checkpoint / f"notes/{self.chance.choice(batches)}")
        return Moment(function, event, self.chance.randint(1, places[function]), once)

    def _sign(self, batches: range) -> str:
        """The file that a kill at any time comes after."""
        noted = [f"notes/{batch}" for batch in batches]
        return self.chance.choice(["lease", "setups", *noted])

    def _kill(self, application: Submitted, stage: str, moment: Moment | None) -> None:
        in_driver = moment is not None and moment.function not in WORKER
        ways = ["kill", "kill_driver", *([] if in_driver else ["kill_workers"])]
        way = self.chance.choice(ways)
        killed = getattr(application, way)()
        assert moment is None or killed != 0, f"no worker was there at {moment}"
        self.log.append(f"{stage}: {way} at {moment or 'any time'}")


def run(
    seed: int, servers: str, topics: Topics, records: Records, folder: Path, guarantee: tuple[str, ...]
) -> list[str]:
    """One load under kills, checked; what was killed."""
    chance = random.Random(seed)
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(RECORDS, seed))
    name, way = chance.choice(sorted(WAYS.items()))
    rows = RECORDS * way.each_gives
    limit = chance.choice([None, chance.randrange(1, rows)])
    each = chance.choice([200, 400])
    loaded = whole_range(servers, source, name=f"r{seed}", batch_offsets=each, rows_left=limit)
    folder.mkdir()
    load, kills = Load(servers, folder, loaded, "--output-topic", output, *way.argv, *guarantee), Kills(chance)
    for _ in range(chance.choice([1, 1, 1, 2])):
        if not load.complete():
            kills.attempt(load, last=-(-(limit or rows) // (each * way.each_gives)))
    report = load.finish()
    assert way.lane in (folder / "log").read_text()
    expected, found = expected_of(records, source), records.read(output)
    assert check_rows(expected, found, way.each_gives, way.keeps, limit) == FLAWLESS, kills.log
    load.prove()
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, limit or rows, 0), kills.log
    assert report.limit_reached == (limit is not None)
    assert sorted(path.name for path in load.checkpoint.iterdir()) == ["report.json"]
    return [f"seed {seed}, {name}, limit {limit}: {line}" for line in kills.log]


@pytest.mark.parametrize("guarantee", [(), pytest.param(EXACTLY_ONCE, marks=pytest.mark.nightly)], ids=GUARANTEES)
@pytest.mark.parametrize(
    "first",
    [
        *range(0, SOONER, SIDE_BY_SIDE),
        *(pytest.param(first, marks=pytest.mark.nightly) for first in range(SOONER, SEEDS, SIDE_BY_SIDE)),
    ],
)
def test_a_load_killed_at_random_ends_with_every_row_once_in_order_up_to_its_limit(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, first: int, guarantee: tuple[str, ...]
) -> None:
    servers, seeds = kafka.bootstrap_servers, range(first, first + SIDE_BY_SIDE)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = [pool.submit(run, seed, servers, topics, records, tmp_path / str(seed), guarantee) for seed in seeds]
    print(*[line for each in runs for line in each.result()], sep="\n")
