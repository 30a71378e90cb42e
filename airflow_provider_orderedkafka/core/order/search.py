"""Find the time before which there are N offsets: interpolation, with several guesses at once.

`totals` of rows never fall with time. A target is bracketed by the last row known at or below it and the first one
above it. Each round asks for one interpolated time for each target; after a few rounds for the middle of its bracket
too, so that neither a steady flow nor a burst takes many.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_orderedkafka.core.order.index import Row, TimeIndex

ASK_AT_ONCE = 32
STEADY_ROUNDS = 3


class Search:
    """Rows around some targets, from a first row up to a last one that is beyond every target."""

    def __init__(self, index: TimeIndex, last: Row) -> None:
        self._index = index
        self._rows = [index.start(), last]

    @property
    def last(self) -> Row:
        return self._rows[-1]

    def bracket(self, target: int) -> tuple[Row, Row]:
        """The last row known at or below the target, and the first one above it."""
        place = bisect_right(self._rows, target, key=lambda row: row.total)
        return self._rows[max(place - 1, 0)], self._rows[min(place, len(self._rows) - 1)]

    def find(self, targets: Sequence[int], tolerance: int) -> None:
        """Ask until each target's bracket is tight: a row within the tolerance, or two times with nothing between."""
        first = min(self._index.start().until + 1, self._rows[-1].time)
        self._learn([first])
        rounds = 0
        while wanted := [target for target in targets if not self._tight(target, tolerance)]:
            rounds += 1
            self._learn(self._guesses(wanted, halve=rounds > STEADY_ROUNDS))

    def _tight(self, target: int, tolerance: int) -> bool:
        low, high = self.bracket(target)
        near = target - low.total <= tolerance or high.total - target <= tolerance
        return (near and tolerance > 0) or low.total == target or high.time <= low.until + 1

    def _guesses(self, wanted: list[int], *, halve: bool) -> list[int]:
        guesses: set[int] = set()
        for target in wanted:
            low, high = self.bracket(target)
            before, after = low.until, high.time
            share = (target - low.total) / max(high.total - low.total, 1)
            guess = before + round((after - before) * share)
            for time in (guess, (before + after) // 2) if halve else (guess,):
                guesses.add(min(max(time, before + 1), after - 1))
        return _spread(sorted(guesses), ASK_AT_ONCE)

    def _learn(self, times: Iterable[int]) -> None:
        last = self._rows[-1]
        known = {row.time: row for row in self._rows} | {row.time: row for row in self._index.at(list(times))}
        rows: list[Row] = []
        for row in sorted(known.values(), key=lambda row: row.time):
            before = rows[-1] if rows else row
            flat = row.total <= before.total  # nothing between them; or the log changed between two answers
            until = max(row.until, before.until)
            rows.append(replace(row, total=before.total, until=until) if flat else row)
        self._rows = [row for row in rows if row.time < last.time] + [last]


def _spread(times: list[int], most: int) -> list[int]:
    if len(times) <= most:
        return times
    return [times[place * len(times) // most] for place in range(most)]
