"""Choose and make the writer of a range's batches to Kafka."""

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.lanes import Lane, lane
from airflow_provider_orderedkafka.core.outputs import check_not_fed_back
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.replay.landed_filter import Giving
from airflow_provider_orderedkafka.kafka.write.outputs import check_readable
from airflow_provider_orderedkafka.kafka.write.write_settings import Keyless, WriteSettings
from airflow_provider_orderedkafka.kafka.write.writing import plan_write
from airflow_provider_orderedkafka.spark.connector.sink_options import SinkOptions
from airflow_provider_orderedkafka.spark.lanes.direct_writer import DirectWriter
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import OutputTopics
from airflow_provider_orderedkafka.spark.lanes.kafka_writer import KafkaWriter, check_plan, in_order
from airflow_provider_orderedkafka.spark.lanes.probe import Probe, probe
from airflow_provider_orderedkafka.spark.ordering import default_writers
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts, read_plan

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments

TASKS_FOR_A_CORE = 2
"""Shares are uneven, so there are more of them than cores."""


def writer_for(arguments: "Arguments", frames: RangeFrames) -> KafkaWriter | DirectWriter:
    """The writer of a range's batches to Kafka."""
    if arguments.decode is not None:
        arguments.decode.check_topic()
    asked = arguments.sink
    probed = probe(frames, arguments)
    frames = replace(frames, making=replace(frames.making, columns=probed.columns))
    output = _output(frames, asked)
    way = lane(probed.facts(asked.keep_order, asked.writers, output))
    placement = probed.placement if way.by_key else None
    setup = Setup(
        lane=way.kind,
        writers=_writers(asked, way, probed, frames),
        keep_order=asked.keep_order,
        placed=None if placement is None else placement[0],
        output=", ".join(sorted(output.settings.topics)),
        transform=arguments.transform_name,
        reason=way.reason,
    )
    output = replace(output, code=arguments.code, placement=placement)
    if setup.lane == "direct":
        source = "columns" if arguments.arrow_transform is None and output.settings.source else output.settings.source
        giving: Giving = "one" if arguments.arrow_transform is None else "many"
        keyless: Keyless = "by source" if asked.keep_order == "partition" else "anywhere"
        output = replace(output, settings=replace(output.settings, source=source, keyless=keyless), giving=giving)
        return DirectWriter(frames, output, setup)
    facts = PlanFacts() if frames.copied else read_plan(frames.rows)
    settings = replace(output.settings, partitions={n: o.partitions for n, o in output.settings.outputs.items()})
    output = replace(output, settings=settings, giving=_giving(facts), untrusted=facts.untrusted)
    check_plan(in_order(frames.rows, setup, settings), setup, output)  # what cannot be kept in order is refused now
    return KafkaWriter(frames, output, setup)


def _giving(facts: PlanFacts) -> Giving:
    if facts.joins:
        return "joined"
    return "one" if facts.at_most_one else "many"


def _writers(asked: SinkOptions, way: Lane, probed: Probe, frames: RangeFrames) -> int:
    if way.one_task:
        return 1
    if way.kind == "frames":
        return asked.writers or default_writers(frames.session)
    cores = frames.session.sparkContext.defaultParallelism
    return min(asked.writers or TASKS_FOR_A_CORE * cores, probed.partitions)


def _output(frames: RangeFrames, asked: SinkOptions) -> OutputTopics:
    columns = frames.columns()
    settings = asked.settings(columns)
    if settings.topic is None and not settings.output_topics:
        raise SettingError(
            "no output topic is set: name one with --output-topic; or, if the transform makes a column 'topic', list "
            "the topics it may name with --sink-option outputTopics=a,b"
        )
    if asked.keep_order == "partition" and settings.topic is None and settings.use_partition != "always":
        raise SettingError(
            "keepOrder=partition needs the partitions of the output: set one --output-topic, or make a column "
            "'partition' and set --sink-option usePartition=true"
        )
    planned = plan_write(settings, columns)
    _check_not_fed_back(frames.loaded, planned)
    if planned.source is not None:
        check_readable(planned.outputs.values())
    return OutputTopics(frames.loaded.id, planned)


def _check_not_fed_back(loaded: Range, settings: WriteSettings) -> None:
    """Compare topic IDs: a cluster may have several addresses."""
    same = [name for name, output in settings.outputs.items() if loaded.topics.get(name) == output.id]
    named = {name: "deadLetterTopic" if name == settings.dead_letter_topic else "topic" for name in same}
    check_not_fed_back(loaded.load, loaded.topics, named)
