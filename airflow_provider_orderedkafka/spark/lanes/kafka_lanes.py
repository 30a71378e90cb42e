"""The lanes to Kafka: one is chosen by a sample of the range, before anything is written; and the lane of DataFrames.

That lane transforms batches, keeps their order, and writes them with several tasks.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Batch, Note, Setup, Tally
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.lanes import Facts, KeepOrder, Lane, Placement, lane
from airflow_provider_orderedkafka.core.next_range import check_bad
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.provenance import SEQUENCE
from airflow_provider_orderedkafka.kafka.read.slices import sample
from airflow_provider_orderedkafka.kafka.replay.landed import RowsPerRecord
from airflow_provider_orderedkafka.kafka.replay.replays import OutputBrokers, Outputs
from airflow_provider_orderedkafka.kafka.write.settings import Keyless, WriteSettings, Written, check_readable
from airflow_provider_orderedkafka.kafka.write.writing import PARTITIONERS, misplaced, plan_write
from airflow_provider_orderedkafka.outputs import KafkaOutput, check_not_fed_back
from airflow_provider_orderedkafka.spark.connector.options import settings_of
from airflow_provider_orderedkafka.spark.ordering import default_writers
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts

from .direct_writer import DirectWriter, Writer
from .engine import TASKS_FOR_A_CORE
from .frames import Letters, RangeFrames
from .kafka_output import NOTHING_BEFORE, KafkaBefore, OutputTopics, batch_tally, missing, total, written_by_tasks
from .limit import without_surplus
from .making import Making, rekeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .arguments import Arguments


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
        with self.frames.located(batch, rows, slices):
            written = total(result)
        check_bad(counters.bad.total(), self.frames.making.max_bad)
        written += Written(dead_letters=counters.letters.total())
        read = counters.tally().plus(Tally(may_be_doubled=resent.total()))
        return read.plus(batch_tally(note, before, written))

    def in_order(self, rows: "DataFrame", settings: WriteSettings) -> "DataFrame":
        """The rows, split among the writers so that the order that was asked for is kept."""
        setup, engine = self.setup, self.frames.engine
        if setup.keep_order == "none":
            return rows
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


def probe(frames: RangeFrames, arguments: "Arguments") -> Probe:
    """Look at a range; records are only looked at where the direct lane may be taken."""
    cluster, loaded = frames.cluster, frames.loaded
    by_topic = {topic.name: topic.partitions for topic in cluster.topics().topics}
    sampled = [] if arguments.transform is not None else sample(loaded.span, frames.read)
    transforms = frames.making.transform is not None
    return Probe(
        by_topic=by_topic,
        transformed=arguments.transform is not None or not (transforms or frames.making.idle),
        rekeyed=transforms and _rekeyed(frames.making, sampled),
        placement=_placement(sampled, max(by_topic.values())),
        columns=frames.made_columns(sampled) if transforms else None,
    )


def _rekeyed(making: Making, sampled: list[Any]) -> bool:
    return any(rekeys(batch.column("key"), making.split(batch)[0]) for batch in sampled)


def _placement(sampled: list[Any], partitions: int) -> Placement | None:
    """What explains where the sample's keys are, if anything does."""
    possible = ((name, partitions) for name in PARTITIONERS)
    return next((each for each in possible if not any(misplaced(batch, each) for batch in sampled)), None)


def writer_for(
    arguments: "Arguments", frames: RangeFrames, outputs: Outputs | None = None
) -> KafkaWriter | DirectWriter:
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
        output=", ".join(sorted(output.settings.topics)),
        transform=arguments.transform_name,
        reason=way.reason,
        cluster=next((each.cluster for each in output.settings.outputs.values()), ""),
    )
    output = replace(output, code=arguments.code, placement=placement)
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
    writer = KafkaWriter(frames, output, setup)
    writer.check(writer.in_order(frames.rows, settings))  # what cannot be kept in order is refused now
    return writer


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


def _output(frames: RangeFrames, arguments: "Arguments", asked: KafkaOutput, outputs: Outputs) -> OutputTopics:
    columns, letters = frames.columns(), arguments.job.rows.dead_letters
    topic = letters if isinstance(letters, str) else None
    settings = replace(settings_of(asked, topic, arguments.cluster, columns), lend=outputs.lend)
    if asked.keep_order == "partition" and settings.topic is None and settings.use_partition != "always":
        raise SettingError(
            "keep_order='partition' needs the partitions of the output: name one topic, or make a column 'partition' "
            "and set use_partition=True (by hand: --output-topic, or --sink-option usePartition=true)"
        )
    planned = plan_write(settings, columns, outputs)
    _check_not_fed_back(frames.loaded, planned)
    if planned.source is not None:
        check_readable(planned.outputs.values())
    return OutputTopics(frames.loaded.id, planned, outputs)


def _check_not_fed_back(loaded: Range, settings: WriteSettings) -> None:
    """Compare topic IDs: a cluster may have several addresses."""
    same = [name for name, output in settings.outputs.items() if loaded.topics.get(name) == output.id]
    named = {name: "dead letters" if name == settings.dead_letter_topic else "topic" for name in same}
    check_not_fed_back(loaded.load, Named(tuple(loaded.topics)), named)
