"""The files beside the checkpoint of a range, by name, and what came of the range by those.

range.json            the range, written before its first attempt is counted: another one is refused here
works/<hash>.json     range and job, where they are too long for an argument
lease/<term>.json     who works on it
setups/<hash>.json    how it is loaded, and jobs/<hash>.json what was asked for, by what they say: none replaces another
notes/<batch>/<term>.json   written before a batch's first write, by each attempt for itself: that of the newest counts,
                      which had seen those before; it names a setup, which every later attempt has to fit
allotments/<batch>.json   where the row limit ends inside a batch
counts/<batch>/<term>.json  written after a batch's last write, by each attempt for itself: they count where no newer
                      one has noted the batch, which may know of more than they say
plan/<token>/         planned batches that an attempt streams: never read again
failure.json          why the newest attempt that failed did
overtaken/<n>.json    what an attempt that a newer one took over from may have doubled, numbered from 1 without a gap
report.json           what came of it, by who succeeded first: all else is deleted then, but for
                      works that others read, and for what overtaken attempts have left
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from .batches import Overtaken
from .documents import Report

RANGE: Final = "range.json"
WORKS: Final = "works"
LEASES: Final = "lease"
SETUPS, JOBS = "setups", "jobs"
NOTES, ALLOTMENTS, COUNTS = "notes", "allotments", "counts"
PLAN: Final = "plan"
FAILURE: Final = "failure.json"
OVERTAKEN: Final = "overtaken"
REPORT: Final = "report.json"
DOCUMENT: Final = ".json"

AFTER_THE_RANGE = frozenset({SETUPS, JOBS, LEASES, NOTES, ALLOTMENTS, COUNTS, PLAN, FAILURE, OVERTAKEN, REPORT})
"""What is only ever written once the range lies there."""

SIGNS = (RANGE, REPORT, FAILURE)
"""By which it is seen that a range was ever taken there."""

Read = Callable[[str], str | None]
"""The text of the document of this name; None where there is none."""


def proof_by(read: Read) -> Report | None:
    """The report of success, if there is one; with what attempts that were overtaken may have doubled since."""
    found = _report(read(REPORT))
    if found is None or not found.complete:
        return None
    rows = found.rows_emitted + found.dead_letters
    more = sum(rows if each.rows is None else min(each.rows, rows) for each in overtaken_by(read))
    return replace(found, may_be_doubled=found.may_be_doubled + more) if more else found


def overtaken_by(read: Read) -> list[Overtaken]:
    found: list[Overtaken] = []
    while (text := read(overtaken_file(len(found) + 1))) is not None:
        found.append(Overtaken.from_text(text))
    return found


def overtaken_file(number: int) -> str:
    return f"{OVERTAKEN}/{number}{DOCUMENT}"


def report_by(read: Read) -> Report | None:
    """The report of success, or else the newest failure, which says nothing of an attempt that came further."""
    return proof_by(read) or _report(read(FAILURE))


def _report(text: str | None) -> Report | None:
    return None if text is None else Report.from_text(text)
