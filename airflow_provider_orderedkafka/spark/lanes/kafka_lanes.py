"""The lanes to Kafka: one is chosen by a sample of the range, before anything is written.

In the direct lane a Python task reads its share of a batch and writes it, and no record crosses to the JVM. The lane of
DataFrames transforms batches, keeps their order, and writes them with several tasks.
"""

import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time_ns
from typing import TYPE_CHECKING, Any

from ...core.batches import Batch, Note, Setup, Surplus, Tally
from ...core.documents import Destination, Range
from ...core.lanes import Facts, KeepOrder, Lane, Placement, lane, share_out, sizes
from ...core.next_range import check_bad
from ...core.notation.subscriptions import Named, check_not_fed_back
from ...core.order.cuts import Slice
from ...core.order.positions import Offsets
from ...errors import SettingError
from ...kafka.clients.config import without_transactions
from ...kafka.clients.pools import ReadSettings, ReadTally
from ...kafka.provenance import SEQUENCE
from ...kafka.read.slices import fetching, sample
from ...kafka.replay.landed import Landed, LandedFilter, RowsPerRecord
from ...kafka.replay.replays import OutputBrokers, Outputs
from ...kafka.write.settings import Keyless, WriteSettings, Written, check_exactly_once, check_readable
from ...kafka.write.turns import Turns, begins_with
from ...kafka.write.writing import PARTITIONERS, misplaced, plan_write, steps
from ...outputs import KafkaOutput
from ..connector.options import settings_of
from ..connector.reading import read_batches, read_records
from ..ordering import default_writers
from ..session.counting import each_partition, results
from ..session.plans import PlanFacts
from .engine import TASKS_FOR_A_CORE
from .frames import Letters, RangeFrames
from .kafka_output import (
    NOTHING_BEFORE,
    KafkaBefore,
    OutputTopics,
    batch_tally,
    missing,
    only_attempt,
    total,
    written_by_tasks,
)
from .limit import trimmed, without_surplus
from .making import Arguments, Making, check_keys, rekeys, whole_records

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame


Share = list[tuple[Slice, Landed]]


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The work of a task, without its slices."""

    read: ReadSettings
    write: WriteSettings
    making: Making
    rows_per_record: RowsPerRecord
    placement: Placement | None
    same_keys: bool
    surplus: Surplus | None


@dataclass(frozen=True, slots=True)
class Writer:
    """What the writers of both lanes have: the range, where its rows go, and how."""

    frames: RangeFrames
    output: OutputTopics
    setup: Setup

    @property
    def destination(self) -> Destination:
        return self.output.destination(copied=self.frames.copied, keep_order=self.setup.keep_order)


class DirectWriter(Writer):
    """Writes batches to Kafka, each task its share of the source's partitions."""

    __slots__ = ()

    def write(self, batch: Batch, note: Note, before: KafkaBefore | None) -> Tally:
        before = before or NOTHING_BEFORE
        work = TaskSettings(
            self.frames.read,
            self.output.of_batch(note),
            self.frames.making,
            self.output.rows_per_record,
            note.placement,
            self.setup.placed is not None,
            batch.surplus,
        )
        packed = [pickle.dumps(share) for share in self._shares(batch, before.landed)]
        tasks = self.frames.engine.numbers(len(packed))
        written, total = Written(), Tally()
        for found, tally in results(each_partition(tasks, partial(_task, work, packed)), len(packed)):
            written, total = written + found, total.plus(tally)
        return total.plus(batch_tally(note, before, written))

    def _shares(self, batch: Batch, landed: Landed) -> list[Share]:
        """The batch's slices for each task, split by partition number, with what landed of them."""
        loaded, tasks = self.frames.loaded, self.setup.writers
        each = self.frames.slice_offsets * tasks
        slices = self.frames.slices(batch, each, literal=bool(landed))
        task_of = share_out(sizes(loaded.start.offsets, loaded.end.offsets), tasks)
        parts = [[_part(slice_, task_of, task) for slice_ in slices] for task in range(tasks)]
        return [[(part, landed.within(part.spans)) for part in share] for share in parts]


def _part(slice_: Slice, task_of: Mapping[int, int], task: int) -> Slice:
    return replace(slice_, stretches=tuple(s for s in slice_.stretches if task_of[s.partition.partition] == task))


def _task(
    work: TaskSettings, packed: Sequence[bytes], numbers: Iterator["RecordBatch"]
) -> Generator[int, None, tuple[Written, Tally]]:
    """Read and write the shares whose numbers come in; a task unpacks its own alone."""
    work = replace(work, write=replace(work.write, writer=str(only_attempt())))
    began, read, written = process_time_ns(), Read(work), Written()
    shares = (pickle.loads(packed[n]) for batch in numbers for n in batch.column(0).to_pylist())  # noqa: S301 - our own
    rows = (rows for share in shares for rows in read.share(share))
    for written in steps(rows, work.write):  # noqa: B007 - the last one counts
        yield read.seen
    return replace(written, spent=process_time_ns() - began), read.tally


@dataclass(slots=True)
class Read:
    """Reads slices, and counts what that comes to; `seen` are the records that have come so far."""

    work: TaskSettings
    seen: int = 0
    tally: Tally = field(default_factory=Tally)

    def share(self, share: Share) -> Iterator[Any]:
        """The rows of slices that follow each other, but for what landed of them."""
        with fetching([slice_ for slice_, _ in share], self.work.read) as settings:
            for slice_, landed in share:
                yield from self._missing(slice_, settings, landed)

    def _missing(self, slice_: Slice, settings: ReadSettings, landed: Landed) -> Iterator[Any]:
        work, tally = self.work, ReadTally()
        read = read_records if work.making.idle else read_batches
        batches = self._counted(read(slice_, settings, tally))
        if not work.making.idle:
            batches = self._made(batches)
        batches = trimmed(batches, work.surplus)
        left = None if work.write.source is None else LandedFilter(landed, work.rows_per_record, work.write.source)
        yield from batches if left is None else left.of(batches)
        lost = landed.lost(slice_, tally.lost)
        found = Tally(
            tally.records,
            late=tally.late.total(),
            late_in=Offsets(tally.late),
            read_in=Offsets(tally.read),
            bytes_read=tally.bytes,
            lost=lost,
            may_be_out_of_order=tally.beyond,
            may_be_doubled=0 if left is None else left.resent,
        )
        self.tally = self.tally.plus(found)

    def _made(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The bad ones of records, with `_error`, and the rows of the others."""
        for batch in batches:
            rows, bad = self.work.making.split(batch)
            if self.work.same_keys:
                check_keys(batch.column("key"), rows)
            if bad.num_rows:
                yield whole_records(bad)
            yield rows

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self.seen += batch.num_rows
            self.tally = self.tally.plus(Tally(may_be_out_of_order=misplaced(batch, self.work.placement)))
            yield batch


class KafkaWriter(Writer):
    """Writes batches to Kafka in order, with several writers."""

    __slots__ = ()

    def write(self, batch: Batch, note: Note, before: KafkaBefore | None) -> Tally:
        before = before or NOTHING_BEFORE
        asked = self.output.of_batch(note)
        settings = writing(self.setup, asked)
        resent, counters = self.frames.engine.counter(), self.frames.counters(note.placement)
        slices = self.frames.for_tasks(batch, literal=bool(before.landed))
        parts = [before.landed.within(each.spans) for each in slices]
        letters = Letters(asked, self.output.rows_per_record)
        rows = self.frames.of_batch(batch, slices, parts, counters=counters, letters=letters)
        rows = without_surplus(rows, batch.surplus)
        if settings.range_id is not None and (self.output.rows_per_record != "one" or before.landed):
            rows = missing(rows, before.landed, self.output.rows_per_record, resent)
        result = written_by_tasks(self.in_order(rows, asked), settings)
        self.check(result)  # a batch may be planned in another way than the one before it
        with self.frames.located(batch, rows, slices if letters.tasks(len(slices)) == len(slices) else ()):
            written = total(result)
        check_bad(counters.bad.total(), self.frames.making.max_bad)
        written += Written(dead_letters=counters.letters.total())
        again = Tally(rows_emitted=-resent.total(), may_be_doubled=resent.total())  # counted among those that landed
        return counters.tally().plus(again).plus(batch_tally(note, before, written))

    def in_order(self, rows: "DataFrame", settings: WriteSettings) -> "DataFrame":
        """The rows, split among the writers so that the order that was asked for is kept."""
        setup, engine = self.setup, self.frames.engine
        if setup.keep_order == "none":
            return rows if settings.turn is None else rows.coalesce(settings.turn.writers)
        if setup.keep_order == "key":
            return engine.distributed(rows, "key", setup.writers)
        by_rows = settings.use_partition == "always"  # by the rows: then no key says it
        count = None if by_rows or settings.topic is None else settings.partitions.get(settings.topic)
        return engine.distributed(rows, "partition", setup.writers, count)

    def check(self, rows: "DataFrame") -> None:
        """Refuse what was made of `in_order` if the transform loses the order, or identities that are relied on."""
        engine = self.frames.engine
        if self.setup.keep_order != "none":
            engine.facts(rows, SEQUENCE).check_ordered("ask for no order with --sink-option keepOrder=none")
        elif self.output.unprotected is None:
            engine.facts(rows).check_trusted("switch provenance off with --sink-option provenance=false")


def writing(setup: Setup, settings: WriteSettings) -> WriteSettings:
    """The settings for rows in this order: order by partition is that of the column that `keep_order` makes."""
    return replace(settings, use_partition="always") if setup.keep_order == "partition" else settings


@dataclass(frozen=True, slots=True)
class Probe:
    """What was seen. `columns` are those of an Arrow transform's rows, `placement` how the sample's keys are placed."""

    offsets: int
    by_topic: dict[str, int]
    transformed: bool
    rekeyed: bool
    placement: Placement | None
    columns: Any

    @property
    def partitions(self) -> int:
        """The most partitions that a topic has."""
        return max(self.by_topic.values())

    def facts(self, keep_order: KeepOrder, writers: int | None, output: OutputTopics) -> Facts:
        return Facts(
            offsets=self.offsets,
            transformed=self.transformed,
            keep_order=keep_order,
            writers=writers,
            partitions=self.by_topic,
            outputs=output.partitions,
            use_partition=output.settings.use_partition == "always",
            placed=self.placement is not None,
            rekeyed=self.rekeyed,
            copied=not self.transformed and self.columns is None,
        )


def probe(frames: RangeFrames, arguments: Arguments) -> Probe:
    """Look at a range; records are only looked at where the direct lane may be taken."""
    cluster, loaded = frames.cluster, frames.loaded
    by_topic = {topic.name: topic.partitions for topic in cluster.topics().topics}
    sampled = [] if arguments.transform is not None else sample(loaded.span, frames.read)
    transforms = frames.making.transform is not None
    return Probe(
        offsets=loaded.offsets,
        by_topic=by_topic,
        transformed=arguments.transform is not None or not (transforms or frames.making.idle),
        rekeyed=transforms and any(rekeys(each.column("key"), frames.making.split(each)[0]) for each in sampled),
        placement=_placement(sampled, max(by_topic.values())),
        columns=frames.made_columns(sampled) if transforms else None,
    )


def _placement(sampled: list[Any], partitions: int) -> Placement | None:
    """What explains where the sample's keys are, if anything does."""
    possible = ((name, partitions) for name in PARTITIONERS)
    return next((each for each in possible if not any(misplaced(batch, each) for batch in sampled)), None)


def writer_for(arguments: Arguments, frames: RangeFrames, outputs: Outputs | None = None) -> KafkaWriter | DirectWriter:
    """The writer of a range's batches to Kafka, by default to the cluster that the options name."""
    asked = arguments.job.kafka
    if asked is None:
        raise SettingError(
            "no output topic is set: name one with --output-topic; or, if the transform makes a column 'topic', list "
            "the topics it may name with --sink-option outputTopics=a,b"
        )
    arguments.job.check()
    probed = probe(frames, arguments)
    frames = replace(frames, making=replace(frames.making, columns=probed.columns))
    output = _output(frames, arguments, asked, outputs or OutputBrokers(arguments.cluster))
    way = lane(probed.facts(asked.order, asked.writers, output))
    placement = probed.placement if way.by_key else None
    setup = Setup(
        lane=way.kind,
        writers=_writers(asked, way, probed, frames),
        keep_order=asked.order,
        placed=None if placement is None else placement[0],
        transform=arguments.transform_name,
        reason=way.reason,
        cluster=next((each.cluster for each in output.settings.outputs.values()), ""),
        partitioner=output.settings.partitioner,
        code=arguments.code,
        transactions="" if output.turns is None else begins_with(arguments.cluster),
    )
    output = replace(output, code=setup.code, placement=placement, writers=setup.writers)
    if setup.lane == "direct":
        source = "columns" if arguments.arrow_transform is None and output.settings.source else output.settings.source
        rows_per_record: RowsPerRecord = "one" if arguments.arrow_transform is None else "many"
        keyless: Keyless = "one by one" if asked.keep_order == "partition" else "in runs"
        output = replace(
            output, settings=replace(output.settings, source=source, keyless=keyless), rows_per_record=rows_per_record
        )
        return DirectWriter(frames, output, setup)
    facts = PlanFacts() if frames.copied else frames.engine.facts(frames.rows)
    settings = replace(output.settings, partitions={n: o.partitions for n, o in output.settings.outputs.items()})
    output = replace(output, settings=settings, rows_per_record=_rows_per_record(facts), untrusted=facts.untrusted)
    if output.turns is not None:
        _check_lasting(output)
        output = replace(output, writers=max(setup.writers, TASKS_FOR_A_CORE * frames.engine.cores))
    writer = KafkaWriter(frames, output, setup)
    writer.check(writer.in_order(frames.rows, settings))  # what cannot be kept in order is refused now
    return writer


def _check_lasting(output: OutputTopics) -> None:
    """Refuse rows that a later attempt could not tell from others."""
    joins = "it joins a table, whose matches may come in another order" if output.rows_per_record == "joined" else None
    if why := output.unprotected or joins:
        raise SettingError(
            f"guarantee='exactly_once' needs rows that a later attempt makes again as they were, and {why}. Write that "
            "transform so that it gives the same rows each time, or set guarantee='at_least_once'"
        )


def _rows_per_record(facts: PlanFacts) -> RowsPerRecord:
    if facts.joins:
        return "joined"
    return "one" if facts.at_most_one else "many"


def _writers(asked: KafkaOutput, way: Lane, probed: Probe, frames: RangeFrames) -> int:
    if way.one_task:
        return 1
    if way.kind == "frames":
        return asked.writers or default_writers(frames.engine.cores)
    return min(asked.writers or TASKS_FOR_A_CORE * frames.engine.cores, probed.partitions)


def _output(frames: RangeFrames, arguments: Arguments, asked: KafkaOutput, outputs: Outputs) -> OutputTopics:
    columns, letters = frames.columns(), arguments.job.rows.dead_letters
    topic, cluster = letters if isinstance(letters, str) else None, arguments.cluster
    prefix = begins_with(cluster)
    if asked.exactly_once:
        cluster = without_transactions(cluster)
    settings = replace(settings_of(asked, topic, cluster, columns), lend=outputs.lend)
    if asked.keep_order == "partition" and settings.topic is None and settings.use_partition != "always":
        raise SettingError(
            "keep_order='partition' needs the partitions of the output: name one topic, or make a column 'partition' "
            "and set use_partition=True (by hand: --output-topic, or --sink-option usePartition=true)"
        )
    planned = plan_write(settings, columns, outputs)
    _check_not_fed_back(frames.loaded, planned)
    if planned.source is not None:
        check_readable(planned.outputs.values())
    if not asked.exactly_once:
        return OutputTopics(frames.loaded.id, planned, outputs)
    check_exactly_once(planned.outputs.values())
    turns = Turns(planned.config, f"{prefix}-{frames.loaded.id}", tuple(sorted(planned.outputs)))
    return OutputTopics(frames.loaded.id, planned, outputs, turns=turns)


def _check_not_fed_back(loaded: Range, settings: WriteSettings) -> None:
    """Compare topic IDs: a cluster may have several addresses."""
    same = [name for name, output in settings.outputs.items() if loaded.topics.get(name) == output.id]
    named = {name: "dead letters" if name == settings.dead_letter_topic else "topic" for name in same}
    check_not_fed_back(loaded.load, Named(tuple(loaded.topics)), named)
