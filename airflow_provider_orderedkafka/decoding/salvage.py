"""Many items at once, and where that fails, the sound ones alone: `sound(items, make, type)`."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

MOST_CHARACTERS = 500

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
    except Exception as error:  # noqa: BLE001 - any error is one item's, and is told with its position
        if len(items) == 1:
            errors[at] = told(error)
            return [None]
    half = len(items) // 2
    return _parts(items[:half], make, at, errors) + _parts(items[half:], make, at + half, errors)


def told(error: Exception) -> str:
    """The error in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:MOST_CHARACTERS]
