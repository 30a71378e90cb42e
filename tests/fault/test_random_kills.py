"""Applications that are killed with -9 at random, again and again: every row once, in order, up to the limit.

Each seed is one load: its lane, its limit, its batches, and one or two kills. A kill comes at a moment in the code of
the driver or of a worker, or at any time at all; it takes the whole machine, the driver alone, or the workers alone.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from support.children import Moment, Submitted
from support.loads import LANES, PARTITIONS, Load, events
from support.outputs import FLAWLESS, check, expected_of
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

SEEDS = 32
SIDE_BY_SIDE = 2
RECORDS = 1_200
SIGNS = ("lease", "setup.json", "notes/1.json", "counts/1.json", "notes/2.json", "counts/2.json")
SECONDS = 0.7
"""A kill at any time comes within so many seconds after one of these files is there."""

DRIVER = {
    "spark/state.py:put": 16,
    "spark/state.py:_write": 16,
    "spark/state.py:delete": 12,
    "spark/batches.py:_run": 6,
}
WORKER = {"kafka/sending.py:send": 4, "kafka/sending.py:settle": 4, "kafka/writing.py:write": 4}
"""The functions at whose calls and returns kills come, and up to the how manieth time."""


ENDINGS = (0, 75, -9)
"""Done, to be run again, killed: nothing that a person would have to decide."""


@dataclass
class Kills:
    """What was killed when, for people to read."""

    chance: random.Random
    told: list[str] = field(default_factory=list)

    def attempt(self, load: Load) -> None:
        """One attempt, killed at random where it does not end before."""
        moment = self._moment()
        application = load.start(moment)
        if moment is None:
            reached = application.until(load.there(self.chance.choice(SIGNS)))
            sleep(self.chance.uniform(0, SECONDS))
        else:
            reached = application.until_held()
        if reached and application.running:
            self._kill(application, load.stage(), moment)
        code = application.wait()
        assert code in ENDINGS, application.log()[-3000:]

    def _moment(self) -> Moment | None:
        places = self.chance.choice([None, DRIVER, WORKER])
        if places is None:
            return None
        function = self.chance.choice(sorted(places))
        return Moment(function, self.chance.choice(["call", "return"]), self.chance.randint(1, places[function]))

    def _kill(self, application: Submitted, stage: str, moment: Moment | None) -> None:
        in_driver = moment is not None and moment.function in DRIVER
        ways = ["kill", "kill_driver", *([] if in_driver else ["kill_workers"])]
        way = self.chance.choice(ways)
        getattr(application, way)()
        self.told.append(f"{stage}: {way} at {moment or 'any time'}")


def run(seed: int, servers: str, topics: Topics, records: Records, folder: Path) -> list[str]:
    """One load under kills, checked; what was killed."""
    chance = random.Random(seed)
    source, output = topics.create("in", PARTITIONS), topics.create("out", 3)
    records.produce(source, events(RECORDS, seed))
    limit = chance.choice([None, chance.randrange(1, RECORDS)])
    loaded = whole_range(servers, source, batch_offsets=chance.choice([200, 400]), rows_left=limit)
    lane = chance.choice(sorted(LANES))
    folder.mkdir()
    load, kills = Load(servers, folder, loaded, "--output-topic", output, *LANES[lane]), Kills(chance)
    for _ in range(chance.choice([1, 1, 1, 2])):
        if not load.complete():
            kills.attempt(load)
    report = load.finish()
    assert f"by the {lane}" in (folder / "log").read_text()
    expected = expected_of(records, source)[: limit or RECORDS]
    assert check(expected, records.read(output)) == FLAWLESS, kills.told
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, len(expected), 0), kills.told
    assert report.limit_spent == (limit is not None)
    assert sorted(path.name for path in load.checkpoint.iterdir()) == ["report.json"]
    return [f"seed {seed}, {lane}, limit {limit}: {told}" for told in kills.told]


@pytest.mark.parametrize("first", range(0, SEEDS, SIDE_BY_SIDE))
def test_a_load_killed_at_random_ends_with_every_row_once_in_order_up_to_its_limit(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, first: int
) -> None:
    servers, seeds = kafka.bootstrap_servers, range(first, first + SIDE_BY_SIDE)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = [pool.submit(run, seed, servers, topics, records, tmp_path / str(seed)) for seed in seeds]
    print(*[line for each in runs for line in each.result()], sep="\n")
