"""Decide which offsets a run loads, and store them before anything is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from airflow.sdk import BaseOperator

from ..context import (
    books_of,
    fails,
    home_of,
    interval_of,
    ledger_asset,
    memory_of,
    refuse_backfill,
    rendering,
    skip,
    with_assets,
)
from ..core.documents import Kind, Ledger, Range, Times
from ..core.lifecycle import Action
from ..core.next_range import NothingToLoad
from ..core.notation.spelling import arguments
from ..core.notation.starts import Start, goes_back, parse_start
from ..core.notation.subscriptions import Assigned
from ..errors import OrderedKafkaError, SettingError
from ..forms import FILL_IN, asked, check_replay, fields_of, with_new_topic
from ..job import Job, Rows, Work, job_of
from ..links import RangeLink
from ..load import OrderedLoad, check_absolute
from ..loads.books import Books, in_words, look
from ..loads.loading import late_report, place_of
from ..loads.resolving import Resolved, replay_key, resolve, resolve_interval, resolve_own
from ..locations import for_spark, keep_work, local_root
from ..outputs import HAVE_IT_CREATED, TEMPLATED, Output
from ..parsing import ELSEWHERE, check_first_rows, check_job, topics_of_source_cluster
from ..reporting import metrics, status
from ..services import Service

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..hooks.ordered_kafka import OrderedKafkaHook

OnClear = Literal["skip", "reload"]
Planned = Range | NothingToLoad

DOC = """\
Decides which offsets this run loads, and stores that range before anything is read. The XCom `in_words` and the
log have it by partition, with times in UTC. Skipped if there is nothing to load; the XCom `skipped` says why.

**Cleared**, it gives the same range. A range that an ended run left open is taken over.
"""


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
    :param to: Where the range is to be written, as for `ordered_load`. Topics have to exist before a range is written
        down, or are created then. An open range takes on a changed job until its first batch is begun; after that the
        change is refused.
    :param rows: How its records become rows.
    :param checkpoint: Folder for checkpoints; the XCom `checkpoint` is the range's folder in it.
    :param hands_over: Whether another operator than `SubmitOrderedLoadOperator` runs the application, which is told by
        the XCom `work` then; or the service that does, which is told Kafka's settings by the XCom `options`, too.
    :param row_limit: The most rows that a replay writes: the first ones in order.
    :param plan_only: Whether a replay only logs what it would load, as its XCom `plan`, and skips the rest: `True`, or
        `"True"` from a template.
    """

    template_fields: Sequence[str] = ("start", "end", "checkpoint", "row_limit", "plan_only")
    operator_extra_links = (RangeLink(),)
    ui_color = "#dbe9f6"

    @arguments(**{**ELSEWHERE, "kind": "it is mode="})
    def __init__(
        self,
        *,
        load: OrderedLoad,
        mode: Kind = "incremental",
        start: Any = None,
        end: Any = None,
        on_clear: OnClear = "skip",
        to: Output | str | None = None,
        rows: Rows = Rows(),
        checkpoint: str | None = None,
        hands_over: bool | Service = False,
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
        super().__init__(**with_assets(ours, {"doc_md": DOC, **kwargs}))
        self.load = load
        self.mode = mode
        self.start = start
        self.end = end
        self.on_clear = on_clear
        self.to = to
        self.rows = rows
        self.checkpoint = checkpoint
        self.hands_over = hands_over
        self.row_limit = row_limit
        self.plan_only = plan_only
        if row_limit is not None and not TEMPLATED.search(str(row_limit)):
            check_first_rows(load, rows, self._rows())
        if not TEMPLATED.search(str(plan_only)):
            self._plans_only()

    @fails
    def execute(self, context: "Context") -> str:
        with status.stopping(context, self.load, self.mode):
            return self._resolve(context)

    def _resolve(self, context: "Context") -> str:
        from ..hooks.ordered_kafka import OrderedKafkaHook

        ti = context["ti"]
        modes: dict[str, Callable[[Context, OrderedKafkaHook, Books, Job], Resolved]] = {
            "incremental": self._incremental,
            "interval": self._interval,
            "replay": self._replay,
        }
        if self.checkpoint is not None:
            check_absolute(self.checkpoint, "checkpoint")
        job = self._job(context)
        options = self.hands_over.options(self.load, job) if isinstance(self.hands_over, Service) else None
        hook = OrderedKafkaHook(self.load.kafka_conn_id)
        if self._plans_only():
            self._dry_run(context, hook, job)
        resolved = modes[self.mode](context, hook, books_of(self.load.name, context, self.load.ledger), job)
        if resolved.action in {Action.KEEP, Action.TAKE_OVER}:
            self._make_ready(hook, resolved.job or job)
        self.log.info("%s: %s", self.load.name, resolved.reason)
        if resolved.range is None:
            status.skipped(context, self.load, self.mode)
            skip(context, resolved.reason)
        if resolved.action is not Action.EMIT_AGAIN:  # what is committed already is planned no more
            status.planned(context, self.load, resolved.range)
            metrics.planned(resolved.range)
        sentence = in_words(resolved.range)
        self.log.info("%s", sentence)
        ti.xcom_push(key="range", value=resolved.range.to_text())
        ti.xcom_push(key="in_words", value=sentence)
        self._push_place(ti, resolved, resolved.range)
        if options is not None:
            ti.xcom_push(key="options", value=options)
        return resolved.range.id

    def _push_place(self, ti: Any, resolved: Resolved, loaded: Range) -> None:
        """Say where the application keeps its state, and what else it has to know: where it was begun, if it was."""
        root = None if self.checkpoint is None else place_of(self.checkpoint, loaded.id, resolved.times)
        place = resolved.checkpoint or root
        if place is None:
            return
        ti.xcom_push(key="checkpoint", value=place)
        if self.hands_over and resolved.job is not None:
            work = Work(loaded, resolved.job, for_spark(place))
            ti.xcom_push(key="work", value=work.word(partial(keep_work, place)))

    def _incremental(self, context: "Context", hook: "OrderedKafkaHook", books: Books, job: Job) -> Resolved:
        refuse_backfill(context, self.load.name)
        home = home_of(context)
        mirror = hook.mirror(self.load.name, self.load.named)
        ledger = look(books, mirror, partial(hook.first_look, self.load), self.load.subscription, home=home)
        most = asked(context).most
        check_first_rows(self.load, job.rows, most.rows)
        ledger = self._with_late_report(context, books, ledger)
        planned = self._planned(hook, job, lambda seen: hook.plan(self.load, seen, most))
        return resolve(books, memory_of(books, context), ledger, planned, job, most=most)

    def _with_late_report(self, context: "Context", books: Books, ledger: Ledger) -> Ledger:
        """The ledger, with what the last range reported since its commit; where that is lost, the load goes on."""
        root = self.checkpoint or local_root(self.load.name)
        try:
            late = late_report(books, ledger, lambda range_id: place_of(root, range_id, 0))
        except OrderedKafkaError as error:
            self.log.warning(
                "%s: whether more rows were doubled since the last commit is not known: %s", self.load.name, error
            )
            return ledger
        if late is None:
            return ledger
        self.log.warning("%s: %s", self.load.name, late.sentence)
        metrics.doubled(self.load.name, late.more)
        status.reported_late(context, self.load, late)
        return late.ledger

    def _interval(self, context: "Context", hook: "OrderedKafkaHook", books: Books, job: Job) -> Resolved:
        times = interval_of(context, self.load.name)
        planned = self._planned(hook, job, partial(hook.plan_interval, self.load, books.store, times))
        return resolve_interval(books, planned, Times(*times), **self._how(context, books, job))

    def _replay(self, context: "Context", hook: "OrderedKafkaHook", books: Books, job: Job) -> Resolved:
        ends, rows = self._ends(), self._rows()
        planned = self._planned(hook, job, partial(hook.plan_replay, self.load, ends, rows))
        key = replay_key(books, memory_of(books, context), *map(str, ends))
        return resolve_own(books, planned, key, **self._how(context, books, job))

    def _how(self, context: "Context", books: Books, job: Job) -> dict[str, Any]:
        return {"again": self.on_clear == "reload", "job": job, "memory": memory_of(books, context)}

    def _job(self, context: "Context") -> Job:
        """The job, its templates rendered; refused where it writes what the load reads, before anything is stored."""
        job = job_of(self.to, self.rows, rendering(self, context))
        if self.mode == "replay":
            job = with_new_topic(context, job)
        check_job(self.load, job.to, job.rows, self.mode)
        if self.mode == "replay":
            check_replay(context, job)
            check_first_rows(self.load, job.rows, self._rows())
        return job

    def _planned(self, hook: "OrderedKafkaHook", job: Job, plan: Callable[..., Planned]) -> Callable[..., Planned]:
        def planned(*seen: Any) -> Planned:
            self._make_ready(hook, job)
            return plan(*seen)

        return planned

    def _make_ready(self, hook: "OrderedKafkaHook", job: Job) -> None:
        create = None if job.kafka is None else job.kafka.create
        way_out = FILL_IN if "partitions" in fields_of(self.dag, "replay") else HAVE_IT_CREATED
        for remark in hook.make_ready(topics_of_source_cluster(self.load, job), create, way_out):
            self.log.warning("%s: %s", self.load.name, remark)

    def _ends(self) -> tuple[Start, Start]:
        return parse_start(self.start, "start"), parse_start(self.end, "end")

    def _rows(self) -> int | None:
        """The row limit of a replay; a form that is left empty renders as "None" or nothing."""
        text = str(self.row_limit).strip()
        if text in {"", "None"}:
            return None
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise SettingError(
                f"load {self.load.name!r}: row_limit must be an integer from 1 on, found {self.row_limit!r}"
            )
        return int(text)

    def _plans_only(self) -> bool:
        """Whether it is a dry run; `SettingError` for what may have been meant as one."""
        text = str(self.plan_only).strip()
        if text not in {"True", "False", "None", ""}:
            raise SettingError(f"load {self.load.name!r}: dry_run must be True or False, found {self.plan_only!r}")
        return text == "True"

    def _dry_run(self, context: "Context", hook: "OrderedKafkaHook", job: Job) -> NoReturn:
        if job.kafka is None or job.kafka.create is None:
            self._make_ready(hook, job)  # raises what the run would fail with
        target = job.table.of if job.table is not None else ", ".join(f"topic {topic!r}" for topic in job.topics)
        preview = replace(hook.preview_replay(self.load, self._ends(), self._rows()), target=target)
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
            "the ledger is loaded again by `orderedkafka ledger rewind`; or use ordered_intervals()"
        )
    if {start is not None, end is not None} != {mode == "replay"}:
        raise SettingError(f"load {load.name!r}: a replay needs start= and end=, and nothing else takes them")
    if mode == "replay":
        _check_constants(load, start, end)
    if mode == "interval" and isinstance(load.subscription, Assigned):
        raise SettingError(
            f"load {load.name!r} names partitions ({load.subscription}) and mode='interval': a boundary between "
            "intervals is kept for whole topics; name the topics, or load what is new with ordered_load()"
        )
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
            f"load {load.name!r}: the replay goes from {asked['start']} to {asked['end']}, which is before it; swap "
            "them, or ask for a later end"
        )


def _is_constant(value: Any) -> bool:
    """Whether it is known when the DAG is parsed: neither a template nor another task's result."""
    if isinstance(value, str):
        return not TEMPLATED.search(value)
    return isinstance(value, datetime | Mapping | int)
