"""Commit: the report proves it, the ledger moves, once; the mirror shows it, the output's event tells it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_orderedkafka.assets import ledger_asset, output_alias
from airflow_provider_orderedkafka.context import books_of, fail, skip
from airflow_provider_orderedkafka.core.documents import DOUBTS, Outcome
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.steps import Committed, commit

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context, XComArg


class CommitOffsetRangeOperator(BaseOperator):
    """Move the ledger to where the application stopped, mirror it to the consumer group, emit the output's event.

    It moves nothing without a complete report beside the checkpoint, nothing that another run owns, and nothing twice.
    Cleared after it has moved the ledger, it emits the event again, with the same revision; therefore it also runs when
    the load was skipped as committed already. Its XCom is what the event carries. Commits of one DAG's runs take turns.

    :param load: The load.
    :param range_id: The range; without one, the open range of this run.
    :param output_topic: The topic whose asset the event is for.
    :param asset: Another asset that the event is for.
    """

    template_fields: Sequence[str] = ("range_id", "output_topic")
    ui_color = "#e2f0d9"

    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        output_topic: str | None = None,
        asset: "Asset | None" = None,
        **kwargs: Any,
    ) -> None:
        given = {
            "inlets": [ledger_asset(load.name)],
            "outlets": [output_alias(load.name)],
            "trigger_rule": "none_failed_min_one_success",
            # Airflow makes the output's asset at the first event, and fails a task where another makes it just then.
            "max_active_tis_per_dag": 1,
        }
        super().__init__(**{**given, **kwargs})
        self.load = load
        self.range_id: Any = range_id
        self.output_topic = output_topic
        self.asset = asset

    def execute(self, context: "Context") -> dict[str, Any]:
        """Commit; skip where another run has done it."""
        try:
            committed = self._commit(context)
        except OrderedKafkaError as error:
            fail(error)
        self.log.info("%s: %s", self.load.name, committed.reason)
        if committed.outcome is None:
            skip(context, committed.reason)
        told = _told(self.load.name, committed.outcome)
        asset = self.asset or self._topic_asset()
        if asset is not None:
            context["outlet_events"][output_alias(self.load.name)].add(asset, extra=told)
        return told

    def _topic_asset(self) -> "Asset | None":
        from airflow.providers.apache.kafka.assets.kafka import create_asset

        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        if not self.output_topic:
            return None
        first = OrderedKafkaHook(self.load.kafka_conn_id).config.servers.split(",", maxsplit=1)[0]
        asset: Asset = create_asset(server=first, topic=self.output_topic)
        return asset

    def _commit(self, context: "Context") -> Committed:
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        mirror = OrderedKafkaHook(self.load.kafka_conn_id).mirror(self.load.name, self.load.topics)
        committed = commit(books_of(self.load.name, context), self.range_id or None, mirror)
        if committed.action is Action.REFUSE:
            raise LifecycleError(f"nothing is committed for load {self.load.name!r}: {committed.reason}")
        return committed


def _told(load: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "load": load,
        "range": outcome.range_id,
        "revision": outcome.revision,
        "rows": outcome.rows,
        "late": outcome.late,
        **{name: getattr(outcome, name) for name in DOUBTS},
        "reason": outcome.reason,
    }
