"""The table sink: batches of a range as rows of tables and files.

    run_available_now(sink=table_sink)    with --output, or with --sink-option path=... or table=...

A table of Iceberg or Delta gets each batch by one commit, in its own layout; a replay knows by the table's history
whether it landed. Files go to a folder for each batch, and a table of Hive or Spark's own has a partition for each;
both are written in place of what an earlier attempt left there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.provenance import ERROR, SOURCE
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings
from airflow_provider_orderedkafka.kafka.write.writing import plan_write
from airflow_provider_orderedkafka.loads.loading import name_at
from airflow_provider_orderedkafka.outputs import CatalogOutput, DeltaOutput, FilesOutput, IcebergOutput
from airflow_provider_orderedkafka.spark.connector.columns import spark_columns
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import OutputTopics
from airflow_provider_orderedkafka.spark.tables.dead_letters import DeadLetters, LetterTable, Topic
from airflow_provider_orderedkafka.spark.tables.delta import DeltaTable
from airflow_provider_orderedkafka.spark.tables.files import CatalogTable, Files
from airflow_provider_orderedkafka.spark.tables.iceberg import IcebergTable
from airflow_provider_orderedkafka.spark.tables.table import Table
from airflow_provider_orderedkafka.spark.tables.writer import TableWriter, writer_of

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.outputs import TableOutput
    from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments

_TABLES: Final[Mapping[type, Callable[[RangeFrames, Any], Table]]] = {
    IcebergOutput: lambda frames, output: IcebergTable(frames.session, output),
    DeltaOutput: lambda frames, output: DeltaTable(frames.session, output),
    FilesOutput: lambda frames, output: Files(frames.session, output, frames.loaded.id),
    CatalogOutput: lambda frames, output: CatalogTable(frames.session, output, frames.loaded.id),
}


def table_sink(arguments: "Arguments", frames: RangeFrames) -> TableWriter:
    """Write to a table or to files, as `run_available_now(sink=table_sink)`; called once for each attempt.

    :param arguments: The application's command line.
    :param frames: The range, as DataFrames of its batches.
    """
    output = _output(arguments)
    frames = replace(frames, making=replace(frames.making, columns=frames.made_columns()))
    _check_errors(frames)
    setup = Setup(
        lane="frames",
        writers=0,
        keep_order="none",
        placed=None,
        output=", ".join([_described(output), *_letters_described(arguments)]),
        transform=arguments.transform_name,
        reason="tables are written from DataFrames",
    )
    table = _TABLES[type(output)](frames, output)
    called = name_at(arguments.checkpoint, frames.loaded.id)
    return writer_of(frames, table, called, setup, _dead_letters(arguments, frames, output))


def _check_errors(frames: RangeFrames) -> None:
    if ERROR in frames.rows.columns:
        raise SettingError(
            f"the transform makes a column {ERROR!r}, which says of rows for a table that they are dead letters only "
            f"if it is an arrow_transform that keeps {SOURCE!r}, such as one made with row_transform: make it one, or "
            f"name the column otherwise"
        )


def _dead_letters(arguments: "Arguments", frames: RangeFrames, output: "TableOutput") -> DeadLetters | None:
    """Where bad records go; None if nothing says it, so that none may be bad."""
    named = None if arguments.decode is None else arguments.decode.dead_letters
    topic = arguments.sink.dead_letter_topic
    if isinstance(named, IcebergOutput | DeltaOutput):
        return _letter_table(named, frames, output)
    return None if topic is None else DeadLetters(frames, Topic(_letter_topic(topic, arguments, frames)))


def _letter_table(named: IcebergOutput | DeltaOutput, frames: RangeFrames, output: "TableOutput") -> DeadLetters:
    if (named.kind, named.place) == (output.kind, output.place):
        raise SettingError(f"dead letters cannot go to {named.of} itself: they have other columns; name another table")
    table: Any = _TABLES[type(named)](frames, named)
    found = LetterTable(table, frames.loaded.id)
    table.prepare(found.rows(frames.bad, 1))
    return DeadLetters(frames, found)


def _letter_topic(topic: str, arguments: "Arguments", frames: RangeFrames) -> OutputTopics:
    # Without the names of other topics: a record's own topic is where it was read from, and is not written to.
    settings = WriteSettings(
        arguments.source.kafka,
        use_partition="never",
        dead_letter_topic=topic,
        output_topics=(topic,),
        source="columns",
    )
    columns = list(spark_columns(include_headers=frames.loaded.include_headers).items())
    return OutputTopics(frames.loaded.id, plan_write(settings, columns))


def _output(arguments: "Arguments") -> "TableOutput":
    if arguments.output is not None:
        return arguments.output
    if arguments.sink.topic or arguments.sink.output_topics:
        raise SettingError("this application writes tables: name one with --output, or --sink-option path= or table=")
    raise SettingError("no output is set: name one with --output, or set either --sink-option path=... or table=...")


def _described(output: "TableOutput") -> str:
    """The output as a setup has it: a batch that was begun without identities is not ended with them."""
    if isinstance(output, FilesOutput | CatalogOutput):
        return f"{output.format} {output.place}"
    return f"{output.kind} {output.place}{'' if output.identity else ' without identities'}"


def _letters_described(arguments: "Arguments") -> Iterator[str]:
    """Where the dead letters are, as a setup has it: those of a batch are looked for in one place."""
    named = None if arguments.decode is None else arguments.decode.dead_letters
    if isinstance(named, IcebergOutput | DeltaOutput):
        yield f"dead letters in {named.kind} {named.place}"
    elif topic := arguments.sink.dead_letter_topic:
        yield f"dead letters in topic {topic}"
