"""A load of one topic with very many partitions, and each step of its road, from the first look to the commit."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle, status
from airflow_provider_orderedkafka.core.batches import (
    SLICE_OFFSETS,
    WINDOW,
    Counts,
    Note,
    Planned,
    Tally,
    size_of,
    window,
)
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Subscription, Topic
from airflow_provider_orderedkafka.core.order.cuts import Span
from airflow_provider_orderedkafka.core.order.marks import LogEnd, Seen, digest
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.core.progress import AttemptStart, progress
from airflow_provider_orderedkafka.core.status import Status, Updater
from airflow_provider_orderedkafka.job import Job, Work
from airflow_provider_orderedkafka.loads import loading, mirror, previews, ranges, resolving
from airflow_provider_orderedkafka.loads.books import Books, in_words
from airflow_provider_orderedkafka.loads.ledger import LedgerStore, store_in
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState
from support.keeping import DictStore, Values
from support.plain import plain_report
from support.runs import MirrorByHand, World
from support.simulated_log import SteadyLog

NAME = "large"
SECONDS = 1_000


class SteadyKafka:
    """A cluster with one topic, which a steady log is."""

    servers = "nowhere:9092"

    def __init__(self, log: SteadyLog) -> None:
        self._log = log

    def discover(self, _: Subscription) -> Discovery:
        """The topic with all its partitions."""
        return Discovery("cluster", (Topic(NAME, "id", len(self._log.partitions), False),), tuple(self._log.partitions))

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Nothing was deleted."""
        return Offsets(dict.fromkeys(partitions, 0))

    def high_ends(self, partitions: Iterable[TopicPartition], _: str) -> Offsets:
        """No transaction is open."""
        return Offsets(dict.fromkeys(partitions, self._log.each))

    def committed(self, _: str, __: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Nothing."""
        return {}

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """There was one election."""
        return dict.fromkeys(partitions, LogEnd(self._log.each, 0))

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Seen]:
        """Each offset has a record."""
        last = {partition: end - 1 for partition, (_, end) in spans.items()}
        return {p: Seen(at, 0, digest(0, at * self._log.every, None, None)) for p, at in last.items()}

    def log(self, _: str) -> SteadyLog:
        """The log itself."""
        return self._log


class Large:
    """The load, its ledger and its first range; each `step` is one that Airflow, an application or a person takes."""

    def __init__(self, partitions: int, each: int, folder: Path) -> None:
        self._folder = folder
        self.log = SteadyLog(partitions, each)
        self.kafka = SteadyKafka(self.log)
        self.now = each * self.log.every + SECONDS * 1_000
        self.load = OrderedLoad(NAME, topics=[NAME], start="earliest", min_offsets=10, grace="0s")
        self.world = World(DictStore())
        self.job = Job(KafkaOutput("copy"))

    @cached_property
    def ledger(self) -> Ledger:
        """Before the first run."""
        first = ranges.first_look(self.kafka, self.load.terms, self.now)
        made = lifecycle.first_look(NAME, instance="i", home_dag="d", place=first.place, topics=first.topics, now=0)
        return replace(made, first_looked_at=0)

    @cached_property
    def range(self) -> Range:
        """All that is there."""
        found = ranges.plan(self.kafka, self.load.terms, self.ledger, now=self.now)
        assert isinstance(found, Range)
        return found

    @cached_property
    def window(self) -> list[Planned]:
        """The first batches."""
        size = size_of(self.range, 500.0)
        ends = Planner(self.log, self.range.span).ends(size.offsets, WINDOW)
        return window(self.range, 1, self.range.start, ends, size)

    @cached_property
    def batch(self) -> Span:
        """The first batch."""
        start, end = self.range.start, self.window[0].end(self.range)
        return Span(start.offsets, end.offsets, start.floor, self.range.latest)

    @cached_property
    def tally(self) -> Tally:
        """What is counted of a batch, with a late record in each partition."""
        once = Offsets(dict.fromkeys(self.log.partitions, 1))
        return Tally(rows_read=self.batch.offsets, late_in=once, read_in=once)

    @cached_property
    def counts(self) -> Counts:
        """Those of the first batch."""
        return Counts(1, self.tally, self.tally.plus(self.tally), 1, self.window[0].end(self.range), False)

    @cached_property
    def report(self) -> Report:
        """What an application says that has loaded all of it."""
        loaded, late = self.range, self.tally.late_in
        sums = {"rows_read": loaded.offsets, "rows_emitted": loaded.offsets, "late": len(late), "late_in": late}
        return plain_report(range=loaded, stop=loaded.end, batches=1, **sums)

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))

    def books(self, store: LedgerStore) -> Books:
        """Those of a run, which keep the ledger there."""
        return replace(self.world.run("d/r").books, store=store)

    # ---- the steps

    def first_look(self) -> object:
        """Where a load begins."""
        return ranges.first_look(self.kafka, self.load.terms, self.now)

    def wait(self) -> Verdict:
        """A look of the trigger."""
        return ranges.verdict(self.kafka, self.load.terms, self.ledger, self.now, known=True)

    def plan_a_range(self) -> object:
        """Where the next range ends."""
        return ranges.plan(self.kafka, self.load.terms, self.ledger, now=self.now)

    def whole_run(self, store: LedgerStore) -> None:
        """Resolve and commit: the ledger is opened, moved and mirrored, range and job are stored."""
        store.save(self.ledger, None)
        books = self.books(store)
        found = resolving.resolve(books, Values(), self.ledger, lambda _: self.range, self.job)
        assert found.range is not None
        begun = loading.load(books, found.range.id, lambda *_: "there", self.job)
        assert begun.range is not None
        self.world.reports["there"] = replace(self.report, range=begun.range)
        done = loading.commit(books, found.range.id, MirrorByHand())
        assert done.ledger is not None
        assert done.ledger.place.offsets == self.range.end.offsets

    def in_airflow(self) -> None:
        """With the ledger in Airflow's store."""
        self.whole_run(LedgerStore(NAME, DictStore(), lambda: None))

    def in_a_location(self) -> None:
        """With the ledger in a location."""
        self.whole_run(store_in(NAME, LocalState(self._new_folder())))

    def mirror(self) -> None:
        """Written and read."""
        portions = mirror.GroupMirror.portions(self.ledger)
        found = mirror._mirrored({p: commit for portion in portions for p, commit in portion.items()})
        assert found is not None
        assert found.place == self.ledger.place

    def work(self) -> str:
        """What an application gets."""
        return Work(self.range, self.job, "there").word(lambda *kept: None)

    def plan_batches(self) -> object:
        """Where the first batches end."""
        return Planner(self.log, self.range.span).ends(size_of(self.range, 500.0).offsets, WINDOW)

    def slices(self) -> object:
        """The tasks of the first batch."""
        return Planner(self.log, self.batch).slices(SLICE_OFFSETS, "fail")

    def beside_the_checkpoint(self) -> None:
        """The documents of a batch, written and read again."""
        checkpoint = Checkpoint(LocalState(self._new_folder()))
        checkpoint.take_up(self.range)
        checkpoint.put_plan("plan", self.window[:1])
        checkpoint.put_note(Note(1, 1, self.range.start, self.counts.end, Offsets(), {}))
        checkpoint.put_counts(self.counts)
        checkpoint.put_report(self.report)
        assert (checkpoint.counts(), checkpoint.report()) == (self.counts, self.report)
        assert checkpoint.note(1) is not None

    def progress(self) -> str:
        """What is said after a batch."""
        return progress(AttemptStart(self.range, 1, 0, 0, 0), self.counts, self.window[0], now=1_000).line

    def status(self) -> Status:
        """What the page shows, through all that a run does."""
        updater = Updater(NAME, (NAME,), None, self.load.pace, "d", "d/r", "load", self.now, "topic:copy")
        found = updater.begin(None)
        verdict = ranges.verdict(self.kafka, self.load.terms, self.ledger, self.now)
        changes: list[Callable[[Status], Status]] = [
            lambda was: status.looked(was, updater, self.ledger, verdict),
            lambda was: status.planned(was, updater, self.range),
            lambda was: status.begun(was, updater, self.range, 1),
            lambda was: status.committed(was, updater, self.range, self.report, self.ledger),
        ]
        for change in changes:
            found = Status.from_value(change(found).fitting().to_value())
        return found

    def plan_command(self) -> Any:
        """What `orderedkafka plan` prints, from what it was told."""
        seen = ranges.look_at(self.kafka, self.load.terms, self.ledger, self.now)
        special = previews._special(self.kafka, self.load.terms, self.ledger, seen)
        start, end = self.range.start.offsets, self.range.end.offsets
        parts = tuple(previews.Part(p, start[p], end[p], special=special.get(p, ())) for p in end)
        verdict = Verdict(run=True, reason="enough")
        found = previews.Preview(NAME, 1, verdict, self.range, parts, tuple(self.window))
        return found.text, found.to_json()

    def ledger_command(self) -> str:
        """What `orderedkafka ledger show` says of a range."""
        return in_words(self.range)


STEPS: dict[str, Callable[[Large], object]] = {
    name: getattr(Large, name)
    for name in (
        *("first_look", "wait", "plan_a_range", "in_airflow", "in_a_location", "mirror", "work", "plan_batches"),
        *("slices", "beside_the_checkpoint", "progress", "status", "plan_command", "ledger_command"),
    )
}
