"""Maintain the table of a load: compact its files, and expire what no open range needs."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from ..context import books_of, fails, ledger_asset, now_ms, rendering, with_assets
from ..core.notation.spelling import arguments, parse_duration
from ..core.notation.starts import Moment
from ..errors import SettingError
from ..hooks.launching import Options, packaged_application
from ..hooks.submission import SparkSubmit
from ..job import Rows, job_of
from ..load import Duration, OrderedLoad
from ..outputs import DeltaOutput, IcebergOutput
from ..parsing import ELSEWHERE, check_load, output_of
from .submit import error_line, failed, process_of, submission_of, way_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..hooks.spark_process import SparkProcess

DAY: Final = 86_400_000

DOC = """\
Compacts the files of the table, and expires versions of it that are older than the retention. While a range is open,
all versions since it was planned are kept. Loads may run meanwhile.

**Cleared**, it does the same again.
"""


class TableMaintenanceOperator(BaseOperator):
    """Compact the files of a load's table with spark-submit, and expire what it had before a time.

    Nothing expires that an open range of the load needs to find out what it has written, however old that is; and
    nothing runs where that is not known. The XCom is the time before which it expires.

    :param load: The load, or all the loads that write to the table.
    :param to: The table, as for `ordered_load`: an `IcebergOutput` or a `DeltaOutput`.
    :param spark: The arguments of spark-submit, as for the load.
    :param retention: For how long the table can be read as it was, from `"1d"` on; its own properties may say longer.
    """

    ui_color = "#dfe7e8"
    _process: "SparkProcess | None" = None

    @arguments(**ELSEWHERE)
    def __init__(
        self,
        *,
        load: OrderedLoad | Sequence[OrderedLoad],
        to: IcebergOutput | DeltaOutput | str,
        spark: SparkSubmit = SparkSubmit(),
        retention: Duration = "7d",
        **kwargs: Any,
    ) -> None:
        self.loads = (load,) if isinstance(load, OrderedLoad) else tuple(load)
        for each in self.loads or [None]:
            check_load(each)
        inlets = {"inlets": [ledger_asset(each.name, each.ledger) for each in self.loads]}
        super().__init__(**with_assets(inlets, {"doc_md": DOC, **kwargs}))
        self.to = _table_of(self.loads[0], to, spark)
        self.spark = spark
        self.retention = parse_duration(retention, "retention")
        if self.retention < DAY:
            raise SettingError(
                f"{self.to.of}: retention must be at least '1d', found {retention!r}: younger files may belong to a "
                "batch that is being written"
            )

    @fails
    def execute(self, context: "Context") -> str:
        since = str(self._since(context))
        self._run(context, since)
        return since

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.end()

    def _since(self, context: "Context") -> Moment:
        """From when on nothing expires; an error where it is not known which ranges are open."""
        stores = [books_of(each.name, context, each.ledger).store for each in self.loads]
        found = {now_ms() - self.retention: f"retention is {self.retention / DAY:g} days"}
        for each in (opened for store in stores for opened in store.open_ranges()):
            # A day before, since clocks differ: a batch is noted with the version that the table has by then.
            found[each.planned_at - DAY] = f"range {each.id!r} of load {each.load!r} is open"
        since = min(found)
        self.log.info("%s: versions before %s expire (%s)", self.to.of, Moment(since), found[since])
        return Moment(since)

    def _run(self, context: "Context", since: str) -> None:
        job = job_of(self.to, Rows(), rendering(self, context))
        to = job.table or self.to
        application, words = packaged_application("ordered_maintenance"), ("--table", to.short, "--since", since)
        submission = submission_of(self, context, self.spark, f"orderedkafka-maintenance-{self.loads[0].name}")
        way = way_of(submission, application, words, job, Options())
        with tempfile.TemporaryDirectory(prefix="orderedkafka-") as folder:
            process = self._process = process_of(way, Path(folder))
            if code := process.run():
                raise failed(f"the maintenance of {to.of}", process.output, code, error_line(process.output))


def _table_of(load: OrderedLoad, to: Any, spark: Any) -> IcebergOutput | DeltaOutput:
    """The table as a value; `SettingError` for what cannot be maintained."""
    found = output_of(load, to, Rows())
    if not isinstance(found, IcebergOutput | DeltaOutput):
        raise SettingError(
            f"load {load.name!r}: only a table can be maintained, to=IcebergOutput(...) or DeltaOutput(...), found "
            f"to={to!r}: topics and folders of files have no history that expires. The format has to be known when the "
            "DAG is parsed, so only a table's place may be a template"
        )
    if not isinstance(spark, SparkSubmit):
        raise SettingError(
            f"load {load.name!r}: maintenance needs spark=SparkSubmit(...), found {spark!r}: for another service, run "
            "ordered_maintenance.py as an application of your own, with --table and --since"
        )
    return found
