"""The outputs named on a command line, which must not be topics that the load reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, Self

from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.core.notation.subscriptions import TOPIC_NAMES, is_topic_name
from airflow_provider_orderedkafka.errors import SettingError

OPTIONS_VARIABLE = "ORDEREDKAFKA_OPTIONS"
"""The environment variable with more options of an application, secrets among them: a JSON object."""

OUTPUT, OUTPUT_TOPIC, SINK_OPTION = "--output", "--output-topic", "--sink-option"
DEAD_LETTERS = "deadLetterTopic"
OF_THE_SINK = "sink."
"""What options for the output's cluster begin with, where they travel with those for the source's."""
TRANSFORMS = ("--transform", "--arrow-transform")
SERVERS = "kafka.bootstrap.servers"

EXAMPLE = "{'partitions': 6, 'config': {'retention.ms': 86_400_000}}"

TO_TOPICS = ("output_topic", "topic", "outputTopics")
TO_TABLES = ("path", "table")
"""The sink options that say where to write; `output_topic` stands for the argument."""

SHAPING = (
    *("topic", "outputTopics", "keepOrder", "usePartition", "includeHeaders", "provenance"),
    *("kafka.partitioner", SERVERS),
    *(*TO_TABLES, "format"),
)
"""The sink options that determine which rows are written, and where to. All others may change between attempts."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The output of an application, from its arguments. Sink options have lower-case names."""

    options: Mapping[str, str] = field(default_factory=dict)
    transform: str | None = None

    @classmethod
    def of(cls, output_topic: str | None = None, arguments: Sequence[Any] = ()) -> Self:
        """Parse a command line, ignoring the application's own arguments."""
        options = {"output_topic": output_topic} if output_topic else {}
        transform = None
        for name, value in _valued(arguments):
            if name == OUTPUT_TOPIC:
                options["topic"] = value
            elif name in TRANSFORMS:
                transform = value
            else:
                option, _, text = value.partition("=")
                options[option.lower()] = text
        return cls(options, transform)

    @property
    def topics(self) -> dict[str, str]:
        """The topics written to, with the option that names each; empty if they are on another cluster."""
        return {} if SERVERS in self.options else self.named

    @property
    def named(self) -> dict[str, str]:
        return {topic: name for topic, name, _ in self._named()}

    def check_names(self, load: str) -> None:
        """Raise `SettingError` if an output cannot be a topic's name; what is rendered later is checked then."""
        for topic, option, text in self._named():
            if "{" not in text and not is_topic_name(topic):
                raise SettingError(f"load {load!r}: {option}={topic!r} cannot be a topic's name; {TOPIC_NAMES}")

    @property
    def shape(self) -> dict[str, str]:
        return {name: self.options[name.lower()] for name in SHAPING if name.lower() in self.options}

    def names(self, *options: str) -> bool:
        return any(self.options.get(name.lower()) for name in options)

    def _named(self) -> list[tuple[str, str, str]]:
        """Each topic, the option that names it, and the option's whole text."""
        given = ((name, self.options.get(name.lower(), "")) for name in (*TO_TOPICS, DEAD_LETTERS))
        return [(topic.strip(), name, text) for name, text in given for topic in text.split(",") if topic.strip()]


@dataclass(frozen=True, slots=True)
class NewOutput:
    """How to create an output topic that does not exist. None: the broker's default."""

    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Any, load: str) -> Self:
        """Check it; `SettingError` for what cannot be meant."""
        if not isinstance(given, Mapping):
            raise SettingError(f"load {load!r}: create_output is {EXAMPLE}, for example, found {given!r}")
        known = [each.name for each in fields(cls)]
        for name, value in given.items():
            if name not in known:
                hint = meant(str(name), known, f"it takes {', '.join(known)}")
                raise SettingError(f"load {load!r}: create_output takes no {name!r}; {hint}")
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if name != "config" and value is not None and not whole:
                raise SettingError(f"load {load!r}: {name} of create_output is an integer from 1 on, found {value!r}")
        config = given.get("config") or {}
        if not isinstance(config, Mapping):
            raise SettingError(
                f"load {load!r}: config of create_output has a topic's settings, such as "
                f"{{'retention.ms': 86_400_000}}, found {config!r}"
            )
        return cls(given.get("partitions"), given.get("replication"), {str(k): _text(v) for k, v in config.items()})


def _text(value: Any) -> str:
    """A setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_not_fed_back(load: str, sources: Collection[str], outputs: Mapping[str, str]) -> None:
    """Raise `SettingError` if an output is also a source; `outputs` has the option that names each topic."""
    for topic in sorted(set(sources) & set(outputs)):
        raise SettingError(
            f"load {load!r} reads {', '.join(map(repr, sorted(sources)))} and would write into {topic!r} "
            f"({outputs[topic]}={topic!r}): each run would load what the one before it wrote; name a topic that it "
            "does not read"
        )


def _valued(arguments: Sequence[Any]) -> list[tuple[str, str]]:
    """The relevant arguments and their values, as `--name value` or `--name=value`."""
    known = (OUTPUT_TOPIC, SINK_OPTION, *TRANSFORMS)
    texts = [str(each) for each in arguments]
    found = [(name, value) for name, value in pairwise(texts) if name in known]
    joined = (text.partition("=") for text in texts)
    return found + [(name, value) for name, equals, value in joined if equals and name in known]
