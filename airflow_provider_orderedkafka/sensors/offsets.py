"""Wait until there is enough to load."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_orderedkafka.context import (
    beside,
    books_of,
    fail,
    interval_of,
    ledger_asset,
    now_ms,
    refuse_backfill,
    skip,
)
from airflow_provider_orderedkafka.core.documents import Kind, Ledger
from airflow_provider_orderedkafka.core.pacing import Remarks, Verdict, until
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.waiting import look, wait
from airflow_provider_orderedkafka.telling import docs, metrics, status

if TYPE_CHECKING:
    from airflow.sdk import Context

POLL_SECONDS = 5.0


class OffsetRangeSensor(BaseSensorOperator):
    """Wait for `min_offsets` new offsets, or for `max_delay` and at least one new record.

    The first run's delay is counted from the first poll. The sensor ends at once if an ended run left a range open, and
    skips if the row limit is reached. Its XCom is the reason, as a sentence.

    :param load: The load.
    :param kind: `"incremental"`; or `"interval"`, to wait until the run's data interval is over by `grace`.
    :param deferrable: Wait in the triggerer. Otherwise wait as a plain sensor, in the `mode` given.
    :param poke_interval: Seconds between two polls of Kafka.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#f4e8c1"

    def __init__(
        self,
        *,
        load: OrderedLoad,
        kind: Kind = "incremental",
        deferrable: bool = True,
        poke_interval: timedelta | float = POLL_SECONDS,
        **kwargs: Any,
    ) -> None:
        ours = {"inlets": [ledger_asset(load.name, load.ledger)]}
        super().__init__(poke_interval=poke_interval, **beside(ours, {"doc_md": docs.WAIT, **kwargs}))
        self.load = load
        self.kind = kind
        self.deferrable = deferrable
        self._remarks = Remarks()

    def execute(self, context: "Context") -> Any:
        """Poll once, then defer to the triggerer or poll on."""
        if not self.deferrable:
            return super().execute(context)
        verdict, ledger = self._look(context)
        self.log.info("%s: %s", self.load.name, verdict.reason)
        return verdict.reason if verdict.run else self._defer(verdict, ledger)

    def _defer(self, verdict: Verdict, ledger: Ledger | None) -> NoReturn:
        from airflow_provider_orderedkafka.triggers.offsets import OffsetRangeTrigger

        self.defer(
            trigger=OffsetRangeTrigger.waiting(self.load, ledger, self.poke_interval, verdict.due),
            method_name="resume",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: "Context") -> PokeReturnValue:
        verdict, _ = self._look(context)
        if self._remarks.new(verdict.reason, now_ms()) or verdict.run:
            self.log.info("%s: %s", self.load.name, verdict.reason)
        return PokeReturnValue(is_done=verdict.run, xcom_value=verdict.reason)

    def resume(self, context: "Context", event: dict[str, Any]) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the trigger's reason, or fail with its error."""
        if "error" in event:
            fail(LifecycleError(event["error"]))
        self.log.info("%s: %s", self.load.name, event["reason"])
        return str(event["reason"])

    def _look(self, context: "Context") -> tuple[Verdict, Ledger | None]:
        if self.kind == "interval":
            return self._look_at_the_clock(context), None
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        hook = OrderedKafkaHook(self.load.kafka_conn_id)
        books, home = books_of(self.load.name, context, self.load.ledger), context["ti"].dag_id
        try:
            refuse_backfill(context, self.load.name)
            mirror = hook.mirror(self.load.name, self.load.topics)
            ledger = look(books, mirror, partial(hook.first_look, self.load), self.load.topics, home=home)
            verdict = wait(books, ledger, self.load.row_limit) or hook.verdict(self.load, ledger)
        except OrderedKafkaError as error:
            fail(error)
        metrics.waits(self.load.name, ledger, verdict)
        status.looked(context, self.load, ledger, verdict)
        if verdict.skip:
            skip(context, verdict.reason)
        return verdict, ledger

    def _look_at_the_clock(self, context: "Context") -> Verdict:
        try:
            _, end = interval_of(context, self.load.name)
        except OrderedKafkaError as error:
            fail(error)
        return until(end + self.load.grace_ms, now_ms())
