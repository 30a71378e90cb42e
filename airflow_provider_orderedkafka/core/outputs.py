"""The outputs named on a command line; never a topic that the load reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

from airflow_provider_orderedkafka.errors import SettingError

OPTIONS_VARIABLE = "ORDEREDKAFKA_OPTIONS"
"""The environment variable in which an application finds more options, those with secrets among them: a JSON object."""

OUTPUT_TOPIC, SINK_OPTION = "--output-topic", "--sink-option"
TRANSFORMS = ("--transform", "--arrow-transform")
SERVERS = "kafka.bootstrap.servers"

TOPICS = ("output_topic", "topic", "outputTopics", "deadLetterTopic")
SHAPING = (
    *("topic", "outputTopics", "keepOrder", "usePartition", "includeHeaders", "provenance"),
    *("kafka.partitioner", SERVERS),
    *("path", "table", "format"),
)
"""The sink options that say which rows are written, and where to.

No other one need stay as it was: what is tuned, or added to get out of an error, leaves the rows in their places.
"""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the arguments of an application say of its output; sink options by their names in lower case."""

    options: Mapping[str, str] = field(default_factory=dict)
    transform: str | None = None

    @classmethod
    def of(cls, output_topic: str | None = None, arguments: Sequence[Any] = ()) -> Self:
        """Read the command line; arguments of the application's own are passed over."""
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
        """What names each topic that is written to; none where that is another cluster, whose topics are others."""
        if SERVERS in self.options:
            return {}
        given = ((name, self.options.get(name.lower(), "")) for name in TOPICS)
        return {topic.strip(): name for name, text in given for topic in text.split(",") if topic.strip()}

    @property
    def shape(self) -> dict[str, str]:
        """The options that say which rows are written and where to."""
        return {name: self.options[name.lower()] for name in SHAPING if name.lower() in self.options}

    def names(self, *options: str) -> bool:
        """Whether one of these sink options is set."""
        return any(self.options.get(name.lower()) for name in options)


def check_not_fed_back(load: str, sources: Collection[str], outputs: Mapping[str, str]) -> None:
    """`SettingError` where an output is among the sources; `outputs` says what names each topic."""
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
