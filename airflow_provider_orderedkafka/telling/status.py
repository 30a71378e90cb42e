"""Keep a load's status where Airflow's API gives it to the page.

On Airflow 3.3 that is the asset state store of the ledger's asset. Before, each resolve and each commit emits an event
of an asset of its own, with the status of its range, and the page puts them together. Nothing depends on a status, so
whatever goes wrong is logged, and the load goes on; but a task that lost its supervisor ends, and its Spark with it.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_orderedkafka.compat.airflow import asset_state, has_asset_state
from airflow_provider_orderedkafka.context import SCHEME, ledger_asset, now_ms, run_of, tell
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.core.status import steps
from airflow_provider_orderedkafka.core.status.documents import Status
from airflow_provider_orderedkafka.core.status.steps import Teller
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.committing import CommitResult

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

KEY = "status"

SECONDS = 3.0
"""The shortest time between two writes while a range is loaded."""

LARGEST_EVENT = 10_000
"""Characters of a status in an event: there are two of them for each run, and Airflow keeps them all."""

Change = Callable[[Status, Teller], Status]

log = logging.getLogger(__name__)


def outlets(load: OrderedLoad) -> "list[Asset]":
    """The outlets by which a step tells the status where Airflow has no asset state store."""
    from airflow.sdk import Asset

    asset = Asset(
        name=f"orderedkafka.{load.name}.status",
        uri=f"{SCHEME}://status/{load.name}",
        group="orderedkafka",
        extra={"what": "how the load stands, for the page of Kafka loads"},
    )
    return [] if has_asset_state() else [asset]


def looked(context: "Context | None", load: OrderedLoad, ledger: Ledger, verdict: Verdict) -> None:
    """Kafka was looked at; in the triggerer, without a context."""
    _update(context, load, lambda before, teller: steps.looked(before, teller, ledger, verdict))


def planned(context: "Context", load: OrderedLoad, loaded: Range) -> None:
    """A range was resolved."""
    _update(context, load, lambda before, teller: steps.planned(before, teller, loaded))


def begun(context: "Context", load: OrderedLoad, loaded: Range, attempt: int) -> None:
    """An attempt begins."""
    _update(context, load, lambda before, teller: steps.begun(before, teller, loaded, attempt))


def loaded(context: "Context", load: OrderedLoad, done: Range, report: Report) -> None:
    """A range was loaded."""
    _update(context, load, lambda before, teller: steps.done(before, teller, done, report))


def committed(context: "Context", load: OrderedLoad, found: CommitResult, left: Offsets | None = None) -> None:
    """A range was committed, and so much is `left`."""
    if found.range is not None and found.report is not None:
        parts = found.range, found.report, found.ledger
        _update(
            context, load, lambda was, teller: steps.committed(was, teller, *parts, left=left, task=_loader(context))
        )


class Attempt:
    """Tells that an attempt begins, its progress every few seconds at most, and why it failed, if it does."""

    def __init__(self, context: "Context", load: OrderedLoad, loaded: Range, attempt: int) -> None:
        self._context = context
        self._load = load
        self._range = loaded
        self._attempt = attempt
        self._untold: list[Progress] = []
        self._next = 0.0

    def __enter__(self) -> Self:
        begun(self._context, self._load, self._range, self._attempt)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._tell()
        if error is not None:
            why = str(error) or type(error).__name__
            _update(self._context, self._load, lambda was, teller: steps.failed(was, teller, self._range, why))

    def progress(self, found: Progress) -> None:
        """Take what the application told; a batch that is not told now is told with a later one."""
        self._untold.append(found)
        if time.monotonic() >= self._next:
            self._tell()

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        if not untold:
            return
        with _lost_without_harm(self._load.name):
            tell(self._context, "progress", untold[-1].to_value())
        _update(self._context, self._load, partial(self._changed, untold))
        self._next = time.monotonic() + SECONDS

    def _changed(self, untold: list[Progress], before: Status, teller: Teller) -> Status:
        for each in untold:
            before = steps.progressed(before, teller, self._range, each)
        return before


def _update(context: "Context | None", load: OrderedLoad, change: Change) -> None:
    with _lost_without_harm(load.name):
        teller = _teller(context, load)
        if has_asset_state():
            asset = ledger_asset(load.name, load.ledger)
            store: Any = asset_state(asset) if context is None else context["asset_state_store"][asset]
            found = change(teller.begin(_known(store.get(KEY))), teller)
            store.set(KEY, found.fitting().to_value())
        elif context is not None:
            found = change(teller.begin(None), teller)
            for asset in outlets(load):  # an operator that does not name it emits nothing
                context["outlet_events"][asset].extra[KEY] = found.fitting(LARGEST_EVENT).to_value()


def _loader(context: "Context") -> str:
    """The task that loads what this one commits; none in a DAG where it has another name or place."""
    tasks = context["task"].upstream_task_ids
    return next((each for each in tasks if each.rpartition(".")[2] == "load"), "")


@contextmanager
def _lost_without_harm(load: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError):  # the supervisor is gone: Airflow tries this task again, beside whatever still runs
        raise
    except Exception as error:  # noqa: BLE001 - no load fails by what is shown of it
        log.warning("%s: its status could not be updated (%s); only the page lacks it", load, error)


def _known(stored: Any) -> Status | None:
    """The status that is stored; None for one that another release wrote, or something else did."""
    try:
        return None if stored is None else Status.from_value(stored)
    except ValueError as error:
        log.info("the stored status cannot be read and is replaced: %s", error)
        return None


def _teller(context: "Context | None", load: OrderedLoad) -> Teller:
    ti: Any = None if context is None else context["ti"]
    return Teller(
        load=load.name,
        topics=tuple(load.topics),
        row_limit=load.row_limit,
        pace=load.pace,
        dag="" if ti is None else ti.dag_id,
        run="" if context is None else run_of(context),
        task="" if ti is None else ti.task_id,
        now=now_ms(),
    )
