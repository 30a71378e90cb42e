"""Decide which offsets a run loads, and store them before anything is read."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

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
from airflow_provider_orderedkafka.core.documents import Kind
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.links import RangeLink
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.endings import in_words
from airflow_provider_orderedkafka.loads.steps import Books, Resolved, claim_key, look, resolve, resolve_own
from airflow_provider_orderedkafka.reports import for_spark, place_of
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
    """

    template_fields: Sequence[str] = ("start", "end", "digest", "checkpoint")
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
        **kwargs: Any,
    ) -> None:
        _check(load, mode, start, end, on_clear)
        ours = {"inlets": [ledger_asset(load.name, load.ledger)], "outlets": status.outlets(load)}
        super().__init__(**beside(ours, {"doc_md": docs.RESOLVE, **kwargs}))
        self.load = load
        self.mode = mode
        self.start = start
        self.end = end
        self.on_clear = on_clear
        self.digest = digest
        self.checkpoint = checkpoint

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
            hook = OrderedKafkaHook(self.load.kafka_conn_id)
            resolved = modes[self.mode](context, hook, books_of(self.load.name, context, self.load.ledger))
        except OrderedKafkaError as error:
            fail(error)
        self.log.info("%s: %s", self.load.name, resolved.reason)
        if resolved.range is None:
            skip(context, resolved.reason)
        status.planned(context, self.load, resolved.range)
        said = in_words(resolved.range)
        self.log.info("%s", said)
        metrics.planned(resolved.range)
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
            lambda seen: hook.plan(self.load, seen, self.digest),
            self.digest,
        )

    def _interval(self, context: "Context", hook: "OrderedKafkaHook", books: Books) -> Resolved:
        times = interval_of(context, self.load.name)
        return resolve_own(
            books,
            lambda: hook.plan_interval(self.load, books.store, times, self.digest),
            claim_key(self.load.name, "interval", books.run, times),
            again=self.on_clear == "reload",
            digest=self.digest,
            memory=memory_of(books, context),
        )

    def _replay(self, context: "Context", hook: "OrderedKafkaHook", books: Books) -> Resolved:
        asked = parse_start(self.start, "start"), parse_start(self.end, "end")
        return resolve_own(
            books,
            lambda: hook.plan_replay(self.load, asked, self.digest),
            claim_key(self.load.name, "replay", books.run, str(asked[0]), str(asked[1])),
            again=self.on_clear == "reload",
            digest=self.digest,
            memory=memory_of(books, context),
        )


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
    for name in ("row_limit", *(["max_offsets"] if mode == "interval" else [])):
        if mode != "incremental" and getattr(load, name) is not None:
            raise SettingError(
                f"load {load.name!r} has {name}={getattr(load, name)!r} and mode={mode!r}: {mode}s are loaded whole; "
                f"leave {name} out, or set batch_offsets to bound what is loaded at once"
            )
