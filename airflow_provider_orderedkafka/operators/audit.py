"""Audit: read the output of a committed range again, and its source, and say whether the one has what the other had."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from ..context import books_of, fails, ledger_asset, now_ms, skip, with_assets
from ..core.documents import Report
from ..core.notation.secrets import masked
from ..core.notation.spelling import arguments
from ..core.status import AuditRow
from ..errors import LifecycleError
from ..hooks.submission import SparkSubmit
from ..load import OrderedLoad
from ..loads.books import Books
from ..loads.loading import committed_at
from ..locations import local_root, read_report, reports_at
from ..parsing import ELSEWHERE
from ..reporting import lineage, status
from .submit import flow_of

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from ..audit.auditing import Audit

DOC = """\
Reads the committed range again, from its source and from its output, and compares the two. It changes nothing. The log
and the XCom `audit` have what was found, with the places.

It fails if it finds something; a retry finds the same. It is *skipped* if it cannot compare all any more; the XCom
`skipped` says why.

**Cleared**, it compares them again.
"""


class AuditOffsetRangeOperator(BaseOperator):
    """Read the output of a committed range again, and its source, and say whether the one has what the other had.

    It moves and changes nothing. It succeeds if the range is clean, and fails for good if something was found; where
    something cannot be known, it is skipped. The XCom `audit` is what `orderedkafka audit --json` prints.

    :param load: The load.
    :param range_id: ID of the range.
    :param checkpoint: The folder for checkpoints that the range was loaded with. Default: the one under AIRFLOW_HOME.
    :param spark: The arguments of spark-submit that it was loaded with: its connection names tables in lineage.
    """

    template_fields: Sequence[str] = ("range_id", "checkpoint")
    ui_color = "#ece2f0"
    _flow: lineage.Flow | None = None
    _row: AuditRow | None = None

    @arguments(**ELSEWHERE)
    def __init__(
        self,
        *,
        load: OrderedLoad,
        range_id: "str | XComArg",
        checkpoint: str | None = None,
        spark: SparkSubmit = SparkSubmit(),
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_assets({"inlets": [ledger_asset(load.name, load.ledger)]}, {"doc_md": DOC, **kwargs}))
        self.load = load
        self.range_id: Any = range_id
        self.checkpoint = checkpoint
        self.spark = spark

    @fails
    def execute(self, context: "Context") -> None:
        found = self._audited(context)
        self._row = row = found.ranges[0].row(now_ms())
        self.log.info("%s: %s", self.load.name, found.text)
        context["ti"].xcom_push(key="audit", value=found.to_json())
        status.audited(context, self.load, self.range_id, row)
        if row.verdict == "unknown":
            skip(context, row.said)
        if row.verdict == "found":
            _fail(found)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - OpenLineage's signature
        """What was read, and for the output what was found in it; the same where the task fails or is skipped."""
        return lineage.checked(self._flow, self._row)

    get_openlineage_facets_on_failure = get_openlineage_facets_on_complete

    def _audited(self, context: "Context") -> "Audit":
        from ..audit.auditing import Clusters, audit
        from ..hooks.ordered_kafka import OrderedKafkaHook

        books = books_of(self.load.name, context, self.load.ledger)
        report = self._report(books)
        job = books.store.job(report.job) if report.job else None
        own = job.kafka.kafka_conn_id if job is not None and job.kafka is not None else None
        there = own or self.load.kafka_conn_id
        source, output = OrderedKafkaHook(self.load.kafka_conn_id).config, OrderedKafkaHook(there).config
        known = () if report.range.upsert is None else reports_at(self._root).values()
        found = audit({report.range_id: report}, Clusters(source, output), known=known)
        if job is not None:
            self._flow = flow_of(self.load, books.range(self.range_id), job, self.spark.conn_id, report)
        return found

    @property
    def _root(self) -> str:
        return self.checkpoint or local_root(self.load.name)

    def _report(self, books: Books) -> Report:
        place = committed_at(books, self._root, self.range_id)
        report = read_report(place)
        if report is None or not report.is_of(books.range(self.range_id)):
            raise LifecycleError(
                f"the report of range {self.range_id!r} of load {self.load.name!r} is not at {place!r}, so the audit "
                "cannot know what was loaded where; name the checkpoint= that it was loaded with, or audit it by hand "
                "with `orderedkafka audit --checkpoint ...`"
            )
        return report


def _fail(found: "Audit") -> NoReturn:
    from airflow.providers.common.compat.sdk import AirflowFailException

    raise AirflowFailException(
        masked(found.text)
        + "\nThe ledger stays where it is: docs/audit.md says what each finding means. Repair the output, or load "
        "the range again with a replay; then clear this task, which audits the range again"
    )
