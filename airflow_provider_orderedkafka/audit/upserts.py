"""Compare a table of upserts with its topics: for each key it has the row of its last change, in the load's order.

The table is read at the version that the newest audited range has left. Its topics are read from where the load began
to where it had come, range by range as its ledger went: of the records of a key the one of the last range counts, and
in that the last one in order. What is loaded again gives values anew, and changes nothing else.

Which key a record has and whether it deletes it is known of plain copies alone. What a decoder or a transform has made
is compared as far as rows say which records they are of, and the rest is `unknown`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.commits import DELETED, IDENTITY
from ..core.documents import Report
from ..core.order.positions import TopicPartition
from .comparing import Compared, Finding, Found, Promised, own_records
from .files import PLACE, CannotReadError
from .following import stops
from .numbers import NAMED, UNCOMPARED, Ints, Mask, Source, begins, hashed
from .tables import COMPARED, altered_columns, compared_columns, milliseconds, whole_table

KEYS: Final = frozenset({"key", "topic", "partition"})
"""Of which columns of a plain copy a key may be, so that each record says its own."""

LEFT: Final = frozenset({"key", "value"})
"""What is compared of the row of a delete: it has nothing else."""

WITHIN: Final = ("offset", "code", "time", "turn")
"""What says which record of a key is the last one, the least weighty first; `turn` numbers the ranges."""

LAST: Final = (*WITHIN, "held", "live")
PLACED: Final = ("code", "offset")
ROW: Final = (*COMPARED, "code", "offset", "ordinal", "dead", "place", "at", "other", "held", "named", "live", "anew")
"""The columns of a row: `held` is the hash of its key, `named` that of what its identity says besides. It is `anew`
where its order time is another one than that with which it came into the table."""

BY_IDENTITY: Final = 1 << NAMED.index("identity")

Numbers = dict[str, Ints]


@dataclass(frozen=True)
class Walk:
    """How a load went up to the version that its `newest` range has left.

    Its `ranges` that changed keys, each behind the one before, those that were loaded `again`, and all that `merged`
    rows, even those that were abandoned: None if some may not have said, or not to the end, what they changed.
    """

    newest: Report
    ranges: Sequence[Report]
    again: Sequence[Report]
    merged: Sequence[Report] | None

    @classmethod
    def of(cls, audited: Iterable[Report], known: Iterable[Report | None]) -> "Walk":
        """Raises `CannotReadError` unless all ranges up to the newest one are known."""
        newest, known = max(audited, key=_turn), [*known]
        mine = [each for each in sorted(filter(None, known), key=_turn) if _owner(each) == _owner(newest)]
        merged = [each for each in mine if _stage(each) == "again" or _before(each, newest)]
        changed = [each for each in merged if each.complete and _stage(each) != "again"]
        once = {each.range.ledger_revision: each for each in changed}  # one that was abandoned is loaded anew
        whole = None not in known and all(map(_said_all, merged))
        again = [each for each in merged if _stage(each) == "again"]
        found = cls(newest, [*once.values()], again, merged if whole else None)
        found._check()
        return found

    def _check(self) -> None:
        load = self.newest.range.load
        if not self.ranges or _stage(self.ranges[0]) != "first":
            raise CannotReadError(f"the report of the first range of load {load!r} is not at its checkpoint")
        stood: dict[TopicPartition, int] = {}
        for each in self.ranges:
            for partition, start in each.range.start.offsets.items():
                if (there := stood.get(partition, start)) != start:
                    raise CannotReadError(
                        f"range {each.range_id} begins at {partition.at(start)}, but the last range before it with a "
                        f"report here stopped at {partition.at(there)}: the ranges between them are not known"
                    )
            stood |= stops(each)
        if len({_table(each) for each in (*self.ranges, self.newest)}) > 1:
            raise CannotReadError(f"the ranges of load {load!r} went into several tables, or by several keys")

    @cached_property
    def codes(self) -> dict[TopicPartition, int]:
        """The place of each partition in their order."""
        return {each: at for at, each in enumerate(self.partitions)}

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(sorted({partition for each in self.ranges for partition in each.range.start.offsets}))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return _table(self.newest)[1]

    @cached_property
    def copied(self) -> bool:
        """Whether each record says its key, and whether it deletes it."""
        plain = all(each.destination and each.destination.copied and not each.dead_letters for each in self.ranges)
        return plain and KEYS.issuperset(map(str.lower, self.keys))

    def within(self, report: Report, code: Ints, offset: Ints) -> Mask:
        """Which positions a range has read."""
        edges = (report.range.start.offsets, stops(report))
        start, stop = (np.array([*(each.get(p, 0) for p in self.partitions), 0]) for each in edges)
        inside: Mask = (offset >= start[code]) & (offset < stop[code])
        return inside


def _owner(report: Report) -> str | None:
    return None if report.range.upsert is None else report.range.upsert.owner


def _stage(report: Report) -> str | None:
    return None if report.range.upsert is None else report.range.upsert.stage


def _said_all(report: Report) -> bool:
    """Whether a range has said all that it changed. What loads it once more leaves no report but its own."""
    loaded_once = report.destination is None or report.destination.called in {"", report.range_id}
    return report.complete and loaded_once and not report.changes.unknown


def _turn(report: Report) -> tuple[int, int]:
    return report.range.ledger_revision, report.ended_at


def _before(report: Report, newest: Report) -> bool:
    """Whether a range is in the version that the newest has left; a replay runs beside others."""
    if newest.range.kind == "replay":
        return report.ended_at <= newest.started_at
    return report.range.ledger_revision <= newest.range.ledger_revision


def _table(report: Report) -> tuple[str, tuple[str, ...]]:
    """The id of its table, and the columns of the key."""
    to, at = report.destination, None if report.after is None else report.after.table
    return "" if at is None else at.table, () if to is None else to.upsert


def read_rows(walk: Walk) -> Found:
    """The rows of the table after the walk; raises `CannotReadError`."""
    parts, place = [dict.fromkeys(ROW, np.array([], np.int64))], ""
    for name, batch in whole_table(walk.newest):
        parts.append(_numbers(batch, walk, sum(len(each["at"]) for each in parts)))
        place = name
    return Found({name: np.concatenate([each[name] for each in parts]) for name in ROW}, (place,))


def _numbers(batch: pa.RecordBatch, walk: Walk, at: int) -> Numbers:
    names = {name.lower(): name for name in batch.schema.names}
    lacking = [each for each in (IDENTITY, DELETED, *walk.keys) if each.lower() not in names]
    if lacking:
        raise CannotReadError(f"the table no longer has the column {lacking[0]!r}, found {', '.join(names.values())}")
    identity, count = batch.column(names[IDENTITY]), batch.num_rows
    said = {each: pc.struct_field(identity, each).to_pylist() for each in (*PLACE, "ordinal", "range_id", "topic_id")}
    live = [each is False for each in batch.column(names[DELETED]).to_pylist()]
    columns = {
        "code": [
            walk.codes.get(TopicPartition(*each), -1) for each in zip(said["topic"], said["partition"], strict=True)
        ],
        **{name: [-1 if each is None else each for each in said[name]] for name in ("offset", "ordinal")},
        "at": range(at, at + count),
        "held": [*map(hash, zip(*(hashed(batch.column(names[each.lower()])) for each in walk.keys), strict=True))],
        "named": [*map(hash, zip(said["range_id"], said["topic_id"], strict=True))],
        "live": live,
        "time": milliseconds(pc.struct_field(identity, "order_time")),
    }
    found = {name: np.array(columns.get(name, [0] * count), np.int64) for name in ROW}
    return {**found, **_copied(batch, said, found)} if walk.copied else found


def _copied(batch: pa.RecordBatch, said: Mapping[str, list[object]], found: Numbers) -> Numbers:
    """What a row of a plain copy has besides."""
    values = {name: np.array([*column], np.int64) for name, column in compared_columns(batch).items()}
    others = np.array(altered_columns(batch, [said[each] for each in PLACE]), np.int64)
    live = found["live"] != 0
    anew = live & (values.pop("time") != found["time"]) & ("order_time" in batch.schema.names)
    values["late"][anew] = UNCOMPARED
    kept = {name: np.where(live | (name in LEFT), column, UNCOMPARED) for name, column in values.items()}
    others = np.where(live, others, 0) | BY_IDENTITY * (found["ordinal"] != 0)
    return {**kept, "other": others, "ordinal": np.zeros_like(others), "anew": anew.astype(np.int64)}


def _held(source: Source, keys: Sequence[str]) -> Ints:
    """The key of each record, as `held` has that of a row."""
    code, partitions = source.columns["code"], source.partitions
    parts = {
        "key": source.columns["key"],
        "topic": np.array([hash(each.topic.encode()) for each in partitions], np.int64)[code],
        "partition": np.array([each.partition for each in partitions], np.int64)[code],
    }
    return np.array([*map(hash, zip(*(parts[each.lower()].tolist() for each in keys), strict=True))], np.int64)


def _last(*parts: Numbers) -> Numbers:
    """Of each key the last record, in the order of the keys."""
    found = {name: np.concatenate([each[name] for each in parts]) for name in LAST}
    order = np.lexsort([found[name] for name in (*WITHIN, "held")])
    last = order[np.append(np.diff(found["held"][order]) != 0, True)[: len(order)]]
    return {name: column[last] for name, column in found.items()}


def compare_upserts(
    audited: Sequence[Report],
    known: Iterable[Report | None],
    read: Callable[[Report], Source],
    most: int = 20,
    rows: Callable[[Walk], Found] = read_rows,
) -> dict[str, Compared]:
    """What came of each audited range, by its id, with at most `most` places of a finding.

    `known` are all reports of their load, None for a range that has none; `read` gives the records of a range, and
    `rows` those of the table. What is wrong with a record's row or its key counts for the last audited range that has
    read it, else for the newest. Raises `CannotReadError`.
    """
    walk = Walk.of(audited, known)
    return _Comparison(walk, sorted(audited, key=_turn), rows(walk), read, most).compared()


@dataclass
class _Comparison:
    """Of each row: whether its record is `there`, or may be `gone`, and which key that has, its `own` one.

    `last` has the last record of each key, `holes` the last range for which each partition lacks records now.
    """

    walk: Walk
    audited: Sequence[Report]
    found: Found
    read: Callable[[Report], Source]
    most: int
    last: Numbers = field(default_factory=lambda: dict.fromkeys(LAST, np.array([], np.int64)))

    def __post_init__(self) -> None:
        self.rows = {name: self.found.columns[name] for name in ROW}
        count = len(self.rows["at"])
        self.inside, self.there, self.gone = np.zeros((3, count), bool)
        self.own = np.zeros(count, np.int64)
        self.done = [Compared() for _ in self.audited]
        self.holes = np.full(len(self.walk.partitions) + 1, -1)

    def compared(self) -> dict[str, Compared]:
        for report in self.walk.again:
            self.rows["anew"][self.walk.within(report, self.rows["code"], self.rows["offset"])] = 0
        for turn, report in enumerate(self.walk.ranges):
            self._follow(turn, report)
        why = "rows have another order time: whatever loaded them again left no report here"
        self._leave_open(self.there & (self.rows["anew"] == 1), why)
        self._compare_places()
        if self.walk.copied:
            self._compare_last()
        else:
            self._compare_counts()
        return {report.range_id: done for report, done in zip(self.audited, self.done, strict=True)}

    def _follow(self, turn: int, report: Report) -> None:
        """Read the records of a range: compare their rows, and keep the last one of each key."""
        source = self.read(report)
        code = np.array([self.walk.codes[each] for each in source.partitions], np.int64)
        source = self._without_expired(turn, source, code)
        which, mine = self._rows_of(report, source, code)
        own = own_records(replace(Promised.by(report), copied=self.walk.copied), source, mine, self.most)
        self.inside[which], self.there[which], self.gone[which] = True, own.record >= 0, own.expired
        self.rows["anew"][which[own.altered]] = 0
        why = {int(which[row]): text for row, text in own.why.items()}
        self._add("altered", which[own.altered], lambda row: why.get(row, ""))
        for each, done in zip(self.audited, self.done, strict=True):
            done.late += int(source.columns["late"].sum()) if each.range_id == report.range_id else 0
        if self.walk.copied:
            held = _held(source, self.walk.keys)
            self.own[which] = np.append(held, 0)[own.record]
            more = {"held": held, "live": source.columns["value"] != hash(None), "turn": np.full(len(held), turn)}
            places = {"code": code[source.columns["code"]]}
            self.last = _last(self.last, {**source.columns, **more, **places})

    def _without_expired(self, turn: int, source: Source, code: Ints) -> Source:
        """The source, of which all is certain but where records are gone: what these were is unknown."""
        gone = source.gone
        self.holes[code[gone > 0]] = turn
        why = "are gone, and what they changed is not known"
        for at, home in enumerate(self._homes(code, source.start).tolist()):
            self.done[home].leave_open(int(gone[at]), f"{source.partitions[at]}: records that the load read {why}")
        return replace(source, certain=np.where(gone > 0, source.certain, source.start))

    def _rows_of(self, report: Report, source: Source, code: Ints) -> tuple[Ints, Found]:
        """The rows of a range's records, and them as those of its own output."""
        which = np.flatnonzero(self.walk.within(report, self.rows["code"], self.rows["offset"]))
        mine = {name: column[which] for name, column in self.rows.items()}
        local = np.full(len(self.walk.partitions), -1)
        local[code] = np.arange(len(code))
        mine["code"] = local[mine["code"]]
        called = (report.destination and report.destination.called) or report.range_id
        named = np.array([hash((called, report.range.topics.get(each.topic))) for each in source.partitions], np.int64)
        mine["other"] |= BY_IDENTITY * (mine["named"] != named[mine["code"]])
        return which, replace(self.found, columns=mine)

    def _compare_places(self) -> None:
        """Rows of a key that is there twice, and those behind the place of the load, or of no record."""
        held, code, offset = self.rows["held"], self.rows["code"], self.rows["offset"]
        self.doubled = _again(~self._same, held) | (_again(held, self.rows["ordinal"], offset, code) & (code >= 0))
        self._add("doubled", np.flatnonzero(self.doubled), lambda _: "another row has its key or its record")
        nowhere = self.inside & ~self.there & ~self.gone
        self._add("ahead", np.flatnonzero(nowhere), lambda _: "the load read no such record")
        beyond, why = ~self.inside, "no range up to this version read that offset"
        if self.walk.newest.range.kind == "replay":
            self._leave_open(beyond, f"rows are of ranges that may have been loaded during the replay: {why}")
        else:
            self._add("ahead", np.flatnonzero(beyond), lambda _: why)
        for home, count in enumerate(np.bincount(self._home[self._live & ~self.doubled], minlength=len(self.done))):
            self.done[home].rows += int(count)

    def _compare_last(self) -> None:
        """Each key's row against its last record."""
        live, wanted, offset = self._live, self._of_last("live") == 1, self.rows["offset"]
        earlier = (self.rows["code"] == self._of_last("code")) & (offset < self._of_last("offset"))
        own = (self.there & (self.own == self.rows["held"])) | self.gone
        judged = (self._at >= 0) & ~self.doubled & own
        sure = self._same | earlier | np.append(self._sure, False)[self._at]
        found = {"resurrected": live & ~wanted, "undeleted": ~live & wanted, "stale": ~self._same & (live == wanted)}
        for what, mask in found.items():
            self._add(what, np.flatnonzero(judged & mask & sure), self._why_not_last)
        self._leave_open(judged & ~sure, "the last record of their keys is not known: others are gone")
        self._look_for_missing()

    def _why_not_last(self, row: int) -> str:
        return f"the last record of its key is {self._record(*(int(self._of_last(each)[row]) for each in PLACED))}"

    def _look_for_missing(self) -> None:
        """Keys whose last record is no delete, and that have no row."""
        last, covered = self.last, np.zeros(len(self.last["held"]) + 1, bool)
        covered[self._at] = True
        of_own = self._find(self.own)
        there = np.logical_and.reduce([np.append(last[each], -1)[of_own] == self.rows[each] for each in PLACED])
        covered[of_own[there]] = True
        missing = np.flatnonzero((last["live"] == 1) & ~covered[:-1])
        homes = self._homes(*(last[each][missing] for each in PLACED))
        for home, done in enumerate(self.done):
            mine = missing[homes == home]
            known = mine[self._sure[mine]]
            places = (self._record(*(int(last[each][key]) for each in PLACED)) for key in known)
            done.add("missing", len(known), (Finding("missing", each) for each in places), self.most)
            why = "keys have no row, and records that are gone may have deleted them"
            done.leave_open(len(mine) - len(known), why)

    def _compare_counts(self) -> None:
        """Of what is no plain copy: no more keys are live than were inserted, nor fewer than were not deleted since."""
        newest, keys = self.done[self.audited.index(self.walk.newest)], int((self._live & ~self.doubled).sum())
        newest.leave_open(
            max(len(self.rows["at"]), 1), "only the load knew the keys of records, and which records are deletes"
        )
        if self.walk.merged is None:
            return
        most = sum(each.changes.inserted for each in self.walk.merged)
        revived = sum(each.changes.inserted for each in self.walk.again)  # perhaps after this version
        least = most - revived - sum(each.changes.deleted for each in self.walk.merged)
        why = f"the reports say {least:,} to {most:,} keys, but there are {keys:,}; it is not known which ones"
        newest.add("missing", max(least - keys, 0), iter([Finding("missing", "", why=why)]), least > keys)
        newest.add("ahead", max(keys - most, 0), iter([Finding("ahead", "", why=why)]), keys > most)

    @cached_property
    def _live(self) -> Mask:
        live: Mask = self.rows["live"] == 1
        return live

    @cached_property
    def _at(self) -> Ints:
        """The last record of each row's key; -1 where there is none."""
        return self._find(self.rows["held"])

    @cached_property
    def _same(self) -> Mask:
        """Which rows are of the last record of their key."""
        placed = [self._of_last(each) == self.rows[each] for each in PLACED]
        same: Mask = np.logical_and.reduce([*placed, self._at >= 0])
        return same

    @cached_property
    def _sure(self) -> Mask:
        """Which records are the last ones of their keys, whatever records of other partitions are gone."""
        order = np.argsort(self.holes)
        others = self.holes[np.where(self.last["code"] == order[-1], order[-2], order[-1])]
        return np.asarray(self.last["turn"] > others)

    @cached_property
    def _home(self) -> Ints:
        return self._homes(self.rows["code"], self.rows["offset"])

    def _homes(self, code: Ints, offset: Ints) -> Ints:
        """The audited range for which each position counts."""
        found = np.full(len(code), self.audited.index(self.walk.newest))
        for home, report in enumerate(self.audited):
            found[self.walk.within(report, code, offset)] = home
        return found

    def _find(self, held: Ints) -> Ints:
        """Where the last records of these keys are; -1 for a key that has none."""
        at = np.searchsorted(self.last["held"], held)
        known = np.append(self.last["held"], 0)[at] == held
        return np.where(known & (at < len(self.last["held"])), at, -1)

    def _of_last(self, name: str) -> Ints:
        return np.append(self.last[name], -1)[self._at]

    def _record(self, code: int, offset: int) -> str:
        return self.walk.partitions[code].at(offset) if code >= 0 else "a position that the load does not have"

    def _add(self, what: str, which: Ints, why: Callable[[int], str]) -> None:
        for home, done in enumerate(self.done):
            mine = which[self._home[which] == home]
            done.add(what, len(mine), self._findings(what, mine, why), self.most)

    def _findings(self, what: str, rows: Ints, why: Callable[[int], str]) -> Iterator[Finding]:
        for row in rows.tolist():
            record = self._record(*(int(self.rows[each][row]) for each in PLACED))
            yield Finding(what, record, self.found.at(row), why(row))

    def _leave_open(self, which: Mask, why: str) -> None:
        for home, count in enumerate(np.bincount(self._home[which], minlength=len(self.done))):
            self.done[home].leave_open(int(count), why)


def _again(first: Ints | Mask, *same: Ints) -> Mask:
    """Which rows are like one before them in all that is the `same`, where the one with the least `first` is before."""
    order = np.lexsort((first, *same))
    again = np.zeros(len(order), bool)
    again[order] = ~begins(*(each[order] for each in same))
    return again
