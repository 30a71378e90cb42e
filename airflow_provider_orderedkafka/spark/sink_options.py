"""The options of the sink, as Spark's Kafka sink has them, and a few of ours.

    parse_sink_options(given, columns, overwrite=False) -> WriteSettings

Spark hands options over in lower case. An unknown one is an error that names the nearest known one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from airflow_provider_orderedkafka.core.spelling import meant
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.config import PREFIX, KafkaConfig
from airflow_provider_orderedkafka.kafka.write_settings import Column, UsePartition, WriteSettings, source_of

_FROM_SPARK: Final = frozenset({"checkpointlocation", "queryname"})


def _text(name: str, given: str) -> str:
    if not given.strip():
        raise SettingError(f"option {name!r} must not be empty")
    return given.strip()


def _flag(name: str, given: str) -> bool:
    if given.strip().lower() not in ("true", "false"):
        raise SettingError(f"option {name!r} must be 'true' or 'false', found {given!r}")
    return given.strip().lower() == "true"


def _names(name: str, given: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(each.strip() for each in given.split(",") if each.strip()))
    if not names:
        raise SettingError(f"option {name!r} must be topics separated by commas, found {given!r}")
    return names


PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "topic": _text,
    "outputTopics": _names,
    "deadLetterTopic": _text,
    "usePartition": _flag,
    "includeHeaders": _flag,
    "provenance": _flag,
}

_INSTEAD: Final = {
    "path": "where to write is the option 'topic'; call save() or start() without a path",
    "subscribe": "this is an option of reading; where to write is 'topic'",
    "keepOrder": "call keep_order(df) before writing",
}


def parse_sink_options(
    given: Mapping[str, str], columns: Sequence[Column], *, overwrite: bool = False
) -> WriteSettings:
    """What a writer was asked for; a SettingError names the option that is wrong and the way out.

    Without the option `provenance` it is written where the rows say where they came from, though not which range
    they belong to: whoever writes adds that.
    """
    if overwrite:
        raise SettingError("a topic can only be appended to: use mode('append') instead of mode('overwrite')")
    config, values = KafkaConfig.from_options(given), _values(given)
    return WriteSettings(
        config,
        topic=values.get("topic"),
        use_partition=_use_partition(values.get("usePartition")),
        use_headers=values.get("includeHeaders", True),
        dead_letter_topic=values.get("deadLetterTopic"),
        source=_source(values.get("provenance"), columns),
        output_topics=_output_topics(values),
    )


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    canonical = {name.lower(): name for name in PARSERS}
    values = {}
    for name, text in given.items():
        lower = name.lower()
        if lower in canonical:
            values[canonical[lower]] = PARSERS[canonical[lower]](canonical[lower], text)
        elif not lower.startswith(PREFIX) and lower not in _FROM_SPARK:
            raise _unknown(name)
    return values


def _unknown(name: str) -> SettingError:
    for other, instead in _INSTEAD.items():
        if name.lower() == other.lower():
            return SettingError(f"option {other!r} has no meaning for the sink: {instead}")
    hint = meant(name, PARSERS, f"known are 'kafka.*' and {', '.join(map(repr, PARSERS))}")
    return SettingError(f"unknown option {name!r} of the sink: {hint}")


def _use_partition(asked: bool | None) -> UsePartition:  # noqa: FBT001 - an option's value
    return "given" if asked is None else "always" if asked else "never"


def _source(provenance: bool | None, columns: Sequence[Column]) -> Any:  # noqa: FBT001 - an option's value
    found = source_of(columns)
    return None if provenance is False else found or ("struct" if provenance else None)


def _output_topics(values: Mapping[str, Any]) -> tuple[str, ...]:
    topics: tuple[str, ...] = values.get("outputTopics", ())
    if "topic" in values and topics:
        raise SettingError(
            "options 'topic' and 'outputTopics' exclude each other: the first says where every row goes, "
            "the second what a column 'topic' may name"
        )
    return topics
