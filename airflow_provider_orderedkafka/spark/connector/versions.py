"""Features of newer versions of Spark: an error with what to use instead, or a substitute.

Applications run from Spark 3.5 on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DOTS = 2
"""Features come with minor versions."""

AN_APPLICATION = (
    "load with an application, run_available_now of airflow_provider_orderedkafka.spark.app, which any Spark from 3.5 "
    "on runs. It keeps its place in its checkpoint, and takes minOffsetsPerTrigger, maxTriggerDelay and "
    "maxOffsetsPerTrigger with --option"
)
A_BATCH = "write each micro-batch with foreachBatch and df.write, or load with an application"


def check_data_sources() -> None:
    """`SettingError` where Spark has no data sources in Python."""
    _check("the data source 'orderedkafka'", "4.0", AN_APPLICATION)


def check_read_stream() -> None:
    """`SettingError` where Spark passes no limit, no target and no start to a stream in Python."""
    _check("readStream of 'orderedkafka'", "4.2", AN_APPLICATION)


def check_write_stream() -> None:
    """`SettingError` where Spark writes no Arrow from a stream."""
    _check("writeStream to 'orderedkafka'", "4.1", A_BATCH)


def _check(what: str, since: str, instead: str) -> None:
    import pyspark

    if _numbers(pyspark.__version__) < _numbers(since):
        raise SettingError(f"{what} needs Spark {since} or newer, this is Spark {pyspark.__version__}: {instead}")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")[:DOTS]]


def distributed_by(frame: "DataFrame", column: str, writers: int, writer: "Column") -> "DataFrame":
    """Distribute rows among writers, those with the same value of a column to the same one.

    Before 4.1, Spark chooses the writer by the value's hash: as well for keys, and less evenly for partitions.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(writers, writer)
    return frame.repartition(writers, column)


def arrow_udf(function: Callable[[Any], Any], returns: str) -> Callable[["Column"], "Column"]:
    """A function from an Arrow array of bytes to another array, for columns; before 4.1 by way of pandas."""
    from pyspark.sql import functions as f

    if hasattr(f, "arrow_udf"):
        found: Callable[[Column], Column] = f.arrow_udf(function, returns)
        return found
    import pandas as pd
    import pyarrow as pa

    def by_pandas(values: pd.Series) -> pd.Series:
        return function(pa.array(values, pa.binary())).to_pandas()

    through: Callable[[Column], Column] = f.pandas_udf(by_pandas, returns)
    return through
