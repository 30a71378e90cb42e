"""Audit ranges: for each, what its report promised against what lies in its output and its source now.

A table that another program wrote has no report: it has to have each record of a range once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, Self

from ..core.documents import Ledger, Report
from ..core.notation.spelling import counted
from ..core.status import COUNTED, AuditRow
from ..errors import FINAL, TEMPORARY
from ..reader import range_between
from .comparing import FINDINGS, UNKNOWN, Compared, Finding, Found, Promised, compare
from .files import CannotReadError
from .following import LoadedOrder, breaks, lost, named_topics
from .messages import OutputTopics, read_range, read_source
from .tables import OfOthers, read_others, read_table
from .upserts import compare_upserts

MOST_ROWS: Final = 2_000_000
"""About how many rows are compared at a time: some 300 bytes each. A range that has more is compared alone."""

Verdict = Literal["clean", "found", "unknown", "open"]


@dataclass(frozen=True, slots=True)
class OfRange:
    """What the audit of a range says. One is `open` that is not loaded yet; `notes` are for people, too."""

    range_id: str
    compared: Compared
    output: str = ""
    open: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: Report, compared: Compared) -> Self:
        doubled, columns = report.may_be_doubled, report.of_columns.removeprefix(", ")
        said = [f"up to {counted(doubled, 'row')} may be doubled"] if doubled else []
        notes = tuple(f"its load said: {each}" for each in (*said, columns) if each)
        return cls(report.range_id, compared, _output(report), notes=notes)

    @property
    def verdict(self) -> Verdict:
        counts = self.compared.counts
        if any(counts[what] for what in FINDINGS):
            return "found"
        if self.open:
            return "open"
        return "unknown" if counts[UNKNOWN] else "clean"

    def row(self, at: int) -> AuditRow:
        verdict = "unknown" if self.verdict == "open" else self.verdict
        counts = {what: self.compared.counts[what] for what in COUNTED}
        return AuditRow(at, verdict, **counts, said=next(islice(self.lines(), 1, None), "").strip())

    def to_json(self) -> dict[str, Any]:
        done = self.compared
        found: dict[str, Any] = {"range": self.range_id, "verdict": self.verdict, "output": self.output}
        found |= {"rows": done.rows, "late": done.late, "dead_letters": done.dead_letters}
        return {
            **found,
            **{what: done.counts[what] for what in COUNTED},
            "reasons": done.reasons,
            "notes": [*self.notes],
        }

    def lines(self) -> Iterator[str]:
        done = self.compared
        numbers = [f"{done.counts[what]:,} {what.replace('_', ' ')}" for what in COUNTED if done.counts[what]]
        also = {"late": done.late, "dead letters": done.dead_letters}
        numbers += [f"{count:,} {what}" for what, count in also.items() if count]
        where = f" in {self.output}" if self.output else ""
        yield ", ".join([f"range {self.range_id}: {self.verdict}: {counted(done.rows, 'row')}{where}", *numbers])
        for place in done.places:
            at, why = place.output and f"at {place.output}", place.why and f"({place.why})"
            yield "  " + " ".join(filter(None, (f"{place.what.replace('_', ' ')}:", place.record, at, why)))
        for what in FINDINGS:
            more = done.counts[what] - sum(place.what == what for place in done.places)
            if more > 0:
                yield f"  and {more:,} more {what.replace('_', ' ')}"
        yield from (f"  unknown: {reason}" for reason in dict.fromkeys(done.reasons))
        yield from (f"  {note}" for note in self.notes)


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit of some ranges says. `others` counts rows between theirs, by the ranges that these are of.

    Of a table that another program wrote, `outside` counts the rows that are not of the range.
    """

    ranges: tuple[OfRange, ...]
    others: Mapping[str, int] = field(default_factory=dict)
    silent: int = 0
    outside: int = 0

    @property
    def exit_code(self) -> int:
        """0 if all is clean, 75 if the rest is not loaded yet, and 65 for what a person has to decide."""
        verdicts = {each.verdict for each in self.ranges}
        if verdicts <= {"clean"}:
            return 0
        return TEMPORARY if verdicts <= {"clean", "open"} else FINAL

    def to_json(self) -> dict[str, Any]:
        each = [one.to_json() for one in self.ranges]
        names = (*COUNTED, "late", "dead_letters")
        places = [{"range": one.range_id, **asdict(place)} for one in self.ranges for place in one.compared.places]
        sums = {name: sum(one[name] for one in each) for name in names}
        others: dict[str, Any] = {"others": dict(self.others), "silent": self.silent, "outside": self.outside}
        return {"ranges": each, **sums, "places": places, **others}

    @property
    def text(self) -> str:
        lines = [line for each in self.ranges for line in each.lines()]
        if self.others:
            lines.append(f"besides: {counted(sum(self.others.values()), 'row')} of {len(self.others)} other ranges")
        if self.silent:
            lines.append(f"besides: {counted(self.silent, 'record')} without a source")
        if self.outside:
            lines.append(f"besides: {counted(self.outside, 'row')} outside of the range")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Clusters:
    """How the clusters of a load are reached: that of its source, and that of its output topics."""

    source: Mapping[str, str]
    output: Mapping[str, str]


def audit(
    reports: Mapping[str, Report | None],
    clusters: Clusters,
    most: int = 20,
    ledger: Ledger | None = None,
    known: Iterable[Report | None] = (),
) -> Audit:
    """Audit ranges by their reports; None is one that is not loaded yet. `most` bounds the places of each finding.

    With the `ledger` the reports are all that there are of its load, and have to follow each other as that says.
    Upserts need those of the ranges before, too, which are among the `known` ones.
    """
    done: dict[str, OfRange] = {}
    ready: list[Report] = []
    upserts: dict[str, list[Report]] = {}
    for range_id, report in reports.items():
        why = "its report says that it is not loaded yet" if report is not None else "it has no report yet"
        if report is None or not report.complete:
            done[range_id] = OfRange(range_id, _unknown(1, why), open=True)
        elif (unknown := _not_to_know(report)) is not None:
            done[range_id] = OfRange(range_id, _unknown(max(report.rows_emitted, 1), unknown), _output(report))
        elif report.range.upsert is not None:
            upserts.setdefault(report.range.upsert.owner, []).append(report)
        else:
            ready.append(report)
    for mine in upserts.values():
        compared_all = _upserted(mine, [*known, *reports.values()], clusters, most)
        done |= {each.range_id: OfRange.of(each, compared_all[each.range_id]) for each in mine}
    others: Counter[str] = Counter()
    silent = 0
    for part in _parts(ready):
        outputs = OutputTopics(clusters.output, part, LoadedOrder.of(ready))
        found = outputs.read()
        for report in part:
            compared = _compared(report, clusters, found.pop(report.range_id), most)
            done[report.range_id] = OfRange.of(report, compared)
        others, silent = max(others, outputs.others, key=Counter.total), max(silent, outputs.silent)
    if ledger is not None:
        _follow(ledger, reports, done)
    return Audit(tuple(done[range_id] for range_id in dict.fromkeys([*reports, *done])), others, silent)


def audit_table(
    table: str, source: Mapping[str, str], topics: Sequence[str], between: tuple[str, str], most: int = 20
) -> Audit:
    """Audit a table that another program wrote: whether it has each record of topics between two places, once.

    The table is `delta:<location>`, `iceberg:<name>` or `parquet:<folder>`. The places are resolved once, at the
    beginning. Raises `SettingError` if the columns do not say which record a row is of, and `CannotReadError`.
    """
    loaded, begin = range_between(source, list(topics), *between)
    columns, stop = OfOthers(table), loaded.end.offsets
    taken = read_others(columns, loaded)
    promised = Promised(loaded.id, copied=True, headers=True, keep_order="none", emitted=0, left_out=(*columns.apart,))
    compared = compare(promised, read_range(source, loaded, stop), taken.found, most)
    compared.late = 0  # neither times nor order are compared
    nowhere = (Finding("stray", each, table, "its topic has no such partition") for each in taken.nowhere)
    compared.add("stray", len(taken.nowhere), nowhere, most)
    gone = [each.remarks[0] for each in begin.deleted if each.maybe]
    for reason in gone if loaded.offsets else ["no offset lies between the start and the end: nothing was compared"]:
        compared.leave_open(1, reason)
    places = {"start": loaded.start.offsets, "end": stop}
    asked = " ".join(f"--{name} '{json.dumps(offsets.to_json())}'" for name, offsets in places.items())
    notes = (columns.note, f"offsets: {asked}", *(each for each in begin.remarks if each not in gone))
    return Audit((OfRange(loaded.id, compared, table, notes=notes),), outside=taken.outside)


def _follow(ledger: Ledger, reports: Mapping[str, Report | None], done: dict[str, OfRange]) -> None:
    """Add what is wrong between the ranges of a ledger, and those that nobody can find."""
    for name, (rows, why) in lost(ledger, reports).items():
        done[name] = OfRange(name, _unknown(max(rows, 1), f"{why}, but no report is here"))
    for each in breaks(ledger, reports):
        compared = done[each.range_id].compared
        if each.what == UNKNOWN:
            compared.leave_open(each.offsets, each.why)
        else:
            compared.add(each.what, each.offsets, iter([Finding(each.what, each.at, why=each.why)]), 1)


def _compared(report: Report, clusters: Clusters, found: Found, most: int) -> Compared:
    if not _output(report).startswith("topic:"):
        try:
            found = read_table(report, found)
        except CannotReadError as error:
            return _unknown(max(report.rows_emitted, 1), str(error))
    return compare(Promised.by(report), read_source(clusters.source, report), found, most)


def _upserted(
    mine: Sequence[Report], known: Sequence[Report | None], clusters: Clusters, most: int
) -> dict[str, Compared]:
    try:
        read = partial(read_source, clusters.source)
        return compare_upserts(mine, known, read, most)
    except CannotReadError as error:
        return {each.range_id: _unknown(max(each.rows_emitted, 1), str(error)) for each in mine}


def _output(report: Report) -> str:
    return "" if report.destination is None else report.destination.output


def _unknown(count: int, why: str) -> Compared:
    done = Compared()
    done.leave_open(count, why)
    return done


def _not_to_know(report: Report) -> str | None:
    """Why nothing can be known of a range."""
    to = report.destination
    if to is None:
        return "its report does not say where its rows went"
    kind = to.output.partition(":")[0]
    if not to.identity and kind == "topic":
        return "its rows do not name their source: provenance is off"
    if kind == "topic" and not named_topics(to.output):
        return "its rows named their own topics, and outputTopics did not list them"
    return None


def _parts(reports: Sequence[Report]) -> Iterator[list[Report]]:
    """Ranges whose rows are compared together, so that few passes over the outputs are made."""
    part: list[Report] = []
    for report in reports:
        if part and sum(each.rows_emitted for each in [*part, report]) > MOST_ROWS:
            yield part
            part = []
        part.append(report)
    if part:
        yield part
