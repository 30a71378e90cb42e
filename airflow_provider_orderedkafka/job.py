"""What is to be done with a range: where its rows go, and how they are made; values for DAG files and documents.

`Job` is all that determines the rows beyond the range itself. It is stored once, by its hash, and has no secret. `Work`
is what an application gets: the range, the job, and where its state belongs, as one word.

Whether a field may change while a range is loaded is said in `RULES`:

stays   it shapes the rows, or says where they are: it may change until the first batch is noted, and not after
grows   more may be named at any time, and "fail" may become another value: what is noted already stays as it was
ends    it may be switched off at any time, and what cannot be known after that is counted
free    it may change at any time: an attempt takes what the DAG says now
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Final, Literal, TypeVar

from .core.checkpoint_files import DOCUMENT, WORKS
from .core.codec import Document, canonical, packed
from .core.documents import Range
from .core.notation.secrets import masked
from .core.notation.spelling import arguments
from .core.order.positions import is_integer
from .decoding.formats import Decode, Format
from .errors import SettingError
from .outputs import DeltaOutput, FilesOutput, IcebergOutput, KafkaOutput, Output, TableOutput, named

Rule = Literal["stays", "grows", "ends", "free"]

LONGEST: Final = 4_000
"""Characters of a word that every service takes as an argument."""

AT: Final = "at:"
"""What a word begins with that says where the work is to be read."""

DISTRIBUTION: Final = "airflow-provider-orderedkafka"

Value = TypeVar("Value")


def bundle_name() -> str:
    """What this package's code is called in a folder where a service looks for it: each release asks for its own."""
    return f"orderedkafka-{version(DISTRIBUTION)}.zip"


@arguments()
@dataclass(frozen=True, slots=True)
class Application:
    """A program of your own that calls `run_available_now`, or arguments for the packaged one.

    :param file: Its path, relative to the DAG file; empty for the packaged one.
    :param arguments: Further arguments for it, in front of the project's own. (may be templates)
    """

    file: str = ""
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.file, str):
            raise SettingError(f"Application file must be a path, found {self.file!r}")
        given: Any = self.arguments
        if isinstance(given, str):
            raise SettingError(f"Application arguments must be several texts, found {self.arguments!r}")
        object.__setattr__(self, "arguments", tuple(map(str, self.arguments)))
        said = " ".join([self.file, *self.arguments])
        if masked(said) != said:
            raise SettingError(
                f"Application has a secret, {masked(said).strip()!r}, and everyone can see the file and the arguments: "
                "keep it in the Airflow connection"
            )


@arguments()
@dataclass(frozen=True, slots=True)
class Allow:
    """How many records of a run may be bad: impossible to decode, to make rows of, or to write.

    :param most: How many.
    :param to: Where their original bytes go: a topic, or, for a load that writes a table, another table, such as
        `IcebergOutput("lake.shop.orders_dead")`.
    """

    most: int
    to: str | IcebergOutput | DeltaOutput

    def __post_init__(self) -> None:
        if not is_integer(self.most, 1):
            raise SettingError(f"Allow takes the number of records that may be bad, from 1 on, found {self.most!r}")
        if not isinstance(self.to, str | IcebergOutput | DeltaOutput) or not self.to:
            raise SettingError(
                f"Allow to= must be a topic, or IcebergOutput(...) or DeltaOutput(...), found {self.to!r}"
            )
        if getattr(self.to, "new_columns", "") == "ignore":
            raise SettingError("Allow to=: a dead letter is kept whole: set new_columns='add' or 'fail', not 'ignore'")


@arguments(
    max_bad_records="set it with bad_records=Allow(10, to='orders-dead')",
    dead_letters="set it with bad_records=Allow(10, to='orders-dead')",
)
@dataclass(frozen=True, slots=True)
class Rows:
    """How records become rows.

    :param decode: How keys and values are decoded before the transform, such as `Decode(value=Avro(registry="main"))`.
    :param transform: A function from DataFrame to DataFrame, as `"module:function"`; its module may lie beside the DAG
        file, and then travels with the application.
    :param arrow_transform: A function from `pyarrow.RecordBatch` to `pyarrow.RecordBatch` instead, as
        `"module:function"`; faster. `"debezium"` makes rows of change events.
    :param application: A program of your own instead.
    :param bad_records: How many records may be bad, and where they go. None: the first one ends the load.
    :param deletes: For an output with `upsert=`: which rows delete their key, as SQL, such as `"op = 'd'"`. None: those
        whose column `_is_deleted` says so, or without one, those whose `value` is null.
    """

    decode: Decode | None = None
    transform: str | None = None
    arrow_transform: str | None = None
    application: Application | None = None
    bad_records: Allow | None = None
    deletes: str | None = None

    def __post_init__(self) -> None:
        if self.deletes is not None and not (isinstance(self.deletes, str) and self.deletes.strip()):
            raise SettingError(f"Rows deletes must be a condition in SQL, such as \"op = 'd'\", found {self.deletes!r}")
        for name, kind in (("decode", Decode), ("application", Application), ("bad_records", Allow)):
            if not isinstance(getattr(self, name), kind | None):
                raise SettingError(
                    f"Rows {name} must be {kind.__name__}(...), found {getattr(self, name)!r}{self._meant}"
                )
        own = self.application is not None and self.application.file
        given = [name for name in ("transform", "arrow_transform") if getattr(self, name) is not None]
        if len(given) + bool(own) > 1:
            raise SettingError(f"Rows has {' and '.join([*given, *(['application'] if own else [])])}: leave one out")
        object.__setattr__(self, "arrow_transform", SHIPPED.get(str(self.arrow_transform), self.arrow_transform))
        for name in given:
            _check_named(name, getattr(self, name))

    @property
    def _meant(self) -> str:
        return ": write Decode(value=...) around it" if isinstance(self.decode, Format) else ""

    @property
    def function(self) -> str | None:
        """The transform of either kind."""
        return self.transform or self.arrow_transform

    @property
    def dead_letters(self) -> str | IcebergOutput | DeltaOutput | None:
        return None if self.bad_records is None else self.bad_records.to

    @property
    def registries(self) -> list[str]:
        return [] if self.decode is None else self.decode.registries

    @property
    def needed(self) -> list[str]:
        """What has to be installed where they are made, beyond what every load needs."""
        return [] if self.decode is None else self.decode.needed


SHIPPED: Final = {"debezium": "airflow_provider_orderedkafka.decoding.debezium:unwrap"}
"""Arrow transforms that come with this package, by their names."""


def _check_named(name: str, text: Any) -> None:
    module, _, function = str(text).partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        hint = f": that is an arrow_transform={text!r}" if str(text) in SHIPPED else ""
        raise SettingError(f"{name} must be 'module:function', such as 'my_transforms:enrich', found {text!r}{hint}")


@dataclass(frozen=True, slots=True)
class Job(Document):
    """What to do with a range. `to` is None where a program of your own writes elsewhere.

    `written` is the place of `to` as its author wrote it, where that was a template: by it a change is recognised.
    """

    to: Output | None
    rows: Rows = field(default_factory=Rows)
    written: str = ""

    @property
    def key(self) -> str:
        return sha256(canonical(self.to_value()).encode()).hexdigest()[:16]

    @property
    def kafka(self) -> KafkaOutput | None:
        return self.to if isinstance(self.to, KafkaOutput) else None

    @property
    def table(self) -> TableOutput | None:
        return None if isinstance(self.to, KafkaOutput) else self.to

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it writes to, on the output's cluster, that of dead letters included."""
        letters = self.rows.dead_letters
        named = self.kafka.named if self.kafka is not None else ()
        return tuple(dict.fromkeys([*named, *([letters] if isinstance(letters, str) else [])]))

    @property
    def upserts(self) -> bool:
        return bool(getattr(self.to, "upsert", ()))

    def check(self) -> None:
        letters = self.rows.dead_letters
        if self.rows.deletes is not None and self.to is not None and not self.upserts:
            raise SettingError(
                f"Rows deletes={self.rows.deletes!r} says which rows delete their key, but {self.to.of} has no key: "
                "name the columns of a key, as with DeltaOutput(..., upsert=['id']), or leave deletes out"
            )
        if not isinstance(letters, str | None) and letters.upsert:
            raise SettingError(f"Allow to={letters.of}: dead letters have no key, and are only added: leave upsert out")
        if self.kafka is not None and not isinstance(letters, str | None):
            raise SettingError(
                f"Allow to={letters.of}: if rows go to Kafka, their dead letters go there in the same write: name a "
                "topic, such as Allow(10, to='orders-dead')"
            )
        if self.kafka is not None and letters in self.kafka.named:
            raise SettingError(f"'deadLetterTopic' must be another topic than the output, found {letters!r} for both")

    def changes(self, now: "Job") -> str:
        """What stays, and is otherwise in the job that is asked for now, in words; empty if nothing is."""
        written = []
        if self.written and now.written and self.written != now.written:
            written = [f"to was {self.written!r}, and is now {now.written!r}"]
        return "; ".join([*written, *_changes(self, now.at(self) if self.written and now.written else now, "")])

    def at(self, before: "Job") -> "Job":
        """The same, at the place that a job before it was rendered to."""
        return self if self.to is None else replace(self, to=_moved(self.to, before.to))


def job_of(to: Output | str | None, rows: Rows, render: Callable[[str], str]) -> Job:
    if isinstance(to, str):
        return Job(named(render(to)), rows, to)
    if to is None or not to.templated:
        return Job(to, rows)
    return Job(to.rendered(render), rows, to.place)


def _moved(to: Output, before: Output | None) -> Output:
    names = ("topic", "topics", "table", "path")
    if type(before) is not type(to):
        return to
    return replace(to, **{name: getattr(before, name) for name in names if hasattr(to, name)})


_OF_TABLES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("create", "partition_by", "properties", "options"), "free"),
    "new_columns": "grows",
}

RULES: Final[Mapping[type, Mapping[str, Rule]]] = {
    Job: {"to": "stays", "rows": "stays", "written": "free"},
    Rows: {
        **dict.fromkeys(("decode", "transform", "arrow_transform", "application", "deletes"), "stays"),
        "bad_records": "grows",
    },
    Allow: {"most": "free", "to": "stays"},
    Application: {"file": "stays", "arguments": "stays"},
    KafkaOutput: {
        **dict.fromkeys(("topic", "keep_order", "kafka_conn_id"), "stays"),
        **dict.fromkeys(("use_partition", "include_headers", "guarantee"), "stays"),
        "topics": "grows",
        "provenance": "ends",
        **dict.fromkeys(("writers", "create", "producer"), "free"),  # what of it places keys, an application compares
    },
    IcebergOutput: {**dict.fromkeys(("table", "upsert"), "stays"), **_OF_TABLES},
    DeltaOutput: {**dict.fromkeys(("path", "table", "upsert"), "stays"), **_OF_TABLES},
    FilesOutput: {"path": "stays", "format": "stays", "options": "free"},
}
"""What may change between two attempts, by field. A value of another class is compared as a whole."""


OPTIONS: Final = ("--option", "--sink-option")
"""The flags that go with a work: an application compares by itself what comes of them."""

SAID_AT_ONCE: Final = tuple(f"{flag}=" for flag in OPTIONS)


def _shaping(value: Any) -> Any:
    """What of a value may shape rows; what the arguments of a program of one's own do is not known."""
    if not isinstance(value, Application) or value.file:
        return value
    others = ((flag, each) for flag, each in pairwise(("", *value.arguments)) if not {flag, each} & {*OPTIONS})
    kept = tuple(each for _, each in others if not each.startswith(SAID_AT_ONCE))
    return replace(value, arguments=kept) if kept else None


def _changes(was: Any, now: Any, path: str) -> Iterator[str]:
    rules = RULES.get(type(was))
    if rules is None or type(now) is not type(was):
        if was != now:
            yield f"{path} was {was!r}, and is now {now!r}"
        return
    for name, rule in rules.items():
        before, after = _shaping(getattr(was, name)), _shaping(getattr(now, name))
        if rule == "stays" or (rule == "grows" and not _grown(before, after)) or (rule == "ends" and after):
            yield from _changes(before, after, f"{path}.{name}" if path else name)


def _grown(before: Any, after: Any) -> bool:
    return before in (None, "fail") or (isinstance(before, tuple) and bool(before) and set(before) <= set(after))


@dataclass(frozen=True, slots=True)
class Work(Document):
    """What an application gets: the range, the job, and the locations of its state and of a copy of its report."""

    range: Range
    job: Job
    checkpoint: str
    report: str | None = None

    def word(self, keep: Callable[[str, str], None]) -> str:
        """As one word; one that would be too long is kept beside the checkpoint, by what it says, and the word says so.

        So an application that begins late reads what it was begun with, whatever was asked for since.
        """
        text = self.to_text()
        word = packed(text)
        if len(word) <= LONGEST:
            return word
        name = f"{WORKS}/{sha256(text.encode()).hexdigest()[:16]}{DOCUMENT}"
        keep(name, text)
        return f"{AT}{self.checkpoint.rstrip('/')}/{name}"
