"""Move the ledger once the report proves that a range is loaded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_orderedkafka.assets import output_alias
from airflow_provider_orderedkafka.context import beside, books_of, fail, ledger_asset, now_ms, skip
from airflow_provider_orderedkafka.core.documents import DOUBTS, Outcome, Place
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.core.pacing import Lag
from airflow_provider_orderedkafka.errors import LifecycleError, OrderedKafkaError
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.committing import CommitResult, commit
from airflow_provider_orderedkafka.loads.shown import in_numbers
from airflow_provider_orderedkafka.outputs import KafkaOutput, Output
from airflow_provider_orderedkafka.parsing import settled
from airflow_provider_orderedkafka.telling import docs, metrics, status

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context, XComArg


class CommitOffsetRangeOperator(BaseOperator):
    """Move the ledger to where the application stopped, update the consumer group, and emit the output's event.

    The ledger moves only if there is a complete report beside the checkpoint and this run owns the range, and it never
    moves twice. If the task is cleared after that, it emits the event again, with the same revision. Its XCom is the
    event's extra; the XCom `in_words` says it for people, with the lag that is left. Commits of one DAG run one after
    the other.

    :param load: The load.
    :param range_id: ID of the range. Default: the open range of this run.
    :param output_topic: The topic whose asset is emitted.
    :param output: The output whose asset is emitted, as a value or as a template of `<format>:<name>`.
    :param asset: The asset to emit instead.
    """

    template_fields: Sequence[str] = ("range_id", "output_topic", "output_value")
    ui_color = "#e2f0d9"

    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        output_topic: str | None = None,
        output: Output | str | None = None,
        asset: "Asset | None" = None,
        **kwargs: Any,
    ) -> None:
        given = {
            "trigger_rule": "none_failed_min_one_success",
            # At its first event Airflow creates the asset, and fails a task if another one does so at the same moment.
            "max_active_tis_per_dag": 1,
            "doc_md": docs.COMMIT,
            **kwargs,
        }
        ours: dict[str, list[Any]] = {
            "inlets": [ledger_asset(load.name, load.ledger)],
            "outlets": [output_alias(load.name), *status.outlets(load)],
        }
        super().__init__(**beside(ours, given))
        self.load = load
        self.range_id: Any = range_id
        self.output_topic = output_topic
        self.output_value = output
        self.asset = asset

    def execute(self, context: "Context") -> dict[str, Any]:
        """Commit the range; skip if another run has committed it."""
        try:
            committed = self._commit(context)
        except OrderedKafkaError as error:
            fail(error)
        left = None if committed.report is None or committed.ledger is None else self._left(committed.ledger.place)
        said = committed.reason + self._counted(committed, left)
        self.log.info("%s: %s", self.load.name, said)
        if committed.outcome is None:
            skip(context, committed.reason)
        status.committed(context, self.load, committed, left)
        context["ti"].xcom_push(key="in_words", value=said)
        told = _told(self.load.name, committed.outcome)
        asset = self.asset or self._output_asset()
        if asset is not None:
            context["outlet_events"][output_alias(self.load.name)].add(asset, extra=told)
        return told

    def _counted(self, committed: CommitResult, left: Offsets | None) -> str:
        """What the commit came to, sent to the metrics and as a sentence for the log."""
        if committed.report is None:
            return ""
        ledger = committed.ledger
        lag = None if ledger is None or left is None else Lag.of(ledger.place, sum(left.values()), now_ms())
        metrics.committed(self.load.name, committed.report, lag)
        return f": {in_numbers(committed.report)}" + ("" if lag is None else f"; {lag}")

    def _left(self, place: Place) -> Offsets | None:
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        try:
            return OrderedKafkaHook(self.load.kafka_conn_id).left(place)
        except OrderedKafkaError as error:  # the range is committed all the same
            self.log.warning("%s: the lag is not known: %s", self.load.name, error)
            return None

    def _output_asset(self) -> "Asset | None":
        from airflow.sdk import Asset

        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        output = settled(self.output_value)
        if output is not None and output.uri is not None:
            return Asset(uri=output.uri)
        topic, cluster = self.output_topic, self.load.kafka_conn_id
        if isinstance(output, KafkaOutput):
            topic, cluster = output.topic, output.kafka_conn_id or cluster
        if not topic:
            return None
        first = OrderedKafkaHook(cluster).config.servers.split(",", maxsplit=1)[0]
        return Asset(uri=f"kafka://{first}/{topic}")

    def _commit(self, context: "Context") -> CommitResult:
        from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

        mirror = OrderedKafkaHook(self.load.kafka_conn_id).mirror(self.load.name, self.load.topics)
        committed = commit(books_of(self.load.name, context, self.load.ledger), self.range_id or None, mirror)
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
