"""Resolve: from where the ledger stands and what Kafka has to a range, written down before anything is read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow.sdk import BaseOperator

from airflow_provider_orderedkafka.assets import ledger_asset
from airflow_provider_orderedkafka.context import TaskMemory, books_of, fail, skip
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.links import RangeLink, push, task_page
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.steps import Resolved, look, resolve

if TYPE_CHECKING:
    from airflow.sdk import Context

Mode = Literal["incremental", "interval", "replay"]


class ResolveOffsetRangeOperator(BaseOperator):
    """Write down the range that this run loads, and open it in the ledger; or skip the run and say why.

    A retry or a clear gives the same range. One that an ended run left open is taken over; one that is committed is
    skipped. Its XCom is the range's id; `range` holds the document, `skipped` the reason.

    :param load: The load.
    :param mode: `"incremental"`: from where the ledger stands; `"interval"`: the run's data interval; `"replay"`: from
        `start` to `end`.
    :param digest: What tells the output and the application from others.
    """

    template_fields: Sequence[str] = ("digest",)
    operator_extra_links = (RangeLink(),)
    ui_color = "#dbe9f6"

    def __init__(self, *, load: OrderedLoad, mode: Mode = "incremental", digest: str = "", **kwargs: Any) -> None:
        if mode not in get_args(Mode):
            raise SettingError(f"mode must be one of {', '.join(map(repr, get_args(Mode)))}, found {mode!r}")
        super().__init__(**{"inlets": [ledger_asset(load.name)], **kwargs})
        self.load = load
        self.mode = mode
        self.digest = digest

    def execute(self, context: "Context") -> str:
        """Resolve; skip where there is nothing for this run."""
        ti = context["ti"]
        push(RangeLink(), context, task_page(ti.dag_id, ti.run_id, ti.task_id))
        try:
            resolved = self._resolve(context)
        except OrderedKafkaError as error:
            fail(error)
        self.log.info("%s: %s", self.load.name, resolved.reason)
        if resolved.range is None:
            skip(context, resolved.reason)
        ti.xcom_push(key="range", value=resolved.range.to_text())
        return resolved.range.id

    def _resolve(self, context: "Context") -> Resolved:
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        hook = OrderedKafkaHook(self.load.kafka_conn_id)
        books = books_of(self.load.name, context)
        ledger = look(books, hook.mirror(self.load.name), lambda: hook.first_look(self.load), home=context["ti"].dag_id)
        return resolve(
            books, TaskMemory(context), ledger, lambda standing: hook.plan(self.load, standing, books.run, self.digest)
        )
