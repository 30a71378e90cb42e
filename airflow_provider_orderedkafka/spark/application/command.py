"""The command line of the applications. Needs neither Spark nor Kafka."""

import argparse
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from airflow_provider_orderedkafka.core.order.positions import whole_number
from airflow_provider_orderedkafka.core.outputs import DEAD_LETTERS, OF_THE_SINK, OPTIONS_VARIABLE, TO_TOPICS
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.outputs import KafkaOutput, TableOutput, from_text, table_output
from airflow_provider_orderedkafka.spark.application.help import ARGUMENTS, DESCRIPTION, more
from airflow_provider_orderedkafka.spark.connector.option_parsing import range_document
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SOURCE
from airflow_provider_orderedkafka.spark.connector.options import SourceOptions, parse_options
from airflow_provider_orderedkafka.spark.connector.sink_options import SinkOptions, application_sink
from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments, Transform


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message}; --help explains the arguments")


def read_arguments(argv: Sequence[str], program: str) -> Arguments:
    """Parse the command line; `SettingError` if it is wrong."""
    found = _parser(program).parse_args(argv)
    if found.transform is not None and found.arrow_transform is not None:
        raise SettingError("--transform and --arrow-transform cannot be used together: leave one out")
    told = _from_environment()
    to_cluster = {
        name.removeprefix(OF_THE_SINK): told.pop(name) for name in sorted(told) if name.startswith(OF_THE_SINK)
    }
    options = {**told, **_pairs("--option", found.option)}
    decode = None if found.decode is None else Decode.from_text(found.decode)
    source = _source(options, found.range, found.row_limit)
    sink, output = _sink(found, to_cluster, decode, source.kafka)
    return Arguments(
        checkpoint=found.checkpoint,
        source=source,
        sink=sink,
        output=output,
        attempt=found.attempt,
        report=found.report,
        row_limit=found.row_limit,
        transform=_function("--transform", found.transform),
        arrow_transform=_function("--arrow-transform", found.arrow_transform),
        decode=decode,
        registry=Registry.of(options) if decode is not None and decode.registries else None,
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description=DESCRIPTION,
        epilog=more(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds: dict[str, dict[str, Any]] = {
        "count": {"type": _count},
        "pairs": {"action": "append", "default": []},
        "required": {"required": True},
    }
    for title, arguments in ARGUMENTS.items():
        group = parser.add_argument_group(title)
        for name, placeholder, kind, text in arguments:
            group.add_argument(name, metavar=placeholder, help=text, **kinds.get(kind, {}))
    return parser


def _source(options: Mapping[str, str], document: str | None, row_limit: int | None) -> SourceOptions:
    given = {name.lower() for name in options}
    for option in APPLICATION_SOURCE.options:
        if option.elsewhere and option.name.lower() in given:
            raise SettingError(f"option {option.name!r} is an argument of an application: {option.elsewhere}")
    loaded = None if document is None else range_document("--range", document)
    if loaded is not None and row_limit is not None:
        raise SettingError(
            f"--row-limit {row_limit} cannot be used with --range: the range has its own "
            f"('rows_left': {loaded.rows_left}); leave --row-limit out"
        )
    return parse_options(options, stream=True, loaded=loaded, table=APPLICATION_SOURCE)


def _sink(
    found: argparse.Namespace, to_cluster: Mapping[str, str], decode: Decode | None, source: KafkaConfig
) -> tuple[SinkOptions, TableOutput | None]:
    output, given = _output(found.output, found.output_topic, _pairs("--sink-option", found.sink_option))
    dead = None if decode is None else decode.dead_letters
    sink = application_sink(
        {**to_cluster, **given},
        source,
        topic=found.output_topic,
        output=output if isinstance(output, KafkaOutput) else None,
        dead_letters=dead if isinstance(dead, str) else None,
    )
    return sink, None if isinstance(output, KafkaOutput) else output


def _output(
    document: str | None, topic: str | None, given: Mapping[str, str]
) -> tuple[KafkaOutput | TableOutput | None, Mapping[str, str]]:
    """The output that is said as a value or by the options of a table, and the options that are left for the sink."""
    of_table = {name: text for name, text in given.items() if name.lower() != DEAD_LETTERS.lower()}
    table = table_output(of_table)
    to_topics = topic is not None or any(name.lower() in map(str.lower, TO_TOPICS) for name in given)
    if document is not None and (to_topics or table is not None):
        raise SettingError("--output says where to write: leave out --output-topic, and what names a topic or a table")
    if table is not None and to_topics:
        raise SettingError(f"the output is set twice: by a topic, and by options as {table.of}: leave one out")
    if document is not None:
        return from_text(document), given
    return table, given if table is None else {name: given[name] for name in given.keys() - of_table}


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


def _from_environment() -> dict[str, str]:
    import json

    text = os.environ.get(OPTIONS_VARIABLE)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise SettingError(f"the environment variable {OPTIONS_VARIABLE} must hold a JSON object of strings")
    return value


def _function(argument: str, text: str | None) -> Transform | None:
    if text is None:
        return None
    module_name, colon, name = text.partition(":")
    if not colon or not module_name or not name:
        raise SettingError(f"{argument} must be module:function, such as my_transforms:enrich, found {text!r}")
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
