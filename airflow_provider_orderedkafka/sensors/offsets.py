"""Wait until there is enough to load."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from ..context import (
    books_of,
    fails,
    home_of,
    interval_of,
    is_by_hand,
    ledger_asset,
    now_ms,
    queued_behind,
    refuse_backfill,
    skip,
    with_assets,
)
from ..core.documents import Kind, Ledger
from ..core.notation.spelling import arguments
from ..core.pacing import Remarks, Verdict, until
from ..errors import CredentialsError, LifecycleError, SettingError
from ..forms import asked
from ..load import OrderedLoad
from ..loads.books import look, wait
from ..parsing import ELSEWHERE
from ..reporting import metrics, status

if TYPE_CHECKING:
    from airflow.sdk import Context

POLL_SECONDS = 5.0

Wait = Literal["scheduled", "always"]

DOC = """\
Waits, deferred, until there is enough to load: `min_offsets` offsets, or anything at all once `max_delay` has passed.
Its log says what is there, and when the delay runs out. A run that a person started does not wait, unless asked to, and
a run that is waiting gives way to it.

**Cleared**, it looks again. If this run has a range already, there is nothing to wait for.
"""


class OffsetRangeSensor(BaseSensorOperator):
    """Wait for `min_offsets` new offsets, or for `max_delay` and at least one new record.

    `delay_from` of the load says what that is counted from. The sensor ends at once if an ended run left a range open,
    and skips if the row limit is reached. Its XCom is the reason, as a sentence.

    :param load: The load.
    :param kind: `"incremental"`; or `"interval"`, to wait until the run's data interval is over by `grace`.
    :param wait: Which runs of an incremental load wait. `"scheduled"`: those that a schedule or an asset started; one
        that a person started loads what is there, and one that waits is skipped when another is queued behind it.
        `"always"`: all of them.
    :param deferrable: Wait in the triggerer. Otherwise wait as a plain sensor, in the `mode` given.
    :param poke_interval: Seconds between two polls of Kafka.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#f4e8c1"

    @arguments(**ELSEWHERE)
    def __init__(
        self,
        *,
        load: OrderedLoad,
        kind: Kind = "incremental",
        wait: Wait = "scheduled",
        deferrable: bool = True,
        poke_interval: timedelta | float = POLL_SECONDS,
        **kwargs: Any,
    ) -> None:
        if wait not in get_args(Wait):
            raise SettingError(
                f"load {load.name!r}: wait must be {' or '.join(map(repr, get_args(Wait)))}, found {wait!r}"
            )
        ours = {"inlets": [ledger_asset(load.name, load.ledger)]}
        super().__init__(poke_interval=poke_interval, **with_assets(ours, {"doc_md": DOC, **kwargs}))
        self.load = load
        self.kind = kind
        self.wait = wait
        self.deferrable = deferrable
        self._remarks = Remarks()

    def execute(self, context: "Context") -> Any:
        if not self.deferrable:
            return super().execute(context)
        verdict, ledger = self._look(context)
        self.log.info("%s: %s", self.load.name, verdict.reason)
        return verdict.reason if verdict.run else self._defer(context, verdict, ledger)

    def _defer(self, context: "Context", verdict: Verdict, ledger: Ledger | None) -> NoReturn:
        from ..triggers.offsets import OffsetRangeTrigger

        dag_id = context["ti"].dag_id if self._can_yield else None
        self.defer(
            trigger=OffsetRangeTrigger.waiting(self.load, ledger, self.poke_interval, verdict.due, dag_id),
            method_name="resume",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: "Context") -> PokeReturnValue:
        verdict, _ = self._look(context)
        if self._remarks.new(verdict.reason, now_ms()) or verdict.run:
            self.log.info("%s: %s", self.load.name, verdict.reason)
        return PokeReturnValue(is_done=verdict.run, xcom_value=verdict.reason)

    @fails
    def resume(self, context: "Context", event: dict[str, Any]) -> str:
        with status.stopping(context, self.load, self.kind):
            if "error" in event:
                kind = CredentialsError if event.get("kind") == CredentialsError.__name__ else LifecycleError
                raise kind(event["error"])
        if "skip" in event:
            skip(context, event["skip"])
        self.log.info("%s: %s", self.load.name, event["reason"])
        return str(event["reason"])

    @fails
    def _look(self, context: "Context") -> tuple[Verdict, Ledger | None]:
        with status.stopping(context, self.load, self.kind):
            return self._looked(context)

    def _looked(self, context: "Context") -> tuple[Verdict, Ledger | None]:
        if self.kind == "interval":
            _, end = interval_of(context, self.load.name)
            return until(end + self.load.grace_ms, now_ms()), None
        from ..hooks.ordered_kafka import OrderedKafkaHook

        hook = OrderedKafkaHook(self.load.kafka_conn_id)
        books, home = books_of(self.load.name, context, self.load.ledger), home_of(context)
        refuse_backfill(context, self.load.name)
        mirror = hook.mirror(self.load.name, self.load.named)
        ledger = look(books, mirror, partial(hook.first_look, self.load), self.load.subscription, home=home)
        verdict = wait(books, ledger, self.load.row_limit) or self._asked(context, hook.verdict(self.load, ledger))
        metrics.waits(self.load.name, ledger, verdict)
        status.looked(context, self.load, ledger, verdict)
        if verdict.skip:
            skip(context, verdict.reason)
        return verdict, ledger

    @property
    def _can_yield(self) -> bool:
        return self.wait == "scheduled" and self.kind == "incremental"

    def _asked(self, context: "Context", verdict: Verdict) -> Verdict:
        """The verdict for this run: one that somebody asked for goes on, any other lets it."""
        if verdict.run or not self._can_yield:
            return verdict
        if is_by_hand(context) and asked(context).now is not False:
            return replace(verdict, run=True, reason=f"started by hand, so it does not wait: {verdict.reason}")
        behind = queued_behind(context["ti"].dag_id)
        return verdict if behind is None else replace(verdict, skip=True, reason=f"{behind}; {verdict.reason}")
