"""Durations such as `"15m"`, `"1h30m"` or `"250ms"`, as whole milliseconds.

A bare number is refused, because Spark reads it as milliseconds and Airflow as seconds; zero needs no unit. So is a
duration too long to add to any date.
"""

import re
from datetime import timedelta
from typing import Final

from airflow_provider_orderedkafka.errors import SettingError

MILLISECONDS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
LONGEST: Final = timedelta(days=1_000_000)
ALLOWED: Final = (
    "numbers with units from large to small, such as '15m', '1h30m', '2d' or '250ms' (d, h, m, s, ms), up to 1000000d"
)

_PART: Final = r"(?:(?P<{0}>[0-9]{{1,12}})\s*{0})?\s*"
_WRITTEN: Final = re.compile("".join(_PART.format(unit) for unit in MILLISECONDS))


def parse_duration(value: object, name: str) -> int:
    """Parse the duration of the setting `name`; a `SettingError` says what is allowed."""
    if isinstance(value, timedelta) and timedelta() <= value <= LONGEST:
        return value // timedelta(milliseconds=1)
    if value == 0 and not isinstance(value, bool):
        return 0
    if isinstance(value, str):
        text = value.strip().lower()
        found = _WRITTEN.fullmatch(text)
        if text == "0":
            return 0
        if text and found:
            total = sum(int(number) * MILLISECONDS[unit] for unit, number in found.groupdict().items() if number)
            if total <= LONGEST // timedelta(milliseconds=1):
                return total
    raise SettingError(f"{name!r} must be {ALLOWED}, found {value!r}{_hint(value)}")


def format_duration(milliseconds: int) -> str:
    """A duration as `parse_duration` reads it."""
    return "".join(_parts(milliseconds)) or "0s"


def shown_duration(milliseconds: int) -> str:
    """About how long it is: its two largest units, and no milliseconds beside seconds."""
    return "".join(_parts(milliseconds // 1_000 * 1_000 or milliseconds)[:2]) or "0s"


def _parts(milliseconds: int) -> list[str]:
    parts, left = [], milliseconds
    for unit, size in MILLISECONDS.items():
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return parts


def _hint(value: object) -> str:
    number = str(value).strip()
    if not isinstance(value, bool) and number.isascii() and number.isdigit():
        return f": a number alone has no unit; did you mean '{number}s'?"
    return ""
