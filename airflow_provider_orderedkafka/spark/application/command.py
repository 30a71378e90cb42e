"""The command line of the applications and its `--help`: a work, or flags that say the same. Needs no Spark, no Kafka.

Options are read by their names here, and nowhere else: what comes of them is a job.
"""

import argparse
import importlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NoReturn

from ...core.codec import PACKED, decode, unpacked
from ...core.order.positions import whole_number
from ...decoding.formats import Decode
from ...decoding.registry import Registry
from ...errors import SettingError
from ...job import AT, Allow, Job, Rows, Work
from ...kafka.clients.config import PREFIX, KafkaConfig
from ...outputs import (
    OF_THE_SINK,
    OPTIONS_VARIABLE,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
    KafkaOutput,
    Output,
    named,
)
from ..connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE, Option, range_document
from ..connector.options import SourceOptions, parse_options
from ..lanes.making import Arguments, Transform

WIDTH, INDENT = 80, 25

DESCRIPTION = """\
Load a range of Kafka offsets with Spark, in time order, and write a report.

A range says what one run reads: for each partition, from one offset to
another. With --range, that range is loaded. Without, the next range is planned
from the options, stored under the checkpoint, and loaded; if a run did not
finish, the next one continues with its range.

A run can be killed at any moment. Run it again with the same range and
checkpoint, and it continues where it was: nothing is lost and, with
provenance, nothing is written twice. After success, it does nothing."""

ARGUMENTS: Final[dict[str, tuple[tuple[str, str, str, str], ...]]] = {
    "what to load": (
        ("--work", "WORD", "text", argparse.SUPPRESS),
        ("--range", "RANGE", "text", "a range document, as JSON, packed, or as a path"),
        (
            *("--option", "NAME=VALUE", "pairs"),
            "an option of the source; can be repeated; see below. To hide secrets from process lists, put options as "
            f"a JSON object into the environment variable {OPTIONS_VARIABLE}",
        ),
        (
            *("--row-limit", "ROWS", "count"),
            "maximum number of rows to write, over all runs with this checkpoint: the first ones in order. Not with "
            "--range: a range has a limit of its own",
        ),
    ),
    "how to write it": (
        (
            *("--decode", "JSON", "text"),
            "decode keys and values before the transform, such as "
            '\'{"value": {"kind": "avro", "registry": "main"}}\', with --option registry.url=...',
        ),
        (
            *("--transform", "MODULE:FUNCTION", "text"),
            "a function from DataFrame to DataFrame that does not shuffle, and keeps the column _source. Ship its "
            "module with --py-files if executors do not have it",
        ),
        (
            *("--arrow-transform", "MODULE:FUNCTION", "text"),
            "a function from pyarrow.RecordBatch to pyarrow.RecordBatch instead; faster: records never leave Python",
        ),
        (
            *("--output", "OUTPUT", "text"),
            "where to write, as FORMAT:NAME, such as iceberg:lake.shop.orders or parquet:/data/orders, or as JSON with "
            "all fields of the output",
        ),
        ("--output-topic", "TOPIC", "text", "the topic to write to, instead of --output"),
        ("--sink-option", "NAME=VALUE", "pairs", "an option of the output topics; can be repeated; see below"),
        (
            *("--deletes", "CONDITION", "text"),
            'an SQL condition for rows that delete their key, such as "op = \'d\'"; for an --output with "upsert"',
        ),
        ("--bad-records", "MOST", "count", "maximum number of bad records in a run; needs --dead-letters"),
        (
            *("--dead-letters", "OUTPUT", "text"),
            "where bad records go: a topic or, for a table, another table, such as iceberg:lake.shop.orders_dead",
        ),
    ),
    "where to keep state and reports": (
        (
            *("--checkpoint", "LOCATION", "text"),
            "required: a folder on HDFS, in an object store or, with a local master, on local disk. With --range it "
            "belongs to that range; without, it has a folder for each range",
        ),
        ("--report", "FILE", "text", "where to copy the report; it is always written to <checkpoint>/report.json"),
        ("--attempt", "NUMBER", "count", argparse.SUPPRESS),
    ),
}
"""The arguments by groups: name, placeholder, kind of value, and help."""

MORE = """\
options of the source (--option); with --range, only kafka.*, registry.* and
sliceOffsets:
{source}

options of the output topics (--sink-option):
{sink}

examples:
  copy what is new since the last run into a topic, in time order
    spark-submit %(prog)s --checkpoint /data/checkpoints/orders \\
        --option kafka.bootstrap.servers=broker:9092 \\
        --option subscribe=orders,refunds --option startingOffsets=earliest \\
        --output-topic orders-ordered
  load a given range
    spark-submit %(prog)s --checkpoint /data/checkpoints/r1 \\
        --range range.json --option kafka.bootstrap.servers=broker:9092 \\
        --output-topic orders-ordered
  write Parquet files
    spark-submit ordered_table.py --checkpoint /data/checkpoints/orders \\
        --option kafka.bootstrap.servers=broker:9092 --option subscribe=orders \\
        --option startingOffsets=earliest --output parquet:/data/orders
  run on a cluster, and ship this package to it
    orderedkafka bundle bundle.zip
    spark-submit --master spark://host:7077 --py-files bundle.zip \\
        %(prog)s ...

exit codes:
  0    the range is loaded, there was nothing to load, or the row limit is
       reached
  2    the command line or a setting is wrong
  65   a retry will fail again: a person has to decide; the message says what
  75   a retry may succeed: run the same command again
  130  interrupted (143: terminated): run the same command again"""


def more() -> str:
    source = [option for option in APPLICATION_SOURCE.options if not option.elsewhere]
    return MORE.format(source="\n".join(map(_entry, source)), sink="\n".join(map(_entry, APPLICATION_SINK.options)))


def _entry(option: Option) -> str:
    start = f"  {option.name:<{INDENT - 2}}"
    return fill(option.full_help, WIDTH, initial_indent=start, subsequent_indent=" " * INDENT)


WITH_A_WORK: Final = {"work", "option", "sink_option", "report", "attempt"}
"""The flags that may be given together with a work."""

SERVERS: Final = f"{PREFIX}bootstrap.servers"
OF_TOPICS: Final = {
    "outputTopics": "topics",
    "keepOrder": "keep_order",
    "writers": "writers",
    "usePartition": "use_partition",
    "includeHeaders": "include_headers",
    "provenance": "provenance",
    "guarantee": "guarantee",
}
"""The options that are fields of a `KafkaOutput`."""

OF_GLUE: Final = "--JOB_RUN_ID"
"""What AWS Glue puts among an application's arguments, with more of its own that it lists nowhere."""

_KIND: Final = re.compile(r"[a-z]+:")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message}; --help explains the arguments")


def read_arguments(argv: Sequence[str], program: str) -> Arguments:
    """Parse the command line; `SettingError` if it is wrong."""
    parser = _parser(program)
    found = parser.parse_known_args(argv)[0] if OF_GLUE in argv else parser.parse_args(argv)
    environment = _from_airflow(found.option) | _strings(
        f"the environment variable {OPTIONS_VARIABLE}", os.environ.get(OPTIONS_VARIABLE)
    )
    to_cluster = {
        name.removeprefix(OF_THE_SINK): environment.pop(name)
        for name in sorted(environment)
        if name.startswith(OF_THE_SINK)
    }
    pairs = [text for text in found.option if not text.startswith(PACKED)]
    options = {**environment, **_pairs("--option", pairs)}
    for_sink = {**to_cluster, **_pairs("--sink-option", found.sink_option)}
    work = None if found.work is None else _work(found, for_sink)
    checkpoint = found.checkpoint if work is None else work.checkpoint
    if checkpoint is None:
        raise SettingError("--checkpoint is missing: name the folder that keeps what was done; --help explains it")
    job = work.job if work is not None else _job(found, for_sink)
    source = _source(options, found, work)
    return Arguments(
        checkpoint=checkpoint,
        job=job,
        source=source,
        cluster=_cluster(for_sink, job, source.kafka),
        attempt=found.attempt,
        report=found.report or (None if work is None else work.report),
        row_limit=found.row_limit,
        transform=_function("--transform", job.rows.transform),
        arrow_transform=_function("--arrow-transform", job.rows.arrow_transform),
        registry=Registry.of(options) if job.rows.registries else None,
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description=DESCRIPTION,
        epilog=more(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds: dict[str, dict[str, Any]] = {"count": {"type": _count}, "pairs": {"action": "append", "default": []}}
    for title, arguments in ARGUMENTS.items():
        group = parser.add_argument_group(title)
        for name, placeholder, kind, text in arguments:
            group.add_argument(name, metavar=placeholder, help=text, **kinds.get(kind, {}))
    return parser


def _work(found: argparse.Namespace, for_sink: Mapping[str, str]) -> Work:
    """The work, from its own text, a file, or the document beside the checkpoint."""
    named = {name for name, value in vars(found).items() if value not in (None, [])}
    if odd := sorted(named - WITH_A_WORK):
        raise SettingError(f"--{odd[0].replace('_', '-')} cannot be used with --work, which sets it: leave it out")
    if odd := sorted(name for name in for_sink if not name.lower().startswith(PREFIX)):
        raise SettingError(f"--sink-option {odd[0]} cannot be used with --work, which sets it: leave it out")
    word: str = found.work
    if word.startswith(PACKED):
        return Work.from_text(unpacked(word))
    text = _text_at(word.removeprefix(AT)) if word.startswith(AT) else _file(word)
    return Work.from_text(text)


def _file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingError(f"--work must be a value from Airflow, or a path, found {path[:80]!r}: {why}") from error


def _text_at(location: str) -> str:
    """What lies at a location, read with Spark's own file system where it is not this machine's."""
    from ..session.starting import lent_session
    from ..state.checkpoint import open_state

    folder, _, name = location.rpartition("/")
    with lent_session(folder) as session:
        text = open_state(folder, session).get(name)
    if text is None:
        raise SettingError(f"--work names {location!r}, which is gone: was it deleted? In Airflow, clear `resolve`")
    return text


def _source(options: Mapping[str, str], found: argparse.Namespace, work: Work | None) -> SourceOptions:
    given = {name.lower() for name in options}
    for option in APPLICATION_SOURCE.options:
        if option.elsewhere and option.name.lower() in given:
            raise SettingError(f"option {option.name!r} is an argument of an application: {option.elsewhere}")
    loaded = None if work is None else work.range
    if found.range is not None:
        loaded = range_document(found.range, "--range")
    if loaded is not None and found.row_limit is not None:
        raise SettingError(
            f"--row-limit {found.row_limit} cannot be used with --range: the range has its own "
            f"('rows_left': {loaded.rows_left}); leave --row-limit out"
        )
    return parse_options(options, stream=True, loaded=loaded, table=APPLICATION_SOURCE)


def _job(found: argparse.Namespace, for_sink: Mapping[str, str]) -> Job:
    if found.transform is not None and found.arrow_transform is not None:
        raise SettingError("--transform and --arrow-transform cannot be used together: leave one out")
    if (found.bad_records is None) != (found.dead_letters is None):
        raise SettingError("--bad-records says how many, --dead-letters where they go: give both, or neither")
    bad = None if found.bad_records is None else Allow(found.bad_records, _dead_letters_output(found.dead_letters))
    rows = Rows(
        decode=None if found.decode is None else Decode.from_text(found.decode),
        transform=found.transform,
        arrow_transform=found.arrow_transform,
        bad_records=bad,
        deletes=found.deletes,
    )
    job = Job(_output(found, for_sink), rows)
    job.check()
    return job


def _output(found: argparse.Namespace, for_sink: Mapping[str, str]) -> Output | None:
    options = APPLICATION_SINK.parsed({n: text for n, text in for_sink.items() if not n.lower().startswith(PREFIX)})
    if found.output is not None:
        if found.output_topic is not None or options:
            odd = next((f"{name!r} of --sink-option" for name in options), "--output-topic")
            raise SettingError(f"{odd} cannot be used with --output, which has all such settings: leave it out")
        return output_of("--output", found.output)
    if found.output_topic is not None and "outputTopics" in options:
        raise SettingError(
            "--output-topic and option 'outputTopics' cannot be used together: the first is the topic of every row, "
            "the second lists the topics that a column 'topic' may name; leave one out"
        )
    if found.output_topic is None and "outputTopics" not in options:
        return None
    fields: dict[str, Any] = {OF_TOPICS[name]: None if value == "none" else value for name, value in options.items()}
    return KafkaOutput(found.output_topic, **fields)


def output_of(argument: str, text: str) -> Output:
    """An output as `<format>:<name>`, or as JSON of its fields."""
    if not text.lstrip().startswith("{"):
        return named(text)
    try:
        found: Output = decode(Output, json.loads(text), argument, defaults=True)
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{argument}: {error}") from error
    return found


def _dead_letters_output(text: str) -> str | IcebergOutput | DeltaOutput:
    if not (_KIND.match(text) or text.lstrip().startswith("{")):
        return text
    found = output_of("--dead-letters", text)
    if isinstance(found, KafkaOutput):
        return str(found.topic)
    if isinstance(found, FilesOutput):
        raise SettingError(f"--dead-letters must be a topic or a table of Iceberg or Delta, found {text!r}")
    return found


def _cluster(for_sink: Mapping[str, str], job: Job, source: KafkaConfig) -> KafkaConfig:
    """The settings of the output's cluster: by default the source's."""
    options = {name.lower(): text for name, text in for_sink.items() if name.lower().startswith(PREFIX)}
    output = job.kafka
    if output is not None and output.kafka_conn_id is not None and SERVERS not in options:
        raise SettingError(
            f"the output is on the cluster of connection {output.kafka_conn_id!r}, whose address is missing: "
            f"set it with --sink-option {SERVERS}=..., or in {OPTIONS_VARIABLE} as '{OF_THE_SINK}{SERVERS}'"
        )
    own = {} if output is None else {f"{PREFIX}{name}": value for name, value in output.producer.items()}
    return KafkaConfig.from_options({**options, **own}, beneath=source)


def _count(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"it must be a whole number from 1 on, found {text!r}")
    return number


def _pairs(argument: str, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:  # what is not a pair may be a secret: it is not shown
            raise SettingError(f"{argument} must be NAME=VALUE, such as kafka.bootstrap.servers=broker:9092")
        if name.lower() in map(str.lower, found):
            raise SettingError(f"{argument} {name} is given twice: leave one out")
        found[name] = value
    return found


def _from_airflow(options: Sequence[str]) -> dict[str, str]:
    """Airflow's own settings of Kafka, which are one word; what the environment says goes before them."""
    words = [unpacked(text) for text in options if text.startswith(PACKED)]
    return {name: value for text in words for name, value in _strings("--option packed:...", text).items()}


def _strings(what: str, text: str | None) -> dict[str, str]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise SettingError(f"{what} must hold a JSON object of strings")  # it may be a secret: it is not shown
    return value


def _function(argument: str, text: str | None) -> Transform | None:
    if text is None:
        return None
    module_name, _, name = text.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        raise SettingError(
            f"{argument} {text!r}: {error}. Ship the module with --py-files, or install it where Spark runs"
        ) from error
    except AttributeError as error:
        raise SettingError(f"{argument} {text!r}: the module {module_name!r} has no {name!r}") from error
    except Exception as error:
        raise SettingError(
            f"{argument} {text!r}: importing the module {module_name!r} failed with {type(error).__name__}: {error}"
        ) from error
    if not callable(function):
        raise SettingError(f"{argument} {text!r} must name a function, found {function!r}")
    found: Transform = function
    return found
