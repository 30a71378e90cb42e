"""`row_transform`: make rows with a function of one record, and let the load go on past a record that it cannot take.

    from airflow_provider_orderedkafka.spark.rows import row_transform

    @row_transform("key binary, value string")
    def enriched(record):
        order = json.loads(record["value"])
        return {"key": record["key"], "value": json.dumps({**order, "total": order["price"] * order["count"]})}

It is an `arrow_transform`, in a DAG or in an application.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..decoding.formats import arrow_type, parsed_columns
from ..errors import OrderedKafkaError, SettingError
from ..kafka.provenance import ERROR, SOURCE
from .lanes.making import ArrowTransform, with_source

if TYPE_CHECKING:
    from pyarrow import RecordBatch

Row = Mapping[str, Any]
RowFunction = Callable[[dict[str, Any]], Row | Iterable[Row] | None]


def row_transform(columns: str) -> Callable[[RowFunction], ArrowTransform]:
    """Decorate a function that makes a row of a record, so that it is an `arrow_transform`.

    The function gets the record's columns by name, and returns the row's: a dictionary, several ones in a list, or None
    for no row. What is left out is null. A record on which it raises, or whose rows have other columns or types, is a
    bad record: it becomes a dead letter with its own bytes, as many as `Rows(bad_records=...)` allows. An error of
    `airflow_provider_orderedkafka.errors` ends the load instead.

    :param columns: The columns of rows, as Spark writes them: `"key binary, value string"`. `_source` is added.
    """
    parsed = parsed_columns(columns)
    names = [name for name, _ in parsed.fields]
    if taken := {SOURCE, ERROR} & set(names):
        raise SettingError(f"row_transform adds the column {sorted(taken)[0]!r} by itself: leave it out of {columns!r}")

    def decorate(function: RowFunction) -> ArrowTransform:
        @wraps(function)
        def transform(batch: "RecordBatch") -> "RecordBatch":
            return _transformed(batch, function, arrow_type(parsed))

        return transform

    return decorate


def _transformed(batch: "RecordBatch", function: RowFunction, kind: Any) -> "RecordBatch":
    import pyarrow as pa

    from ..decoding.bad_records import message_of, sound

    names = [name for name in batch.schema.names if name != SOURCE]
    made: list[list[Row]] = []
    raised: dict[int, str] = {}
    for number, record in enumerate(batch.select(names).to_pylist()):
        try:
            made.append(_rows(function(record), {field.name for field in kind}))
        except OrderedKafkaError:
            raise
        except Exception as error:  # noqa: BLE001 - any error is this record's, and is reported with its position
            made.append([])
            raised[number] = f"{type(error).__name__}: {message_of(error)}"
    rows, unfit = sound(made, lambda each: pa.array(each, pa.list_(kind)), pa.list_(kind))
    return _with_errors(with_source(batch).column(SOURCE), rows, {**unfit, **raised})


def _rows(found: Row | Iterable[Row] | None, names: set[str]) -> list[Row]:
    rows = [] if found is None else [found] if isinstance(found, Mapping) else list(found)
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"a row must be a dictionary, found {row!r}")
        if unknown := set(row) - names:
            raise ValueError(f"a row has the column {min(unknown)!r}, which is not one of {', '.join(sorted(names))}")
    return rows


def _with_errors(sources: Any, rows: Any, errors: dict[int, str]) -> "RecordBatch":
    """The rows, which are lists by record, and behind them one for each error; with `_source` and `_error`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made, records = rows.flatten(), pc.list_parent_indices(rows)
    columns = [pa.concat_arrays([column, pa.nulls(len(errors), column.type)]) for column in made.flatten()]
    source = sources.take(pa.concat_arrays([records, pa.array(list(errors), records.type)]))
    error = pa.concat_arrays([pa.nulls(len(made), pa.string()), pa.array(list(errors.values()), pa.string())])
    names = [field.name for field in made.type]
    return pa.RecordBatch.from_arrays([*columns, source, error], [*names, SOURCE, ERROR])
