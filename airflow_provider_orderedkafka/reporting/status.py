"""Keep a load's status where Airflow's API gives it to the page.

On Airflow 3.3 that is the asset state store of the ledger's asset. Before, each resolve and each commit emits an event
of an asset of its own, with the status of its range, and the page puts them together. Nothing depends on a status, so
whatever goes wrong is logged, and the load goes on; but a task that lost its supervisor ends, and its Spark with it.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self

from ..compat.airflow import asset_state, has_asset_state, lost_supervisor
from ..context import SCHEME, ledger_asset, now_ms, rendering, run_of, tell
from ..core import status
from ..core.documents import Kind, Ledger, Range, Report
from ..core.lifecycle import parted
from ..core.notation.secrets import masked
from ..core.order.positions import Offsets
from ..core.pacing import Verdict
from ..core.progress import Progress
from ..core.status import AuditRow, Status, Updater
from ..errors import OrderedKafkaError
from ..job import Rows, job_of
from ..load import OrderedLoad
from ..loads.loading import CommitResult, LateReport

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

KEY = "status"

SECONDS = 3.0
"""The shortest time between two writes while a range is loaded."""

LARGEST_EVENT = 10_000
"""Characters of a status in an event: there are two of them for each run, and Airflow keeps them all."""

P = ParamSpec("P")

_log = logging.getLogger(__name__)


def outlets(load: OrderedLoad) -> "list[Asset]":
    """The outlets that carry the status where Airflow has no asset state store."""
    from airflow.sdk import Asset

    asset = Asset(
        name=f"orderedkafka.{load.name}.status",
        uri=f"{SCHEME}://status/{load.name}",
        group="orderedkafka",
        extra={"what": "how the load stands, for the page of Kafka loads"},
    )
    return [] if has_asset_state() else [asset]


def looked(context: "Context | None", load: OrderedLoad, ledger: Ledger, verdict: Verdict) -> None:
    """Kafka was asked; in the triggerer, without a context."""
    _update(context, load, status.looked, ledger, verdict)


def planned(context: "Context", load: OrderedLoad, loaded: Range) -> None:
    _update(context, load, status.planned, loaded)


@contextmanager
def stopping(context: "Context", load: OrderedLoad, kind: Kind) -> Iterator[None]:
    """Record why a run of a load with a ledger ends before it has a range, if it does."""
    try:
        yield
    except OrderedKafkaError as error:
        if kind == "incremental":
            _update(context, load, status.stopped, masked(str(error)))
        raise


def skipped(context: "Context", load: OrderedLoad, kind: Kind) -> None:
    """There was nothing to load, so no run is stopped any more."""
    if kind == "incremental":
        _update(context, load, status.stopped, "")


def begun(context: "Context", load: OrderedLoad, loaded: Range, attempt: int) -> None:
    _update(context, load, status.begun, loaded, attempt)


def failed(context: "Context", load: OrderedLoad, loaded: Range, why: str) -> None:
    _update(context, load, status.failed, loaded, why)


def loaded(context: "Context", load: OrderedLoad, done: Range, report: Report) -> None:
    _update(context, load, status.done, done, report)


def committed(context: "Context", load: OrderedLoad, found: CommitResult, left: Offsets | None = None) -> None:
    """A range was committed, with this lag `left`."""
    if found.range is not None and found.report is not None:
        task = _loader(context)
        _update(context, load, status.committed, found.range, found.report, found.ledger, left=left, task=task)


def reported_late(context: "Context", load: OrderedLoad, found: LateReport) -> None:
    _update(context, load, status.reported_late, found.report, parted(found.outcome.by)[0])


def audited(context: "Context", load: OrderedLoad, range_id: str, found: AuditRow) -> None:
    _update(context, load, status.audited, range_id, found)


class Attempt:
    """Records that an attempt begins, its progress every few seconds at most, and why it failed, if it does."""

    def __init__(self, context: "Context", load: OrderedLoad, loaded: Range, attempt: int) -> None:
        self._context = context
        self._load = load
        self._range = loaded
        self._attempt = attempt
        self._pending: list[Progress] = []
        self._next = 0.0

    def __enter__(self) -> Self:
        begun(self._context, self._load, self._range, self._attempt)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._flush()
        if error is not None:
            why = masked(str(error)) or type(error).__name__
            failed(self._context, self._load, self._range, why)

    def progress(self, found: Progress) -> None:
        """Record a progress, at once or together with a later one."""
        self._pending.append(found)
        if time.monotonic() >= self._next:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        with _lost_without_harm(self._load.name):
            tell(self._context, "progress", pending[-1].to_value())
        _update(self._context, self._load, status.progressed, self._range, pending)
        self._next = time.monotonic() + SECONDS


def _update(
    context: "Context | None",
    load: OrderedLoad,
    change: Callable[Concatenate[Status, Updater, P], Status],
    *found: P.args,
    **more: P.kwargs,
) -> None:
    with _lost_without_harm(load.name):
        updater = _updater(context, load)
        if has_asset_state():
            asset = ledger_asset(load.name, load.ledger)
            store: Any = asset_state(asset) if context is None else context["asset_state_store"][asset]
            after = change(updater.begin(as_stored(store.get(KEY))), updater, *found, **more)
            store.set(KEY, after.fitting().to_value())
        elif context is not None:
            for asset in outlets(load):  # an operator that does not name it emits nothing
                extra = context["outlet_events"][asset].extra
                after = change(updater.begin(as_stored(extra.get(KEY))), updater, *found, **more)
                extra[KEY] = after.fitting(LARGEST_EVENT).to_value()


def _loader(context: "Context") -> str:
    """The task that loads what this one commits; none in a DAG where it has another name or place."""
    tasks = context["task"].upstream_task_ids
    return next((each for each in tasks if each.rpartition(".")[2] == "load"), "")


@contextmanager
def _lost_without_harm(load: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # no load fails because of its status
        if lost_supervisor(error):  # Airflow retries this task while this process still runs
            raise
        _log.warning("%s: its status could not be updated (%s); only the page misses it", load, error)


def as_stored(stored: Any) -> Status | None:
    """The stored status; None if it cannot be read, as that of another release, which the next step replaces."""
    try:
        return None if stored is None else Status.from_value(stored)
    except ValueError as error:
        _log.info("the stored status cannot be read and is replaced: %s", error)
        return None


def _updater(context: "Context | None", load: OrderedLoad) -> Updater:
    ti: Any = None if context is None else context["ti"]
    return Updater(
        load=load.name,
        topics=load.named or (str(load.subscription),),
        row_limit=load.row_limit,
        pace=load.pace,
        dag="" if ti is None else ti.dag_id,
        run="" if context is None else run_of(context),
        task="" if ti is None else ti.task_id,
        now=now_ms(),
        output="" if context is None else _output(context),
        kafka_conn_id=load.kafka_conn_id,
    )


def _output(context: "Context") -> str:
    """Where this task's load writes to, as `<format>:<place>`; empty if the task does not know it."""
    task: Any = context["task"]
    asked = getattr(task, "to", None)
    to = None if asked is None else job_of(asked, Rows(), rendering(task, context)).to
    return "" if to is None else f"{'topic' if to.kind == 'kafka' else getattr(to, 'format', to.kind)}:{to.place}"
