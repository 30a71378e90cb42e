"""Loads by hand on a small Kafka and a small Spark: attempt after attempt, with all that goes wrong in between.

All but Kafka, Spark and the clock is the package's own: ledger, range, checkpoint, plan, lanes, limit, writers, report.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import pyarrow as pa

from airflow_provider_orderedkafka.core.batches import Batch, Note, Tally
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import (
    DataLossError,
    DeliveryError,
    FencedError,
    LedgerChangedError,
    OrderedKafkaError,
    RowError,
    SettingError,
    StateError,
    TaskFailedError,
    UnreachableError,
)
from airflow_provider_orderedkafka.job import Allow, Job, Rows
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.provenance import HEADER, read_provenance
from airflow_provider_orderedkafka.kafka.read.fetching import FetchedRecords
from airflow_provider_orderedkafka.kafka.write.writing import partitions_of
from airflow_provider_orderedkafka.outputs import Guarantee, KafkaOutput
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.spark.application.attempt import _unfinished, already_loaded
from airflow_provider_orderedkafka.spark.application.batch_loop import BatchLoop, Plan, Work
from airflow_provider_orderedkafka.spark.application.report import report
from airflow_provider_orderedkafka.spark.connector.options import parse_options
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_lanes import writer_for
from airflow_provider_orderedkafka.spark.lanes.limit import RowLimit
from airflow_provider_orderedkafka.spark.lanes.making import Arguments
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state.lease import Lease, Outside, Process, SystemClock
from support.draws import MARKER, Attempt, Change, Come, Shape, Trouble
from support.interleaving import Killed
from support.leases import Clock, Processes
from support.makings import TRANSFORMS, sick_ones
from support.small_kafka import DEAD, Outputs, Row, Source
from support.small_loads import Done, Load
from support.small_spark import Host, SmallEngine, Tasks, hand_over

EPOCH = 1_000_000
AT_ONCE = 3
"""How many batches are planned at once."""

SAMPLED = 1
"""So few that keys may stand elsewhere than the sample says."""


@dataclass
class Noticed:
    """A writer, each of whose writes is noticed from outside."""

    writer: Any
    world: "World"
    load: Load
    range_id: str

    @property
    def output(self) -> Any:
        return self.writer.output

    @property
    def setup(self) -> Any:
        return self.writer.setup

    def write(self, batch: Batch, note: Note, before: Any) -> Tally:
        with self.world.writing(self.range_id, batch.number):
            tally: Tally = self.writer.write(batch, note, before)
        done = Done(self.range_id, batch.start.offsets, batch.end.offsets, self.world.write, batch.surplus)
        self.load.done[self.range_id, batch.number] = done
        return tally


OF_AN_ATTEMPT = (
    *("attempt", "write", "_troubles", "_left", "_meanwhile", "_beside", "_writing", "_holding", "_running"),
    *("_fates", "_denied", "_stale", "_outdated", "task"),
)


def attempt_ends(attempt: Attempt) -> tuple[type[BaseException], ...]:
    """What may end an attempt; that what looks like a loss by an outdated answer is refused is no harm."""
    others = any(isinstance(what, Attempt) for _, what in attempt.beside)
    fenced = (FencedError, LedgerChangedError, StateError, TaskFailedError) if others else ()
    outdated = (DataLossError,) if others or any((*attempt.stale, *attempt.outdated)) else ()
    return (Killed, UnreachableError, RowError, DeliveryError, *fenced, *outdated)


class World:
    """A source, outputs, and loads of one shape between them."""

    def __init__(self, shape: Shape, outputs: int) -> None:
        self.shape = shape
        names = [f"{chr(ord('a') + place)}" for place in range(len(shape.topics))]
        partitions = [TopicPartition(n, p) for n, count in zip(names, shape.topics, strict=True) for p in range(count)]
        self._stale: Iterator[bool] = cycle((False,))
        self._outdated: Iterator[bool] = cycle((False,))
        compacted = frozenset(names if shape.compacted else ())
        self.source = Source(
            tuple(partitions), self._ask, self._answered, self._is_stale, self._look_up, compacted=compacted
        )
        compacted = frozenset(shape.outputs if shape.keeps_last else ())
        self.outputs = Outputs(
            {**dict.fromkeys(shape.outputs, outputs), DEAD: 1},
            self._ask,
            self._answered,
            lambda: self._touch("output"),
            lambda: next(self._fates),
            lambda: self.write,
            self._is_stale,
            compacted,
            shape.silent,
        )
        self.loads = [Load(f"load-{n}", 0 if shape.limited else None) for n in range(shape.loads)]
        self.names_dead_letters = [False] * shape.loads
        self.one_writer = [False] * shape.loads
        self.moved = [False] * shape.loads
        self.files: dict[str, Any] = {}
        self.write = self.task = 0
        self.guarantee: Guarantee = "at_least_once"
        self.grown: Counter[str] = Counter()
        self.attempt = Attempt()
        self._troubles: list[Trouble] = []
        self._left: int | None = None
        self._meanwhile: list[tuple[int, Come | Change]] = []
        self._beside: list[tuple[int, Come | Change | Attempt]] = []
        self._writing: tuple[str, int] | None = None
        self._holding = False
        self.others_wait = True
        """Whether others run only while an attempt that stands still has the lease."""
        self._running: tuple[Load, ...] = ()
        self._writes = 0
        self._clock = Clock()
        self._dead: set[Process] = set()
        self.awoken: set[str] = set()
        self.unheard: set[str] = set()
        self._fates: Iterator[int] = cycle((0,))
        self._denied: Iterator[bool] = cycle((False,))
        self.denied = shape.silent
        self.outdated = False
        self._facts = PlanFacts(at_most_one=shape.making in ("copy", "keep frames"), joins=shape.joins)

    def come(self, records: tuple[Come, ...]) -> None:
        """Records are written to the source."""
        for each in records:
            partition = self.source.partitions[each.partition % len(self.source.partitions)]
            if self.shape.placed and each.key is not None and not each.astray:
                partition = self.home(partition.topic, each.key)
            value = each.kind + b"-%d" % len(self.source.records)
            value = value.ljust(1_200, b".") if each.kind == b"large" else value
            self.source.add(partition, EPOCH + each.timestamp, each.key, None if each.kind == MARKER else value)

    def home(self, topic: str, key: bytes, fewer: int = 0) -> TopicPartition:
        """Where Java's producers put a key, or put it when the topic had fewer partitions."""
        count = sum(each.topic == topic for each in self.source.partitions) - fewer
        return TopicPartition(topic, partitions_of(pa.array([key], pa.binary()), count)[0].as_py())

    def change(self, change: Change) -> None:
        """Records go, where the topics are of the kind that loses them; or an output is made anew."""
        if change.what in ("clean", "anew", "delete"):
            self._change_output(change)
            return
        partition = self.source.partitions[change.partition % len(self.source.partitions)]
        end = self.source.ends[partition]
        offset = change.offset % (end + 1)
        if change.what == "compact" and self.shape.compacted and offset < end - 1:
            self._take(partition, range(offset, offset + 1), expired=False)
            self.source.compact(partition, offset)
        if change.what == "retain" and self.shape.counts_losses and offset > self.source.begins()[partition]:
            self._take(partition, range(self.source.begins()[partition], offset), expired=True)
            self.source.present.delete_before(partition, offset)
        if change.what == "grow":
            self.source.grow(partition.topic)
            self.grown[partition.topic] += 1

    def _change_output(self, change: Change) -> None:
        name = self.shape.outputs[change.partition % len(self.shape.outputs)]
        if change.what == "anew":
            self.outputs.make_anew(name, self._is_counted)
        elif change.what == "delete":
            self.outputs.compacted = frozenset()
        elif self.outputs.compacted:
            for number in range(self.outputs.counts[name]):
                self.outputs.clean(TopicPartition(name, number), change.offset)

    def _is_counted(self, row: Row) -> bool:
        """Whether a row is of a batch that was counted."""
        found = read_provenance([(HEADER, row.provenance)])
        assert found is not None
        assert found.source is not None
        assert found.offset is not None
        [load] = (each for each in self.loads if found.range_id in each.ranges)
        return found.offset < load.counted().get(found.source, 0)

    def _take(self, partition: TopicPartition, offsets: range, *, expired: bool) -> None:
        for load in self.loads:
            counted = load.counted().get(partition, 0)
            gone = {(partition, offset) for offset in offsets if offset >= counted}
            load.taken |= gone
            if expired:
                which = load.expiring if load in self._running else load.expired
                which |= gone

    def _is_stale(self) -> bool:
        return next(self._stale)

    def _look_up(self) -> bool:
        """Whether an index answers as before this attempt; it may not answer at all."""
        self._touch("look-up")
        outdated = next(self._outdated)
        self.outdated |= outdated
        return outdated

    def _answered(self) -> None:
        self._touch("answer")

    def run(self, attempt: Attempt, *, calm: bool = False) -> bool:
        """One attempt, however it ends; whether there was something to load."""
        load = self.loads[attempt.load]
        self._begin(attempt, load)
        self._running = (*self._running, load)
        try:
            return self._load(load, self._arguments(attempt, load))
        except SettingError as error:  # found only after the look at a sample, and one writer is the way out
            if "kafka.partitioner" in str(error):
                self.moved[attempt.load] ^= True
                return True
            if self.one_writer[attempt.load] or "writers=1" not in str(error):
                raise
            self.one_writer[attempt.load] = True
            return True
        except (Killed, OrderedKafkaError) as error:
            if calm or not isinstance(error, attempt_ends(attempt)):
                raise
            return True
        finally:
            self._running = self._running[:-1]

    def _begin(self, attempt: Attempt, load: Load) -> None:
        self.attempt, self._troubles, self._left = attempt, list(attempt.troubles), None
        self._meanwhile, self._beside, self._writing = list(attempt.meanwhile), list(attempt.beside), None
        self._holding = False
        self._fates, self._denied, self._stale = cycle(attempt.fates), cycle(attempt.denied), cycle(attempt.stale)
        self._outdated = cycle(attempt.outdated)
        self.source.remember()
        self.outputs.remember()
        self.come(attempt.come)
        for change in attempt.changes:
            self.change(change)
        for name in self.outputs.counts:
            self.outputs.counts[name] += attempt.grown
        self.names_dead_letters[attempt.load] |= attempt.names_dead_letters
        self.moved[attempt.load] ^= attempt.moved
        if load.limit is not None:
            load.limit += attempt.raised
        sick_ones.clear()
        sick_ones.update({b"sick"} if attempt.sick else ())

    def _run_beside(self, attempt: Attempt) -> None:
        """Another attempt, while this one stands still."""
        kept = {name: getattr(self, name) for name in OF_AN_ATTEMPT}
        remembered, sick = (self.source.remembered, self.outputs.remembered), set(sick_ones)
        try:
            self.run(replace(attempt, load=attempt.load % len(self.loads)))
        finally:
            for name, value in kept.items():
                setattr(self, name, value)
            self.source.remembered, self.outputs.remembered = remembered
            sick_ones.clear()
            sick_ones.update(sick)

    def finish(self) -> None:
        """Attempts in which nothing goes wrong, until nothing is left to load."""
        for number in range(len(self.loads)):
            calm = Attempt(number, names_dead_letters=True, slice_offsets=3, fates=self.attempt.fates)
            while self.run(calm, calm=True):
                pass

    def _arguments(self, attempt: Attempt, load: Load) -> Arguments:
        frames, transform = TRANSFORMS[self.shape.making]
        options = {
            "kafka.bootstrap.servers": "nowhere:1",
            "subscribe": ",".join(sorted({p.topic for p in self.source.partitions})),
            "startingOffsets": "earliest",
            "failOnDataLoss": str(not self.shape.counts_losses).lower(),
            "sliceOffsets": str(attempt.slice_offsets),
            "kafka.partitioner": "consistent_random" if self.moved[attempt.load] else "murmur2_random",
        }
        if self.shape.batch_offsets is not None:
            options["maxOffsetsPerTrigger"] = str(self.shape.batch_offsets)
        output = KafkaOutput(
            None if self.shape.routed else "out",
            tuple(self.shape.outputs) if self.shape.routed else (),
            keep_order=None if self.shape.keep_order == "none" else self.shape.keep_order,
            writers=1 if self.one_writer[attempt.load] else attempt.writers,
            guarantee=self.guarantee,
        )
        bad = Allow(1_000_000, to=DEAD) if self.names_dead_letters[attempt.load] else None
        source = parse_options(options, stream=True)
        return Arguments(
            checkpoint=load.name,
            row_limit=load.limit,
            transform=transform if frames else None,
            arrow_transform=None if frames else transform,
            source=source,
            job=Job(output, Rows(bad_records=bad)),
            cluster=source.kafka,
        )

    def _load(self, load: Load, arguments: Arguments) -> bool:
        books = by_hand.books_of(
            load.state(touch=self._touch), SystemClock().now, lambda folder: load.state(folder, self._touch)
        )
        first = load.ledger() is None
        try:
            loaded, _ = by_hand.next_range(books, arguments, self.source)
        finally:
            if first and not load.first and (begun := load.ledger()) is not None:
                load.first = begun.place.offsets
        if loaded is None:
            return False
        load.ranges[loaded.id] = loaded
        checkpoint = Checkpoint(load.state(loaded.id, self._touch))
        found = already_loaded(checkpoint, loaded)
        if found is None:
            found = self._attempted(load, arguments, loaded, checkpoint)
        load.reports[loaded.id] = found
        by_hand.close(books, loaded, by_hand.Alone())
        return True

    def _attempted(self, load: Load, arguments: Arguments, loaded: Range, checkpoint: Checkpoint) -> Report:
        checkpoint.take_up(loaded)
        self._writes += 1
        process = Process("here", self._writes, self._writes)
        lease = Lease(
            Outside(load.state(loaded.id), self._clock, Processes(process, self._dead), f"{self._writes:08d}")
        )
        try:
            lease.acquire()
            checkpoint.hold(lease.term)
            self._holding = True
            found = already_loaded(checkpoint, loaded) or self._loaded(load, arguments, loaded, checkpoint, lease)
        except Killed:
            self.unheard |= self.awoken & {loaded.id}
            raise
        except BaseException:
            lease.let_go()
            raise
        finally:
            self._holding = False
            self._dead.add(process)
        return found

    def _loaded(self, load: Load, arguments: Arguments, loaded: Range, checkpoint: Checkpoint, lease: Lease) -> Report:
        engine = SmallEngine(self._facts, self._run_tasks, self.files)
        source, making = arguments.source, arguments.making(loaded)
        read = ReadSettings.of_range(source.kafka, loaded)
        read = replace(read, batch_bytes=self.attempt.batch_bytes, sampled=SAMPLED, fetch=partial(self._fetch, read))
        frames = RangeFrames(engine, loaded, self.source, read, source.slice_offsets, arguments.transform, making)
        writer = self._writer(arguments, frames)
        checkpoint.set_up(writer.setup, arguments.job)
        noticed: Any = Noticed(writer, self, load, loaded.id)
        plan, limit = Plan(writer.frames, checkpoint, AT_ONCE), RowLimit.of(writer.frames)
        loop = BatchLoop(Work(loaded, checkpoint, lease, plan, noticed, limit), Host())
        loop.run(hand_over)
        if loop.error is not None:
            try:
                loop.leave_word()
            except OrderedKafkaError:
                self.unheard.add(loaded.id)
            raise loop.error
        if (unfinished := _unfinished(loaded, loop.counts)) is not None:
            raise AssertionError(unfinished)
        lease.check()
        if (done := already_loaded(checkpoint, loaded)) is not None:
            return done
        found = report(loaded, loop.counts, lease.attempt, 0, 1)
        checkpoint.put_report(found)
        checkpoint.clean()
        return found

    def _fetch(self, settings: ReadSettings, slice_: Slice, _most: int | None) -> FetchedRecords:
        self._touch("source")
        return self.source.fetched(slice_, settings)

    def _writer(self, arguments: Arguments, frames: RangeFrames) -> Any:
        return writer_for(arguments, frames, self.outputs)

    def _happen(self) -> None:
        """What happens to the source while an attempt runs."""
        if not self._meanwhile:
            return
        after, event = self._meanwhile.pop(0)
        if after > 0:
            self._meanwhile.insert(0, (after - 1, event))
        elif isinstance(event, Come):
            self.come((event,))
        else:
            self.change(event)

    def _ask(self) -> bool:
        """Whether settings may be read now; every question may get no answer."""
        self._touch("question")
        denied = next(self._denied)
        self.denied |= denied
        return not denied

    @contextmanager
    def writing(self, range_id: str, batch: int) -> Iterator[None]:
        """A write, which has a number of its own."""
        self._writes += 1
        self.write, self._writing = self._writes, (range_id, batch)
        try:
            yield
        finally:
            self._writing = None

    def _stand_still(self) -> None:
        """What happens beside this attempt before it goes on."""
        if not self._beside:
            return
        after, event = self._beside.pop(0)
        if isinstance(event, Attempt) and self.others_wait and not self._holding:
            self._beside.insert(0, (after, event))
        elif after > 0:
            self._beside.insert(0, (after - 1, event))
        elif isinstance(event, Attempt):
            self._run_beside(event)
            self._wake(self._running[-1])
        elif isinstance(event, Come):
            self.come((event,))
        else:
            self.change(event)

    def _wake(self, load: Load) -> None:
        """Where it goes on in a write of a batch that others have counted, brokers still take its rows."""
        if self._writing is not None:
            range_id, batch = self._writing
            counts = Checkpoint(load.state(range_id)).counts()
            if range_id in load.reports or (counts is not None and counts.batch >= batch):
                self.awoken.add(range_id)

    def _touch(self, where: str) -> None:
        self._stand_still()
        if where not in ("store", "question", "look-up", "answer"):
            self._happen()
        if self._left is not None:  # what goes on beside a task that has died already
            self._left -= 1
            if self._left < 0:
                raise Killed
        elif self._troubles and self._troubles[0].where == where:
            where, after, kills = self._troubles[0]
            if after > 0:
                self._troubles[0] = Trouble(where, after - 1, kills)
                return
            del self._troubles[0]
            raise Killed if kills else UnreachableError("away for a moment")

    def _run_tasks(self, tasks: Tasks) -> list[Any]:
        """Run tasks one after the other; beside one that dies, the others come as far as fate has it."""
        found = []
        for number, task in enumerate(tasks):
            self.task = number
            try:
                found.append(task())
            except BaseException:
                self._cut_short(tasks[number + 1 :])
                raise
        return found

    def _cut_short(self, tasks: Tasks) -> None:
        for task in tasks:
            self._left = next(self._fates)
            self.task += 1
            with suppress(Killed, OrderedKafkaError):
                task()
            self._left = None
