"""Move the ledger once the report proves that a range is loaded."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator

from ..assets import output_alias
from ..context import books_of, fails, ledger_asset, now_ms, rendering, skip, with_assets
from ..core.documents import COLUMNS, COSTS, DOUBTS, Changes, Outcome, Place, Report
from ..core.lifecycle import Action
from ..core.notation.spelling import arguments
from ..core.order.positions import Offsets
from ..core.pacing import Lag
from ..errors import LifecycleError, OrderedKafkaError, SettingError
from ..job import Rows, job_of
from ..load import OrderedLoad
from ..loads.books import in_numbers
from ..loads.loading import CommitResult, commit
from ..outputs import Output
from ..parsing import ELSEWHERE
from ..reporting import metrics, status
from ..reporting.lineage import cluster_uri

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

DOC = """\
Moves the ledger to where Spark stopped, if its report proves that all before that is loaded. Updates the consumer
group `orderedkafka.<load>` and emits the output's asset event. The log has the numbers, and the lag that is left.

A record is *late* if its timestamp is below its *order time*: the highest timestamp so far in its partition, and never
below the time up to which the run before has loaded. A late record keeps its place, and is flagged.

**Cleared**, it emits the event again, and does not move the ledger twice.
"""


class CommitOffsetRangeOperator(BaseOperator):
    """Move the ledger to where the application stopped, update the consumer group, and emit the output's event.

    The ledger moves only if there is a complete report beside the checkpoint and this run owns the range, and it never
    moves twice. If the task is cleared after that, it emits the event again, with the same revision. Its XCom is the
    event's extra; the XCom `in_words` says it for people, with the lag that is left. Commits of one DAG run one after
    the other.

    :param load: The load.
    :param range_id: ID of the range. Default: the open range of this run.
    :param to: The output whose asset is emitted, where the range does not say it itself.
    :param asset: The asset to emit instead.
    """

    template_fields: Sequence[str] = ("range_id",)
    ui_color = "#e2f0d9"

    @arguments(**ELSEWHERE)
    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg | None" = None,
        to: Output | str | None = None,
        asset: Asset | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(asset, Asset | None):
            raise SettingError(
                f"load {load.name!r}: asset must be an Asset, found {asset!r}: from airflow.sdk import Asset, and give "
                "Asset('...')"
            )
        given = {
            "trigger_rule": "none_failed_min_one_success",
            # At its first event Airflow creates the asset, and fails a task if another one does so at the same moment.
            "max_active_tis_per_dag": 1,
            "doc_md": DOC,
            **kwargs,
        }
        ours: dict[str, list[Any]] = {
            "inlets": [ledger_asset(load.name, load.ledger)],
            "outlets": [output_alias(load.name), *status.outlets(load)],
        }
        super().__init__(**with_assets(ours, given))
        self.load = load
        self.range_id: Any = range_id
        self.to = to
        self.asset = asset

    @fails
    def execute(self, context: "Context") -> dict[str, Any]:
        committed = self._commit(context)
        left = None if committed.report is None or committed.ledger is None else self._left(committed.ledger.place)
        sentence = committed.reason + self._counted(committed, left)
        self.log.info("%s: %s", self.load.name, sentence)
        if committed.outcome is None:
            skip(context, committed.reason)
        status.committed(context, self.load, committed, left)
        context["ti"].xcom_push(key="in_words", value=sentence)
        extra = _extra(self.load.name, committed.outcome, committed.report)
        asset = self.asset or self._output_asset(context, committed.outcome.range_id)
        if asset is not None:
            context["outlet_events"][output_alias(self.load.name)].add(asset, extra=extra)
        return extra

    def _counted(self, committed: CommitResult, left: Offsets | None) -> str:
        """What the commit came to, sent to the metrics and as a sentence for the log."""
        if committed.report is None:
            return ""
        ledger = committed.ledger
        lag = None if ledger is None or left is None else Lag.of(ledger.place, sum(left.values()), now_ms())
        metrics.committed(self.load.name, committed.report, lag, left)
        return f": {in_numbers(committed.report)}" + ("" if lag is None else f"; {lag}")

    def _left(self, place: Place) -> Offsets | None:
        from ..hooks.ordered_kafka import OrderedKafkaHook

        try:
            return OrderedKafkaHook(self.load.kafka_conn_id).left(place)
        except OrderedKafkaError as error:  # the range is committed all the same
            self.log.warning("%s: the lag is not known: %s", self.load.name, error)
            return None

    def _output_asset(self, context: "Context", range_id: str) -> Asset | None:
        from ..hooks.ordered_kafka import OrderedKafkaHook

        store = books_of(self.load.name, context, self.load.ledger).store
        loaded = store.range(range_id)
        job = store.job(loaded.job) if loaded is not None and loaded.job else None
        job = job or job_of(self.to, Rows(), rendering(self, context))
        if job.table is not None:
            return Asset(uri=job.table.uri)
        output = job.kafka
        if output is None or output.topic is None:
            return None
        topic, cluster = output.topic, output.kafka_conn_id or self.load.kafka_conn_id
        return Asset(uri=f"{cluster_uri(OrderedKafkaHook(cluster).config.servers)}/{topic}")

    def _commit(self, context: "Context") -> CommitResult:
        from ..hooks.ordered_kafka import OrderedKafkaHook

        mirror = OrderedKafkaHook(self.load.kafka_conn_id).mirror(self.load.name, self.load.named)
        committed = commit(books_of(self.load.name, context, self.load.ledger), self.range_id or None, mirror)
        if committed.action is Action.REFUSE:
            raise LifecycleError(f"nothing is committed for load {self.load.name!r}: {committed.reason}")
        return committed


def _extra(load: str, outcome: Outcome, report: Report | None) -> dict[str, Any]:
    return {
        "load": load,
        "range": outcome.range_id,
        "revision": outcome.revision,
        "rows": outcome.rows,
        "late": outcome.late,
        **{name: getattr(outcome, name) for name in DOUBTS},
        **({"changes": asdict(outcome.changes)} if outcome.changes != Changes() else {}),
        **{name: list(getattr(report, name, ())) for name in COLUMNS},
        **{name: getattr(report, name, None) for name in COSTS},
        "reason": outcome.reason,
    }
