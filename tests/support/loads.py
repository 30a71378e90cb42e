"""Ranges that applications in processes of their own load, attempt after attempt, and what lies beside them."""

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_orderedkafka.audit.auditing import Audit
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState
from support.audited import audit_of, prove
from support.children import Moment, Submitted
from support.outputs import by_key, by_nothing, by_partition
from support.quick_java import OURS
from support.records import Record, Seen

START = 1_700_000_000_000
PARTITIONS = 4
FRAMES = ("--sink-option", "writers=3", "--transform", "support.transforms:unchanged")


@dataclass(frozen=True)
class Way:
    """How rows go and what they come to: the lane that a run says, how many each record gives, what keeps its order."""

    argv: tuple[str, ...]
    lane: str = "DataFrame lane"
    each_gives: int = 1
    keeps: Callable[[Seen], object] = by_key


def sink(**options: object) -> tuple[str, ...]:
    return tuple(part for name, value in options.items() for part in ("--sink-option", f"{name}={value}"))


WAYS = {
    "direct": Way((), "direct lane"),
    "direct, in no order": Way(sink(keepOrder="none"), "direct lane", keeps=by_nothing),
    "by key": Way(FRAMES),
    "by one writer": Way(("--transform", "support.transforms:unchanged")),
    "by partition": Way((*FRAMES, *sink(keepOrder="partition")), keeps=by_partition),
    "in no order": Way((*FRAMES, *sink(keepOrder="none")), keeps=by_nothing),
    "three rows for a record": Way((*sink(writers=3), "--transform", "support.transforms:tripled"), each_gives=3),
}

EXACTLY_ONCE = sink(guarantee="exactly_once")
GUARANTEES = ["at least once", "exactly once"]

LANES: dict[str, tuple[str, ...]] = {"direct lane": (), "DataFrame lane": FRAMES}
"""How each lane is asked for, by its name in what an application says."""

DIRECT_FIRST = ["direct lane", pytest.param("DataFrame lane", marks=pytest.mark.nightly)]
"""Both lanes, the second of them where there is more time."""


def events(count: int, seed: int, size: int = 200) -> list[Record]:
    """Records whose keys are where librdkafka's producers put them, so that a copy can go directly; some come late."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        key = chance.randrange(200)
        late = chance.randrange(5_000) if chance.random() < 0.05 else 0
        value = f"{number}:".encode().ljust(size, b".")
        name = b"key-%d" % key
        found.append(Record(value, START + number * 3 - late, zlib.crc32(name) % PARTITIONS, name))
    return found


class Load:
    """One range that is to be loaded, and the files that show how far it is."""

    def __init__(self, servers: str, folder: Path, loaded: Range, *argv: str, home: Path = OURS, **how: Any) -> None:
        self.servers, self.folder, self._home = servers, folder, home
        self.checkpoint = folder / "checkpoint"
        self._how = how
        (folder / "range.json").write_text(loaded.to_text())
        self._argv = ["--range", str(folder / "range.json"), "--checkpoint", str(self.checkpoint)]
        self._argv += ["--option", f"kafka.bootstrap.servers={servers}", *argv]

    def start(self, hold: Moment | None = None, argv: tuple[str, ...] = (), home: Path | None = None) -> Submitted:
        """Another attempt, with more arguments; held at a moment, where one is given."""
        return Submitted([*self._argv, *argv], self.folder / "log", hold=hold, home=home or self._home, **self._how)

    def finish(self, *argv: str) -> Report:
        """Run it to its end."""
        application = self.start(argv=argv)
        assert application.wait() == 0, application.log()[-3000:]
        return self.report()

    def finish_here(self, *argv: str, **how: Any) -> Report:
        """Run it to its end with the Spark that this process has, which takes less time."""
        report = run_available_now(argv=[*self._argv, *argv], **how)
        assert report is not None
        return report

    def ending_here(self, *argv: str, **how: Any) -> object:
        """The exit code of an attempt with the Spark that this process has."""
        try:
            self.finish_here(*argv, **how)
        except SystemExit as ended:
            return ended.code
        return 0

    def report(self) -> Report:
        """The report beside the checkpoint."""
        report = Checkpoint(LocalState(self.checkpoint)).report()
        assert report is not None
        return report

    def audit(self) -> Audit:
        """What an audit says of it."""
        return audit_of(self.servers, self.checkpoint)

    def prove(self) -> None:
        """What was loaded is in its output as it was promised."""
        prove(self.servers, self.checkpoint)

    def complete(self) -> bool:
        """Whether there is a report of success."""
        return self.there("report.json")()

    def there(self, name: str) -> Callable[[], bool]:
        """Whether this file is there."""
        return (self.checkpoint / name).exists

    def stage(self) -> str:
        """How far the files say it is: what a kill at this moment interrupts."""
        if self.complete():
            return "after the report"
        if self.there("failure.json")():
            return "after a failure"
        noted, counted = self.newest("notes"), self.newest("counts")
        if noted > counted:
            return "between a note and its counts"
        if counted:
            return "between two batches"
        return "before the first note" if self.there("lease")() else "before the lease"

    def newest(self, folder: str) -> int:
        """The newest batch of those that are noted, or counted; 0 where none is."""
        return max((int(path.parent.name) for path in (self.checkpoint / folder).glob("*/*.json")), default=0)
