"""The forms in which a person starts a run: their fields, and what the run makes of what was filled in.

A form's fields are marked in their schemas, so that a run knows them from other params of the DAG. What it asks for
counts when the range is planned: after that, the range says it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from .core.next_range import NO_BOUND, AtMost
from .core.notation.spelling import meant
from .core.notation.starts import parse_start
from .errors import SettingError
from .job import Job
from .outputs import FILES, NewTopics
from .parsing import Form
from .storage import uri_of

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context, Param

MARK: Final = "x-orderedkafka"
TAKEN: Final = "x-orderedkafka-taken"
FORMATS: Final = ("topic", "parquet", "delta", "iceberg")
KNOWN: Final = tuple(dict.fromkeys([*FORMATS, *FILES]))
TIMES: Final = r"^\s*(earliest|latest|committed:|-?[0-9]|[{])"
"""How a time begins. `resolve` says what is wrong with the rest."""

HOW: Final = "How"
"""The section of what is seldom filled in. Fields without one stand in Airflow's own, which is open."""

LOAD_NOW: Final = "Load what is there. Otherwise wait until there is enough, like a scheduled run."
LOAD_OFFSETS: Final = (
    "This run loads the first ones in order, the next run goes on from there. Empty: the load's own limit."
)
LOAD_ROWS: Final = (
    "This run writes the first ones in order, the next run goes on from there. Empty: the load's own limit."
)
START: Final = (
    "'earliest', a timestamp with a time zone (2026-01-31T12:00:00Z), a time ago (-2h), or offsets as JSON "
    '({"orders": [0, 0, 0], "refunds": [0]}).'
)
END: Final = "As above, or 'latest'. Exclusive."
PLACES: Final = ("earliest", "latest", "-2h", "2026-01-31T12:00:00Z")
"""What Airflow says of something else: that it is not one of these. Of a pattern, it would show the pattern."""

KIND: Final = "A topic, a folder of Parquet files, or a table. Spark has to know an Iceberg table's catalog."
TARGET: Final = "A topic, a location (s3a://lake/replayed), or a table (catalog.schema.table), best a new one."
NEW_TOPIC: Final = "Partitions of a new topic"
PARTITIONS: Final = "A topic that does not exist is created with this number of partitions. Empty: it has to exist."
FILL_IN: Final = f"fill in {NEW_TOPIC!r} of the form, and the topic is created"
"""The way out where the topic does not exist."""

DUPLICATES_TITLE: Final = "Allow duplicates"
DUPLICATES: Final = "Needed if another load writes there: its rows are then there twice."
NO: Final = False
FIRST_ROWS: Final = "The first ones in order. Empty: all."
DRY_RUN: Final = "Show the plan, and load nothing: see the log of `resolve`, or its XCom `plan`."


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked of one run: whether it begins now, if the form says so, and how much it loads at most."""

    now: bool | None = None
    most: AtMost = NO_BOUND


def load_params(*, now: bool = True, row_limit: bool = True) -> "dict[str, Param]":
    """The `params` of a DAG with an `ordered_load`: a form for the runs that a person starts.

    Its fields are `now`, `max_offsets` and `row_limit`. The last two hold for this run, besides those of the load: the
    smaller ones count. They are written down with the range, so a retry or another run reads the same.

    :param now: Whether a run loads what is there unless the form says otherwise; if not, it waits like a scheduled one.
    :param row_limit: Whether it has that field, which does not go together with `Allow(...)` of bad records.
    """
    bound = {"type": ["null", "integer"], "minimum": 1}
    rows = {"row_limit": _field("load", "Max rows", None, LOAD_ROWS, **bound)}
    return {
        "now": _field("load", "Load now", now, LOAD_NOW, type="boolean"),
        "max_offsets": _field("load", "Max offsets", None, LOAD_OFFSETS, **bound),
        **(rows if row_limit else {}),
    }


def replay_params(
    target: str,
    *,
    start: str = "-1h",
    end: str = "latest",
    formats: Collection[str] = FORMATS,
    taken: Collection[str] = (),
    row_limit: bool = True,
) -> "dict[str, Param]":
    """The `params` of a DAG with an `ordered_replay`: a form that says what is loaded again, and where to.

    Its fields are `start`, `end`, `format`, `target`, `partitions` (of a topic that is created, if it may write to
    one), `duplicates_are_fine`, `row_limit` and `dry_run`. A field that is not one of them, and a target that is taken,
    fail the run before anything is planned.

    :param target: The topic, location or table that it writes to unless the form says otherwise.
    :param start: Where it starts, unless the form says otherwise; as for `ordered_replay`.
    :param end: Where it ends; the same values.
    :param formats: What it may write to, such as `["topic"]`; the first one is chosen.
    :param taken: Topics, tables and locations that other loads write to: only with `duplicates_are_fine` it may, too.
    :param row_limit: Whether it has that field, which does not go together with `Allow(...)` of bad records.
    """
    for name, value in (("start", start), ("end", end)):
        parse_start(value, name)
    kinds, others = _several(formats), _several(taken)
    for odd in [each for each in kinds or [""] if each not in KNOWN]:
        hint = meant(odd, KNOWN, f"formats are {', '.join(KNOWN)}")
        raise SettingError(f"replay_params() formats must name what it may write to, found {odd!r}; {hint}")
    yes: dict[str, Any] = {"type": "boolean", "section": HOW}
    bound: dict[str, Any] = {"type": ["null", "integer"], "minimum": 1}
    partitions = {"partitions": _field("replay", NEW_TOPIC, None, PARTITIONS, **bound)}
    rows = {"row_limit": _field("replay", "Max rows", None, FIRST_ROWS, section=HOW, **bound)}
    return {
        "start": _time("From", start, START),
        "end": _time("To", end, END),
        "format": _field("replay", "Format", kinds[0], KIND, enum=kinds),
        "target": _field("replay", "Target", target, TARGET, type="string", minLength=1),
        **(partitions if "topic" in kinds else {}),
        "duplicates_are_fine": _field("replay", DUPLICATES_TITLE, NO, DUPLICATES, **{TAKEN: sorted(others)}, **yes),
        **(rows if row_limit else {}),
        "dry_run": _field("replay", "Dry run", NO, DRY_RUN, **yes),
    }


def _several(texts: Collection[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _field(form: Form, title: str, default: Any, description: str, **schema: Any) -> "Param":
    from airflow.sdk import Param

    marked: dict[str, Any] = {"title": title, MARK: form, **schema}
    return Param(default, description, **marked)


def _time(title: str, default: str, description: str) -> "Param":
    """A field without a mark: Airflow prints the part of its schema that refuses a value."""
    from airflow.sdk import Param

    rule: dict[str, Any] = {"if": {"pattern": TIMES}, "else": {"enum": list(PLACES)}}
    schema: dict[str, Any] = {"title": title, "type": "string", **rule}
    return Param(default, description, **schema)


def fields_of(dag: "DAG", form: Form) -> dict[str, Mapping[str, Any]]:
    schemas = {name: dag.params.get_param(name).schema for name in dag.params}
    return {name: schema for name, schema in schemas.items() if schema.get(MARK) == form}


def asked(context: "Context") -> Asked:
    """What the form of a load asks of this run; nothing where there is none.

    `SettingError` for a field that it does not have.
    """
    params, fields = context["params"], fields_of(context["dag"], "load")
    if not fields:
        return Asked()
    _check_known(context)
    found = {name: params.get(name) for name in fields}
    return Asked(found.get("now"), AtMost(found.get("max_offsets"), found.get("row_limit")))


def check_replay(context: "Context", job: Job) -> None:
    """`SettingError` for a field that the form of a replay does not have, and duplicates that were not agreed to."""
    fields, params = fields_of(context["dag"], "replay"), context["params"]
    if not fields:
        return
    _check_known(context)
    taken = {uri_of(each) for each in fields.get("duplicates_are_fine", {}).get(TAKEN, ())}
    places = (job.table.place,) if job.table is not None else job.topics
    found = next((place for place in places if uri_of(place) in taken), None)
    if found is not None and not params.get("duplicates_are_fine"):
        raise SettingError(
            f"{found!r} is written to by another load: its rows would be there twice; name a new one, or set "
            f"{DUPLICATES_TITLE!r} of the form"
        )


def with_new_topic(context: "Context", job: Job) -> Job:
    """The job, whose topic is created with the partitions that the form of a replay says, if it says any."""
    partitions = context["params"].get("partitions") if "partitions" in fields_of(context["dag"], "replay") else None
    if job.kafka is None or partitions is None:
        return job
    return replace(job, to=replace(job.kafka, create=replace(job.kafka.create or NewTopics(), partitions=partitions)))


def _check_known(context: "Context") -> None:
    """Airflow accepts any field in a run's `conf`, and adds it to the params."""
    known = set(context["dag"].params)
    unknown = sorted(set(context["dag_run"].conf or {}) - known)
    if unknown:
        hint = meant(unknown[0], known, f"it takes {', '.join(map(repr, sorted(known)))}")
        raise SettingError(f"the form has no {unknown[0]!r}; {hint}")
