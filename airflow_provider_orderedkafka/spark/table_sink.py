"""The table sink: batches of a range as rows of tables and files.

    run_available_now(sink=table_sink)    with --output, such as parquet:/data/orders

A table of Iceberg or Delta gets each batch by one commit, in its own layout; a replay knows by the table's history
whether it landed. Files go to a folder for each write of a batch, and a manifest says which one counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..core.batches import Setup
from ..errors import SettingError
from ..kafka.provenance import ERROR, SOURCE
from ..kafka.replay.replays import OutputBrokers, Outputs
from ..kafka.write.settings import WriteSettings
from ..kafka.write.writing import plan_write
from ..loads.loading import name_at
from ..outputs import DeltaOutput, FilesOutput, IcebergOutput, TableOutput
from .connector.reading import spark_columns
from .lanes.frames import RangeFrames
from .lanes.making import Arguments
from .state.checkpoint import Checkpoint, open_state
from .state.hadoop_state import HadoopState
from .tables.dead_letters import DeadLetters, DeadLetterTable, DeadLetterTopic
from .tables.table_formats import DeltaTable, Files, IcebergTable, Table
from .tables.upserts import UpsertTable, UpsertWriter
from .tables.writer import OutputTable, TableWriter, writer_of


def _lake(frames: RangeFrames, output: Any, checkpoint: str) -> tuple[Any, ...]:
    """What a table of a lake is made of."""
    loaded = frames.loaded
    if output.upsert and loaded.upsert is None:
        raise SettingError(
            f"{output.of}: upsert= needs a range that was planned for it, and range {loaded.id!r} was not: load "
            "without --range, or with a document that has 'upsert'"
        )
    upsert = loaded.upsert if output.upsert else None
    return frames.engine.session, output, name_at(checkpoint, loaded.id), upsert


Tables = Mapping[type, Callable[[RangeFrames, Any, str], Table]]

TABLES: Final[Tables] = {
    IcebergOutput: lambda frames, to, checkpoint: IcebergTable(*_lake(frames, to, checkpoint)),
    DeltaOutput: lambda frames, to, checkpoint: DeltaTable(*_lake(frames, to, checkpoint)),
    FilesOutput: lambda frames, output, checkpoint: Files(
        HadoopState.of(output.path, frames.engine.session),
        output,
        name_at(checkpoint, frames.loaded.id),
        _counted(checkpoint, frames),
    ),
}


def table_sink(
    arguments: Arguments, frames: RangeFrames, outputs: Outputs | None = None, tables: Tables = TABLES
) -> TableWriter:
    """Write to a table or to files, as `run_available_now(sink=table_sink)`; called once for each attempt.

    :param arguments: The application's command line.
    :param frames: The range, as DataFrames of its batches.
    :param outputs: The cluster that a topic of dead letters is in; by default the one that the options name.
    :param tables: How a table is opened, by the kind of its output.
    """
    output = _output(arguments)
    frames = replace(frames, making=replace(frames.making, columns=frames.made_columns()))
    _check_errors(frames)
    setup = Setup(
        lane="frames",
        writers=0,
        keep_order="none",
        placed=None,
        transform=arguments.transform_name,
        reason="tables are written from DataFrames",
        partitioner=_partitioner(arguments),
        code=arguments.code,
    )
    table = tables[type(output)](frames, output, arguments.checkpoint)
    loaded = frames.loaded
    name, letters = name_at(arguments.checkpoint, loaded.id), _dead_letters(arguments, frames, output, outputs)
    if not arguments.job.upserts:
        return writer_of(frames, OutputTable(table, loaded.id, name, letters), setup)
    upserts = UpsertTable(table, loaded.id, name, letters, topic_ids=loaded.topics, deletes=arguments.job.rows.deletes)
    return writer_of(frames, upserts, setup, UpsertWriter)


def _partitioner(arguments: Arguments) -> str:
    """What places dead letters, where they go to a topic."""
    to_topic = isinstance(arguments.job.rows.dead_letters, str)
    return WriteSettings(arguments.source.kafka).partitioner if to_topic else ""


def _counted(checkpoint: str, frames: RangeFrames) -> int:
    """The last batch that earlier attempts have counted; 0 if none was."""
    counts = Checkpoint(open_state(checkpoint, frames.engine.session)).counts()
    return 0 if counts is None else counts.batch


def _check_errors(frames: RangeFrames) -> None:
    if ERROR in frames.rows.columns:
        raise SettingError(
            f"the transform makes a column {ERROR!r}, which marks dead letters: for a table, only an arrow_transform "
            f"that keeps {SOURCE!r} may make it, such as one made with row_transform. Use one, or rename the column"
        )


def _dead_letters(
    arguments: Arguments, frames: RangeFrames, output: TableOutput, outputs: Outputs | None
) -> DeadLetters | None:
    """Where bad records go; None if the job names no place, so that none may be bad."""
    named = arguments.job.rows.dead_letters
    if isinstance(named, IcebergOutput | DeltaOutput):
        return _letter_table(named, arguments, frames, output)
    return None if named is None else DeadLetters(frames, _letter_topic(named, arguments, frames, outputs))


def _letter_table(
    named: IcebergOutput | DeltaOutput, arguments: Arguments, frames: RangeFrames, output: TableOutput
) -> DeadLetters:
    if (named.kind, named.place) == (output.kind, output.place):
        raise SettingError(f"dead letters cannot go to {named.of} itself: they have other columns; name another table")
    table: Any = TABLES[type(named)](frames, named, arguments.checkpoint)
    found = DeadLetterTable(table, name_at(arguments.checkpoint, frames.loaded.id), frames.engine)
    table.prepare(found.rows(frames.bad(), 1))
    return DeadLetters(frames, found)


def _letter_topic(topic: str, arguments: Arguments, frames: RangeFrames, outputs: Outputs | None) -> DeadLetterTopic:
    outputs = outputs or OutputBrokers(arguments.source.kafka)
    # Without the names of other topics: a record's own topic is where it was read from, and is not written to.
    settings = WriteSettings(
        arguments.source.kafka,
        use_partition="never",
        dead_letter_topic=topic,
        output_topics=(topic,),
        source="columns",
        lend=outputs.lend,
    )
    columns = list(spark_columns(include_headers=frames.loaded.include_headers).items())
    return DeadLetterTopic(frames.loaded.id, plan_write(settings, columns, outputs), outputs)


def _output(arguments: Arguments) -> TableOutput:
    if arguments.job.table is None:
        raise SettingError("this application writes tables: name one with --output, such as parquet:/data/orders")
    return arguments.job.table
