"""`run_maintenance`: compact a table of Iceberg or Delta, and expire what it had before a moment.

    spark-submit ordered_maintenance.py --table iceberg:lake.shop.orders --since 2026-01-31T12:00:00Z

What a table had at that moment stays, and all since: a load that was killed finds by it what landed.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..compat.spark import iceberg_table
from ..core.notation.spelling import counted
from ..core.notation.starts import Moment, parse_moment
from ..errors import SettingError
from ..outputs import DeltaOutput, IcebergOutput
from .app import in_one_line
from .application.command import output_of
from .session.failures import classify_failure
from .session.starting import EXTENSIONS, start_session
from .tables.columns import quoted
from .tables.table import literal, run_sql
from .tables.table_formats import DeltaTable, IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR: Final = 3_600_000

STATEMENTS: Final[Mapping[type, tuple[str, ...]]] = {
    IcebergOutput: (
        "CALL {catalog}.system.rewrite_data_files(table => {literal})",
        "CALL {catalog}.system.rewrite_position_delete_files(table => {literal})",
        "CALL {catalog}.system.rewrite_manifests(table => {literal})",
        "CALL {catalog}.system.expire_snapshots(table => {literal}, older_than => TIMESTAMP '{kept}')",
        "CALL {catalog}.system.remove_orphan_files(table => {literal}, older_than => TIMESTAMP '{since}')",
    ),
    DeltaOutput: ("OPTIMIZE {table}", "VACUUM {table} RETAIN {hours} HOURS"),
}
"""What is done to a table of each format, in this order. OPTIMIZE rewrites files with many deleted rows, too."""

SESSION: Final[Mapping[type, Mapping[str, str]]] = {
    IcebergOutput: {EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},  # Spark 3.5
    DeltaOutput: {
        **DeltaOutput.session,
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "100",  # so many tasks VACUUM lists with, or 10,000
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",  # or it heeds RETAIN 0 alone
    },
}
"""What a session has that is started here."""

THEN: Final = (
    "SELECT max_by(unix_millis(committed_at), made_current_at) AS at FROM {table}.history JOIN {table}.snapshots "
    "USING (snapshot_id) WHERE made_current_at <= TIMESTAMP '{since}'"
)
"""When the snapshot was committed that was the newest one at a moment."""

AS_HOURS: Final = (
    "SELECT timestampdiff(HOUR, at, at + CAST({own} AS INTERVAL)) AS own FROM VALUES (TIMESTAMP '2000-01-01') AS t(at)"
)


def run_maintenance(argv: Sequence[str] | None = None) -> None:
    """Maintain the table that the command line names; exit the process if that fails.

    :param argv: The command line without the program's name. Default: `sys.argv[1:]`.
    """
    with in_one_line(Path(sys.argv[0]).name):
        found = _parser().parse_args(argv)
        output, since = output_of("--table", found.table), parse_moment(found.since, "--since")
        if not isinstance(output, IcebergOutput | DeltaOutput):
            raise SettingError(f"--table must be a table of Iceberg or Delta, found {found.table!r}")
        try:
            session = start_session(SESSION[type(output)])
            for statement in statements(session, output, since, time.time_ns() // 1_000_000):
                rows = run_sql(session.sql, statement, output.of).collect()
                print(f"{statement}: {counted(len(rows), 'row')}, {[row.asDict() for row in rows[:1]]}", flush=True)
            session.stop()
        except Exception as error:
            raise classify_failure(error) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, help="the table, as iceberg:lake.shop.orders or delta:/lake/orders")
    parser.add_argument("--since", required=True, help="a time: the table as it was then, and as it was later, stays")
    return parser


def statements(session: "SparkSession", output: IcebergOutput | DeltaOutput, since: Moment, now: int) -> list[str]:
    """What to run for this table, such that what it had at `since` stays, and all after that."""
    table = {IcebergOutput: IcebergTable, DeltaOutput: DeltaTable}[type(output)](session, output).name
    run_sql(session.sql, f"TABLE {table}", output.of)  # says in one sentence that there is none
    at = min(since.time, now - _kept_by_its_owner(session, output, table))
    words = {"table": table, "literal": literal(table), "since": Moment(at), "hours": -((at - now) // HOUR)}
    if isinstance(output, IcebergOutput):
        [row] = session.sql(THEN.format(**words)).collect()
        words["kept"] = Moment(min(at, row["at"] or at))
        first = output.table.partition(".")[0]
        by_name = session.conf.get(f"spark.sql.catalog.{first}", None) is not None
        words["catalog"] = quoted(first if by_name else session.catalog.currentCatalog())
    return [each.format(**words) for each in STATEMENTS[type(output)]]


def _kept_by_its_owner(session: "SparkSession", output: IcebergOutput | DeltaOutput, table: str) -> int:
    """For how many milliseconds the table's own properties say that it can be read as it was."""
    if isinstance(output, IcebergOutput):
        return int(iceberg_table(session, table).properties().get("history.expire.max-snapshot-age-ms") or 0)
    [row] = session.sql(f"DESCRIBE DETAIL {table}").select("properties").collect()
    own = row["properties"].get("delta.deletedFileRetentionDuration", "INTERVAL 7 DAYS")
    [row] = session.sql(AS_HOURS.format(own=literal(own))).collect()
    return int(row["own"]) * HOUR
