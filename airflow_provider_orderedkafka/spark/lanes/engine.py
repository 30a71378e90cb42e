"""Spark as the lanes know it: tasks that run Python, and frames of which each part is made by one task, in order."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compat.spark import failed_tasks
from ...core.commits import IDENTITY
from ...core.lanes import OrderBy
from ...kafka.provenance import ORDINAL, SOURCE, SOURCE_FIELDS
from ..ordering import distributed
from ..session.counting import TaskCounter
from ..session.plans import PlanFacts, made_where_read, read_plan
from ..session.starting import LazySession

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

TASKS_FOR_A_CORE = 2
"""Shares are uneven, so there are more of them than cores."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Spark, once the session is there: what runs the work of a batch."""

    spark: LazySession

    @property
    def session(self) -> "SparkSession":
        """Spark's own, for tables and streams; a lane does without."""
        return self.spark.started()

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        cores: int = self.session.sparkContext.defaultParallelism
        return cores

    def counter(self) -> TaskCounter:
        return TaskCounter(self.session.sparkContext)

    def numbers(self, parts: int, tasks: int | None = None) -> "DataFrame":
        """A frame of `parts` rows with numbers, one for each task unless there are fewer."""
        return self.session.range(0, parts, 1, tasks or parts)

    def collected(self, frame: "DataFrame", parts: Iterable[int]) -> "list[Row]":
        """The rows of some parts, as far as the frame has them."""
        rows = frame.rdd
        there = [part for part in parts if part < rows.getNumPartitions()]
        found: list[Row] = self.session.sparkContext.runJob(rows, list, there)
        return found

    def facts(self, frame: "DataFrame", below: str | None = None) -> PlanFacts:
        """What is known of the rows, or of those from which the column `below` was made."""
        return read_plan(frame, below=below)

    def failed_part(self, frame: "DataFrame", parts: int) -> int | None:
        """Which of the parts of a frame, each made by one task, failed just now; None where that is not known.

        By the one task that failed, of as many as there are parts; several may fail at once, each by itself.
        """
        with suppress(Exception):  # of a plan, or of a Spark that shows it in another way: the error does without
            tasks, failed = failed_tasks(self.session)
            if tasks == parts and len(failed) == 1 and made_where_read(frame):
                return failed.pop()
        return None

    def distributed(self, frame: "DataFrame", by: OrderBy, writers: int, partitions: int | None = None) -> "DataFrame":
        """The rows with `_seq`, split among writers so that they stay in order."""
        return distributed(frame, by, writers, partitions)

    def counted(self, frame: "DataFrame") -> "tuple[DataFrame, Callable[[], int]]":
        """The rows, and how many they were, once they are written; an observation costs no pass of its own."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        return frame.observe(seen, f.count(f.lit(1)).alias("rows")), lambda: int(seen.get["rows"])

    def sourced(self, frame: "DataFrame") -> "DataFrame":
        """Records with `_source`, which a transform must keep."""
        from pyspark.sql import functions as f

        return frame.withColumn(SOURCE, f.struct(*SOURCE_FIELDS))

    def identified(
        self, frame: "DataFrame", range_name: str, batch: int, more: "Mapping[str, Column] | None" = None
    ) -> "DataFrame":
        """The rows of a batch with their identities, by `_source` and `_ordinal`, which is 0 if there is none.

        `more` are further fields of these.
        """
        from pyspark.sql import functions as f

        ordinal = f.col(ORDINAL) if ORDINAL in frame.columns else f.lit(0)
        fields = [f.col(f"{SOURCE}.{name}").alias(name) for name in SOURCE_FIELDS[:-1]]
        of_batch = [f.lit(range_name).alias("range_id"), f.lit(batch).cast("long").alias("batch")]
        further = [column.alias(name) for name, column in (more or {}).items()]
        return frame.withColumn(IDENTITY, f.struct(*of_batch, *fields, ordinal.cast("int").alias("ordinal"), *further))
