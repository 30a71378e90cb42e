"""Decide which offsets a run loads, and store them before anything is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from airflow.sdk import BaseOperator

from airflow_provider_orderedkafka.context import (
    beside,
    books_of,
    fail,
    interval_of,
    ledger_asset,
    memory_of,
    refuse_backfill,
    skip,
)
from airflow_provider_orderedkafka.core.codec import packed
from airflow_provider_orderedkafka.core.documents import Kind, Range
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.core.notation.starts import Start, goes_back, parse_start
from airflow_provider_orderedkafka.core.outputs import NewOutput, check_not_fed_back
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.links import RangeLink
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.books import Books
from airflow_provider_orderedkafka.loads.loading import place_of
from airflow_provider_orderedkafka.loads.resolving import PlanOwn, Resolved, claim_key, resolve, resolve_own
from airflow_provider_orderedkafka.loads.shown import in_words
from airflow_provider_orderedkafka.loads.waiting import look
from airflow_provider_orderedkafka.outputs import Output
from airflow_provider_orderedkafka.parsing import TEMPLATED, settled, topics_here
from airflow_provider_orderedkafka.reports import for_spark
from airflow_provider_orderedkafka.telling import docs, metrics, status

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

OnClear = Literal["skip", "reload"]


class ResolveOffsetRangeOperator(BaseOperator):
    """Store the range of offsets that this run loads; skip the run if there is nothing to load.

    A retry or a clear gives the same range. An incremental range that an ended run left open is taken over. Its XCom
    is the range's ID; the XCom `range` is the document, `in_words` the same for people, `skipped` the reason of a
    skip.

    :param load: The load.
    :param mode: `"incremental"`: everything new since the last run. `"interval"`: the run's data interval. `"replay"`:
        from `start` to `end`. Intervals and replays do not move the ledger.
    :param start: Where a replay starts; takes the same values as `OrderedLoad.start`.
    :param end: Where a replay ends, exclusive; the same values.
    :param on_clear: What clearing a loaded interval or replay does: `"skip"` it, or `"reload"` it as a whole, for
        outputs that it replaces.
    :param digest: What the range is loaded with (output, application, options), as `name=value` lines. An open range
        takes on a changed digest until its first batch is begun; after that the change is refused.
    :param checkpoint: Folder for checkpoints; the XCom `checkpoint` is the range's folder in it.
    :param outputs: Topics that the load writes to. They have to exist before a range is written down.
    :param output: Where the range is to be written, as a value or a template of `<format>:<name>`: its topics are
        among the `outputs`.
    :param create_output: How to create those that do not exist: `{"partitions": 6, "replication": 3, "config": {...}}`.
        One that exists stays as it is.
    :param row_limit: The most rows that a replay writes: the first ones in order.
    :param plan_only: Whether a replay only logs what it would load, as its XCom `plan`, and skips the rest: `True`, or
        `"True"` from a template.
    """

    template_fields: Sequence[str] = (
        "start",
        "end",
        "digest",
        "checkpoint",
        "outputs",
        "output_value",
        "row_limit",
        "plan_only",
    )
    operator_extra_links = (RangeLink(),)
    ui_color = "#dbe9f6"

    def __init__(
        self,
        *,
        load: OrderedLoad,
        mode: Kind = "incremental",
        start: Any = None,
        end: Any = None,
        on_clear: OnClear = "skip",
        digest: str = "",
        checkpoint: str | None = None,
        outputs: Sequence[str] = (),
        output: Output | str | None = None,
        create_output: Mapping[str, Any] | None = None,
        row_limit: int | str | None = None,
        plan_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        _check(load, mode, start, end, on_clear)
        if mode != "replay" and (row_limit is not None or plan_only):
            raise SettingError(
                f"load {load.name!r}: row_limit= and dry_run= are for a replay; set the load's own row_limit, and see "
                "what its next run would load with `orderedkafka plan`"
            )
        ours = {"inlets": [ledger_asset(load.name, load.ledger)], "outlets": status.outlets(load)}
        super().__init__(**beside(ours, {"doc_md": docs.RESOLVE, **kwargs}))
        self.load = load
        self.mode = mode
        self.start = start
        self.end = end
        self.on_clear = on_clear
        self.digest = digest
        self.checkpoint = checkpoint
        self.outputs = list(outputs)
        self.output_value = output
        self.create_output = None if create_output is None else NewOutput.parse(create_output, load.name)
        self.row_limit = row_limit
        self.plan_only = plan_only

    def execute(self, context: "Context") -> str:
        """Resolve the range; skip if there is nothing to load."""
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        ti = context["ti"]
        modes: dict[str, Callable[[Context, OrderedKafkaHook, Books], Resolved]] = {
            "incremental": self._incremental,
            "interval": self._interval,
            "replay": self._replay,
        }
        try:
            self._settle_output()
            hook = OrderedKafkaHook(self.load.kafka_conn_id)
            if str(self.plan_only) == "True":
                self._only_tell(context, hook)
            resolved = modes[self.mode](context, hook, books_of(self.load.name, context, self.load.ledger))
            if resolved.action in {Action.KEEP, Action.TAKE_OVER}:
                self._make_ready(hook)
        except OrderedKafkaError as error:
            fail(error)
        self.log.info("%s: %s", self.load.name, resolved.reason)
        if resolved.range is None:
            skip(context, resolved.reason)
        if resolved.action is not Action.EMIT_AGAIN:  # what is committed already is planned no more
            status.planned(context, self.load, resolved.range)
            metrics.planned(resolved.range)
        said = in_words(resolved.range)
        self.log.info("%s", said)
        ti.xcom_push(key="range", value=resolved.range.to_text())
        ti.xcom_push(key="in_words", value=said)
        ti.xcom_push(key="packed_range", value=packed(resolved.range.to_text()))
        if self.checkpoint:
            place = place_of(self.checkpoint, resolved.range.id, resolved.times)
            ti.xcom_push(key="checkpoint", value=place)
            ti.xcom_push(key="spark_checkpoint", value=for_spark(place))
        return resolved.range.id

    def _incremental(self, context: "Context", hook: "OrderedKafkaHook", books: Books) -> Resolved:
        refuse_backfill(context, self.load.name)
        home = context["ti"].dag_id
        mirror = hook.mirror(self.load.name, self.load.topics)
        ledger = look(books, mirror, partial(hook.first_look, self.load), self.load.topics, home=home)
        return resolve(
            books,
            memory_of(books, context),
            ledger,
            lambda seen: self._planned(hook, lambda: hook.plan(self.load, seen, self.digest)),
            self.digest,
        )

    def _interval(self, context: "Context", hook: "OrderedKafkaHook", books: Books) -> Resolved:
        times = interval_of(context, self.load.name)
        plan = partial(hook.plan_interval, self.load, books.store, times, self.digest)
        return self._own(context, books, partial(self._planned, hook, plan), times)

    def _replay(self, context: "Context", hook: "OrderedKafkaHook", books: Books) -> Resolved:
        asked, rows = self._asked(), self._rows()
        plan = partial(hook.plan_replay, self.load, asked, self.digest, rows)
        return self._own(context, books, partial(self._planned, hook, plan), *map(str, asked))

    def _own(self, context: "Context", books: Books, plan: PlanOwn, *facts: object) -> Resolved:
        return resolve_own(
            books,
            plan,
            claim_key(self.load.name, self.mode, books.run, *facts),
            again=self.on_clear == "reload",
            digest=self.digest,
            memory=memory_of(books, context),
        )

    def _settle_output(self) -> None:
        """Know a templated output, and refuse one that the load reads, before anything is written down."""
        self.output_value = settled(self.output_value)
        topics = topics_here(self.load, self.output_value)
        check_not_fed_back(self.load.name, self.load.topics, topics)
        self.outputs = list(dict.fromkeys([*self.outputs, *topics]))

    def _planned(self, hook: "OrderedKafkaHook", plan: PlanOwn) -> Range | NothingToLoad:
        self._make_ready(hook)
        return plan()

    def _make_ready(self, hook: "OrderedKafkaHook") -> None:
        for remark in hook.make_ready(self.outputs, self.create_output):
            self.log.warning("%s: %s", self.load.name, remark)

    def _asked(self) -> tuple[Start, Start]:
        return parse_start(self.start, "start"), parse_start(self.end, "end")

    def _rows(self) -> int | None:
        """The row limit of a replay; a form that is left empty renders as "None" or nothing."""
        text = str(self.row_limit).strip()
        if text in {"", "None"}:
            return None
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise SettingError(f"load {self.load.name!r}: row_limit is an integer from 1 on, found {self.row_limit!r}")
        return int(text)

    def _only_tell(self, context: "Context", hook: "OrderedKafkaHook") -> NoReturn:
        if self.create_output is None:
            self._make_ready(hook)  # raises what the run would fail with
        target = ", ".join(f"topic {topic!r}" for topic in self.outputs) or getattr(self.output_value, "of", "")
        preview = replace(hook.preview_replay(self.load, self._asked(), self._rows()), target=target)
        self.log.info("%s", preview.text)
        context["ti"].xcom_push(key="plan", value=preview.text)
        if preview.error is not None:
            raise preview.error
        skip(context, "a dry run: nothing is loaded")


def _check(load: OrderedLoad, mode: str, start: Any, end: Any, on_clear: str) -> None:
    if mode not in get_args(Kind):
        raise SettingError(f"mode must be one of {', '.join(map(repr, get_args(Kind)))}, found {mode!r}")
    if on_clear not in get_args(OnClear):
        raise SettingError(f"on_clear must be one of {', '.join(map(repr, get_args(OnClear)))}, found {on_clear!r}")
    if on_clear == "reload" and mode == "incremental":
        raise SettingError(
            f"load {load.name!r}: on_clear='reload' and mode='incremental' do not go together: a committed range of "
            "the ledger is loaded again by `orderedkafka ledger rewind`; or use mode='interval'"
        )
    if {start is not None, end is not None} != {mode == "replay"}:
        raise SettingError(f"load {load.name!r}: a replay needs start= and end=, and nothing else takes them")
    if mode == "replay":
        _check_constants(load, start, end)
    for name in ("row_limit", *(["max_offsets"] if mode == "interval" else [])):
        if mode != "incremental" and getattr(load, name) is not None:
            raise SettingError(
                f"load {load.name!r} has {name}={getattr(load, name)!r} and mode={mode!r}: {mode}s are loaded whole; "
                f"leave {name} out, or set batch_offsets to bound what is loaded at once"
            )


def _check_constants(load: OrderedLoad, start: Any, end: Any) -> None:
    """Check those ends of a replay that are not known only when it runs."""
    given = {"start": start, "end": end}
    try:
        asked = {name: parse_start(value, name) for name, value in given.items() if _is_constant(value)}
    except SettingError as error:
        raise SettingError(f"load {load.name!r}: {error}") from error
    if len(asked) == len(given) and goes_back(asked["start"], asked["end"]):
        raise SettingError(
            f"load {load.name!r}: the replay goes from {asked['start']} to {asked['end']}, which lies before it; swap "
            "them, or ask for a later end"
        )


def _is_constant(value: Any) -> bool:
    """Whether it is known when the DAG is parsed: neither a template nor another task's result."""
    if isinstance(value, str):
        return not TEMPLATED.search(value)
    return isinstance(value, datetime | Mapping | int)
