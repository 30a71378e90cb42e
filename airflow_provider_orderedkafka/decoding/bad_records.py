"""Many items at once, and where that fails, the sound ones alone: `sound(items, make, type)`. The others are listed."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from ..core.notation.spelling import counted
from ..errors import RowError
from ..kafka.provenance import ERROR

MOST_CHARACTERS: Final = 500

WAY_OUT: Final = (
    "let it pass with Rows(bad_records=Allow(10, to='<topic>')), by hand --bad-records 10 --dead-letters <topic>, "
    "which keeps its bytes there; or correct the format, the schema or the transform"
)

Errors = dict[int, str]
"""Why items are unusable, by their index."""


def sound(items: Sequence[Any], make: Callable[[Sequence[Any]], Any], kind: Any) -> tuple[Any, Errors]:
    """What `make` makes of the items, null for those that it fails for alone: halves are tried to find them."""
    if not items:
        return pa.nulls(0, kind), {}
    errors: Errors = {}
    parts = _parts(items, make, 0, errors)
    return pa.concat_arrays([pa.nulls(1, kind) if part is None else part for part in parts]), errors


def _parts(items: Sequence[Any], make: Callable[[Sequence[Any]], Any], at: int, errors: Errors) -> list[Any]:
    try:
        return [make(items)]
    except Exception as error:  # noqa: BLE001 - any error is one item's, and is reported with its position
        if len(items) == 1:
            errors[at] = message_of(error)
            return [None]
    half = len(items) // 2
    return _parts(items[:half], make, at, errors) + _parts(items[half:], make, at + half, errors)


def message_of(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:MOST_CHARACTERS]


def with_errors(batch: Any, errors: Errors) -> Any:
    """The records that have an error, with it in the column `_error`."""
    bad = batch.take(pa.array(list(errors), pa.int64()))
    return bad.append_column(ERROR, pa.array(list(errors.values()), pa.string()))


def too_many(bad: Any, most: int) -> RowError:
    """The error for more bad records than may be, with the place of the first."""
    topic, partition, offset, why = (bad.column(name)[0].as_py() for name in ("topic", "partition", "offset", ERROR))
    count = "no record may be bad" if not most else f"at most {counted(most, 'record')} may be bad"
    return RowError(
        f"{topic}[{partition}]@{offset}: {why}. {count[0].upper()}{count[1:]}: {WAY_OUT}",
        topic=topic,
        partition=partition,
        offset=offset,
    )
