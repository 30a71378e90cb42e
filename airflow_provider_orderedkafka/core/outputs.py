"""The outputs named on a command line, which must not be topics that the load reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

from airflow_provider_orderedkafka.errors import SettingError

OPTIONS_VARIABLE = "ORDEREDKAFKA_OPTIONS"
"""The environment variable with more options of an application, secrets among them: a JSON object."""

OUTPUT, OUTPUT_TOPIC, SINK_OPTION = "--output", "--output-topic", "--sink-option"
OF_THE_SINK = "sink."
"""What options for the output's cluster begin with, where they travel with those for the source's."""
TRANSFORMS = ("--transform", "--arrow-transform")
SERVERS = "kafka.bootstrap.servers"

TOPICS = ("output_topic", "topic", "outputTopics", "deadLetterTopic")
SHAPING = (
    *("topic", "outputTopics", "keepOrder", "usePartition", "includeHeaders", "provenance"),
    *("kafka.partitioner", SERVERS),
    *("path", "table", "format"),
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
        if SERVERS in self.options:
            return {}
        given = ((name, self.options.get(name.lower(), "")) for name in TOPICS)
        return {topic.strip(): name for name, text in given for topic in text.split(",") if topic.strip()}

    @property
    def shape(self) -> dict[str, str]:
        return {name: self.options[name.lower()] for name in SHAPING if name.lower() in self.options}

    def names(self, *options: str) -> bool:
        return any(self.options.get(name.lower()) for name in options)


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
