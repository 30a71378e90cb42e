"""Compare the rows of a range in an output with the records of its source.

    compare(promised, source, found) -> Compared

A plain copy is compared record by record: each is there once, or as a dead letter, with its key, value, headers and
timestamp. What a transform made is compared by coverage: each row is of a record that the range read, once, and the
numbers of a record's rows have no gap; how many rows a transform gives is not known here, so only their sum counts.
The rows of a key are in one partition, those that name their partition themselves in the one that their record has.

What cannot be known is counted as `unknown`, with the reason: records that their topic does not have any more, and
rows that may have been in an output where something was deleted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from ..core.documents import Report
from ..core.lanes import KeepOrder, PlacedBy
from ..core.order.positions import TopicPartition
from ..core.status import COUNTED
from ..kafka.provenance import WHOLE_RECORD
from ..kafka.read.columns import LAST_MILLISECOND
from .numbers import NAMED, UNCOMPARED, Columns, Ints, Mask, Source, begins

UNKNOWN: Final = "unknown"
FINDINGS: Final = tuple(what for what in COUNTED if what != UNKNOWN)
FORMATS: Final = ("parquet", "orc", "json", "avro")
"""Those of files that keep bytes and times."""

FILES: Final = tuple(f"{kind}:" for kind in FORMATS)
"""Outputs whose files have their rows in the order of the load, whatever else is kept in order."""

QUARTER: Final = 900_000
FARTHEST: Final = 56 * QUARTER
"""By what the clocks of zones are apart from UTC, and by how much at most, in milliseconds."""

COPIED: Final = ("key", "value", "headers", "timestamp", "timestampType", "late")


@dataclass(frozen=True, slots=True)
class Promised:
    """What the range's load has promised and reported.

    `emitted` are the rows that it wrote, as far as the report itself is `certain` of it. Where places `follow` each
    other, what is kept in order goes on from each to the next one. Columns that were `left_out` are not compared. Times
    are `by_the_clock` of wherever they were written, where the format keeps those.
    """

    range_id: str
    copied: bool
    headers: bool
    keep_order: KeepOrder
    emitted: int
    certain: bool = True
    placed_by: PlacedBy = ""
    follow: bool = False
    left_out: tuple[str, ...] = ()
    by_the_clock: bool = False

    @classmethod
    def by(cls, report: Report) -> "Promised":
        to, loaded = report.destination, report.range
        assert to is not None
        in_files = to.copied and to.output.startswith(FILES)
        return cls(
            range_id=report.range_id,
            copied=to.copied,
            headers=to.headers and loaded.include_headers,
            keep_order="partition" if in_files else to.keep_order,
            emitted=report.rows_emitted,
            certain=not (report.may_be_doubled or report.lost),
            placed_by=to.placed_by,
            follow=in_files,
            left_out=report.columns_left_out,
            by_the_clock=to.output.startswith("orc:"),
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a range in an output, in the order in which they lie there, with their `places`.

    `taken` is how many offsets of the output are gone since: what was there is not known; None if that is any number.
    `nameless` is how many other rows say that they are of the range, and not of which record; `silent` how many say
    neither. Unless rows are `numbered`, they say of which record they are, and not which of its rows. `grown`: topics
    have got more partitions while it was loaded. `behind` has the rows that lie behind one of a later range, with its
    id.
    """

    columns: Columns | Mapping[str, Ints]
    places: tuple[TopicPartition | str, ...]
    taken: int | None = 0
    nameless: int = 0
    silent: int = 0
    numbered: bool = True
    grown: bool = False
    behind: Mapping[int, str] = field(default_factory=dict)

    def at(self, row: int) -> str:
        return f"{self.places[self.columns['place'][row]]}@{self.columns['at'][row]}"


class OwnRecords(NamedTuple):
    """The records that rows say to be of, -1 where there is none; it may have `expired`. Which rows differ, and why."""

    record: Ints
    expired: Mask
    altered: Ints
    why: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or not known: with which record, where in the output, and why."""

    what: str
    record: str
    output: str = ""
    why: str = ""


@dataclass(slots=True)
class Compared:
    """What came of it: `counts` of findings, some with their `places`, and the `reasons` for what is unknown."""

    rows: int = 0
    late: int = 0
    dead_letters: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    places: list[Finding] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, what: str, count: int, places: Iterator[Finding], most: int) -> None:
        self.counts[what] += count
        self.places += [place for _, place in zip(range(most), places, strict=False)]

    def leave_open(self, count: int, why: str) -> None:
        if count:
            self.counts[UNKNOWN] += count
            self.reasons.append(why)


def compare(promised: Promised, source: Source, found: Found, most: int = 20) -> Compared:
    """At most `most` places of each finding are kept."""
    return _Comparison(promised, source, found, most).compared()


def own_records(promised: Promised, source: Source, found: Found, most: int = 20) -> "OwnRecords":
    """Compare each row with the record that it says to be of, and with nothing else."""
    one = _Comparison(promised, source, found, most)
    return OwnRecords(one._rows.index, one._rows.expired, *one._altered())


@dataclass
class _Comparison:
    promised: Promised
    source: Source
    found: Found
    most: int
    missed: int = 0

    def compared(self) -> Compared:
        done, rows = Compared(), self._rows
        sound = int((~rows.dead & rows.first).sum())
        done.rows, done.dead_letters = sound, int((rows.dead & rows.first).sum())
        done.late = int(self.source.columns["late"].sum())
        done.leave_open(self.found.nameless, "rows do not name their record")
        done.leave_open(self.found.silent, "other rows do not name their range: they may be copies")
        self._add(done, "stray", np.flatnonzero(rows.stray), self._why_stray)
        if self.found.numbered:
            self._add(done, "doubled", rows.doubled, lambda row: f"{rows.before(row)} is the same row")
        else:
            done.leave_open(len(rows.doubled), "several rows are of one record, without their number in it")
        self._add(done, "altered", *self._altered())
        done.leave_open(int(self._moved.sum()), "times are those of a clock of another zone than UTC, or other ones")
        wrong, why = self._out_of_order()
        self._add(done, "out_of_order", wrong, why)
        self._add(done, "out_of_order", *self._behind_later({*wrong.tolist()}))
        self._compare_places(done, wrong)
        self._compare_what_expired(done)
        self._look_for_missing(done)
        return done

    @cached_property
    def _rows(self) -> "_Rows":
        return _Rows(self.promised, self.source, self.found)

    def _add(self, done: Compared, what: str, which: Ints, why: Mapping[int, str] | Callable[[int], str]) -> None:
        tell = why.__getitem__ if isinstance(why, Mapping) else why
        places = (Finding(what, self._rows.record(row), self.found.at(row), tell(row)) for row in which.tolist())
        done.add(what, len(which), places, self.most)

    def _why_stray(self, row: int) -> str:
        rows = self._rows
        if rows.code[row] < 0:
            return "the range does not read that partition"
        if not rows.in_span[row]:
            return "the range did not read that offset"
        if rows.index[row] >= 0:
            return f"it claims to be row {rows.ordinal[row]} of its record, but a plain copy has only row 0"
        return "the range could not have read this record: it was aborted, or never existed"

    def _altered(self) -> tuple[Ints, dict[int, str]]:
        """Rows that are not as their record has them, and in what."""
        rows, records = self._rows, self.source.columns
        which = np.flatnonzero(rows.regular & (rows.index >= 0))
        index = rows.index[which]
        time, least = rows.time[which], records["time"][index]
        wrong = {"order time": np.where(self.source.exact[index], time != least, time < least) & (time != UNCOMPARED)}
        if self.promised.copied:
            for name in COPIED:
                wrong[name] = self.found.columns[name][which] != records[name][index]
            if self.promised.headers is False:
                wrong["headers"] = self.found.columns["headers"][which] != hash(())
            for name in COPIED[2:]:
                wrong[name] &= self.found.columns[name][which] != UNCOMPARED
            stamps, last = records["timestamp"][index], self.found.columns["timestamp"][which] == LAST_MILLISECOND
            wrong["timestamp"] &= (stamps >= 0) & ~(last & (stamps > LAST_MILLISECOND))
            wrong["late"] &= self.source.exact[index]
            wrong |= {name: wrong[name] & ~self._moved[which] for name in ("order time", "timestamp")}
        wrong |= {name: self.found.columns["other"][which] >> bit & 1 != 0 for bit, name in enumerate(NAMED)}
        if self.promised.copied:
            wrong["partition"] |= self._elsewhere(which)
        apart = {name.partition(".")[0].lower().replace("_", " ") for name in self.promised.left_out}
        wrong = {name: rows for name, rows in wrong.items() if name.lower() not in apart}
        every = np.logical_or.reduce(list(wrong.values()))
        why = {
            int(which[at]): "another " + " and ".join(name for name, mask in wrong.items() if mask[at])
            for at in np.flatnonzero(every)[: self.most].tolist()
        }
        return which[every], why

    @cached_property
    def _moved(self) -> Mask:
        """Rows of which a time is another one only as that of another zone is."""
        rows, records = self._rows, self.source.columns
        moved = np.zeros(len(rows.index), bool)
        which = np.flatnonzero(rows.regular & (rows.index >= 0) & (self.promised.copied & self.promised.by_the_clock))
        for name in ("timestamp", "time"):
            apart = np.abs(self.found.columns[name][which] - records[name][rows.index[which]])
            moved[which] |= (apart > 0) & (apart <= FARTHEST) & (apart % QUARTER == 0)
        return moved

    def _elsewhere(self, which: Ints) -> Mask:
        """Which of these rows should be in the partition that their record has, and are not."""
        if self.promised.placed_by != "row":
            return np.zeros(len(which), bool)
        there = np.array([getattr(place, "partition", -1) for place in self.found.places], np.int64)
        own = np.array([each.partition for each in self.source.partitions], np.int64)
        moved: Mask = there[self.found.columns["place"][which]] != own[self._rows.code[which]]
        return moved

    def _compare_places(self, done: Compared, known: Ints) -> None:
        """Rows of a key that are not in the partition where most of its rows are, but for those known to be wrong."""
        if self.promised.keep_order == "none" or (self.promised.placed_by == "row" and self.promised.copied):
            return
        scattered = np.setdiff1d(self._rows.scattered(), known)
        empty = self.found.columns["key"][scattered] == hash(b"")  # some partitioners take it for none
        open_ = empty | (self.promised.placed_by != "key" or self.found.grown)
        why = "rows of a key are in several partitions, and the right one is not known: "
        because = "partitions were added since" if self.found.grown else "their keys alone do not decide"
        done.leave_open(int(open_.sum()), why + because)
        self._add(done, "out_of_order", scattered[~open_], lambda _: "most rows of its key are in another partition")

    def _out_of_order(self) -> tuple[Ints, dict[int, str]]:
        """Rows that lie behind one that should come after them, in what the load keeps in order."""
        rows = self._rows
        which = np.flatnonzero(rows.regular & rows.first)
        if self.promised.keep_order == "none" or not len(which):
            return np.array([], np.int64), {}
        group = rows.group(self.promised.keep_order)[which]
        columns = self.found.columns
        which = which[np.lexsort((columns["at"][which], group, columns["place"][which]))]
        group = rows.group(self.promised.keep_order)[which]
        same = (np.diff(group) == 0) & (self.promised.follow | (np.diff(columns["place"][which]) == 0))
        falls, tied = np.zeros(len(same), bool), np.ones(len(same), bool)
        for rank in (rows.order_time, rows.code, rows.offset, rows.ordinal):
            step = np.diff(rank[which])
            falls |= tied & (step < 0)
            tied &= step == 0
        wrong = np.flatnonzero(falls & same)
        why = {}
        for at in wrong[: self.most].tolist():
            before = which[at]
            why[int(which[at + 1])] = f"it comes after {rows.record(before)} at {self.found.at(before)}"
        return which[wrong + 1], why

    def _behind_later(self, known: set[int]) -> tuple[Ints, dict[int, str]]:
        """Rows that lie behind one of a range that was loaded later, but for those that are known to be wrong."""
        right = self._rows.regular & self._rows.first
        found = {row: later for row, later in self.found.behind.items() if right[row] and row not in known}
        why = {row: f"it comes after a row of range {later}, which was loaded later" for row, later in found.items()}
        return np.array(sorted(found), np.int64), why

    def _compare_what_expired(self, done: Compared) -> None:
        """Rows of records that are not there any more: as many as were read and are not seen, and no more."""
        rows, source = self._rows, self.source
        expired = rows.first & rows.expired
        for code in np.flatnonzero(source.unseen > 0).tolist():
            which = np.unique(rows.offset[expired & (rows.code == code)])
            self._compare_expired_partition(done, code, len(which))

    def _compare_expired_partition(self, done: Compared, code: int, found: int) -> None:
        """Compare how many offsets have no record and may have had one, and how many of them have rows."""
        source, partition = self.source, self.source.partitions[code]
        why = f"{partition}: records that the range may have read are gone, so their rows cannot be compared"
        gone = int(source.gone[code])
        if source.read[code] < 0:
            done.leave_open(gone, why)
            return
        done.leave_open(min(found, gone), why)
        why = f"{gone:,} of the records that it read are gone, but there are rows of {found:,}"
        if found > gone:
            done.add("stray", found - gone, iter([Finding("stray", str(partition), why=why)]), 1)
        elif self.promised.copied:
            self._miss(done, gone - found, iter([Finding("missing", str(partition), why=why)]))

    def _look_for_missing(self, done: Compared) -> None:
        if self.promised.copied:
            which = np.flatnonzero(~self._rows.covered)
            self._miss(done, len(which), (Finding("missing", self.source.at(record)) for record in which.tolist()))
            return
        gaps, places = self._rows.gaps(self.most)
        self._miss(done, gaps, iter(places))
        there = done.rows + self.found.nameless + (0 if self.found.numbered else len(self._rows.doubled))
        wrong = self.promised.emitted - there - gaps
        why = f"the report says {self.promised.emitted:,} rows, but there are {there:,}; it is not known which ones"
        if not self.promised.certain:
            done.leave_open(max(abs(wrong), 1), f"{why}, and the report is not certain of the number")
        elif wrong > 0:
            self._miss(done, wrong, iter([Finding("missing", "", why=why)]))
        elif wrong < 0 and not gaps:
            done.add("stray", -wrong, iter([Finding("stray", "", why=why)]), 1)

    def _miss(self, done: Compared, count: int, places: Iterator[Finding]) -> None:
        """Rows that are not there: they are missing, but for as many as may have been taken away."""
        taken = count if self.found.taken is None else min(count, self.found.taken - self.missed)
        self.missed += taken
        done.leave_open(taken, "not found, and offsets of the output are gone, by retention, compaction or a new topic")
        done.add("missing", count - taken, places, self.most if count > taken else 0)


@dataclass
class _Rows:
    """The rows with what they are: each mask says it of every row, in the order in which they lie."""

    promised: Promised
    source: Source
    found: Found

    def __post_init__(self) -> None:
        columns = self.found.columns
        self.code = columns["code"].astype(np.int64)
        self.offset, self.time = columns["offset"], columns["time"]
        self.ordinal = columns["ordinal"].astype(np.int64)
        self.dead = columns["dead"].astype(bool)

    def record(self, row: int) -> str:
        ordinal = int(self.ordinal[row])
        name = self.source.position(int(self.code[row]), int(self.offset[row]))
        return f"row {ordinal} of {name}" if ordinal > 0 else name

    @cached_property
    def index(self) -> Ints:
        """The record of each row; -1 where there is none."""
        return self.source.find(self.code, self.offset)

    @cached_property
    def in_span(self) -> Mask:
        start, stop = (np.append(each, 0)[self.code] for each in (self.source.start, self.source.stop))
        inside: Mask = (self.code >= 0) & (self.offset >= start) & (self.offset < stop)
        return inside

    @cached_property
    def expired(self) -> Mask:
        certain = np.append(self.source.certain, 0)[self.code]
        gone: Mask = self.in_span & (self.index < 0) & (self.offset < certain)
        return gone

    @cached_property
    def stray(self) -> Mask:
        nowhere: Mask = ~self.in_span | ((self.index < 0) & ~self.expired)
        return nowhere | (~self.dead & (self.ordinal != 0)) if self.promised.copied else nowhere

    @property
    def regular(self) -> Mask:
        regular: Mask = ~self.stray & ~self.dead
        return regular

    @cached_property
    def order_time(self) -> Ints:
        """By the source where it knows, else by what the row says."""
        known = np.append(self.source.exact, False)[self.index]
        return np.where(known, np.append(self.source.columns["time"], 0)[self.index], self.time)

    def group(self, keep_order: KeepOrder) -> Ints:
        """What has to be in order with what: rows without a key with those of their own partition."""
        if keep_order == "partition":
            return np.zeros(len(self.code), np.int64)
        keys = self.found.columns["key"]
        return np.where(keys == hash(None), self.code, keys)

    def scattered(self) -> Ints:
        """Rows that lie in another partition of their topic than most rows of their key do."""
        columns, places = self.found.columns, self.found.places
        known = {each.topic: number for number, each in enumerate(places) if isinstance(each, TopicPartition)}
        topics = np.array([known.get(getattr(each, "topic", ""), -1) for each in places], np.int64)
        keyed = (columns["key"] != hash(None)) & (topics[columns["place"]] >= 0)
        which = np.flatnonzero(self.regular & self.first & keyed)
        key, place = columns["key"][which], columns["place"][which]
        topic = topics[place]
        order = np.lexsort((place, key, topic))
        new_key = begins(key[order], topic[order])
        new_place = begins(key[order], topic[order], place[order])
        of_key, of_place = np.cumsum(new_key) - 1, np.cumsum(new_place) - 1
        keys, counts = of_key[new_place], np.bincount(of_place)
        most = np.lexsort((-counts, keys))  # of each key the place with the most rows first
        home = most[begins(keys[most])]
        return np.sort(which[order[of_place != home[of_key]]])

    @cached_property
    def _again(self) -> dict[int, int]:
        """For each row that is there again: the first one."""
        known = np.flatnonzero(~self.stray)
        order = known[np.lexsort((self.dead[known], self.ordinal[known], self.offset[known], self.code[known]))]
        new = begins(*(each[order] for each in (self.code, self.offset, self.ordinal, self.dead.astype(np.int64))))
        first = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
        return {**dict(zip(order[~new].tolist(), first[~new].tolist(), strict=True)), **self._also_dead_letters()}

    def _also_dead_letters(self) -> dict[int, int]:
        """Rows of records that are dead letters, too."""
        letters = np.flatnonzero(self.dead & ~self.stray)
        by_row = {(int(self.code[at]), int(self.offset[at]), int(self.ordinal[at])): int(at) for at in letters}
        near = np.flatnonzero(self.regular & np.isin(self.offset, self.offset[letters]))
        found = {}
        for row in near.tolist():
            code, offset, ordinal = int(self.code[row]), int(self.offset[row]), int(self.ordinal[row])
            letter = by_row.get((code, offset, WHOLE_RECORD), by_row.get((code, offset, ordinal)))
            if letter is not None:
                found[row] = letter
        return found

    @cached_property
    def doubled(self) -> Ints:
        return np.array(sorted(self._again), np.int64)

    @cached_property
    def first(self) -> Mask:
        """Which rows are what they say, and there for the first time."""
        mask = ~self.stray
        mask[self.doubled] = False
        return mask

    def before(self, row: int) -> str:
        return self.found.at(self._again[row])

    @cached_property
    def covered(self) -> Mask:
        """Which records have a row, or a dead letter."""
        covered = np.zeros(len(self.source.columns["offset"]), bool)
        covered[self.index[~self.stray & (self.index >= 0)]] = True
        return covered

    def gaps(self, most: int) -> tuple[int, list[Finding]]:
        """How many rows are missing before others of their record, and where."""
        which = np.flatnonzero(self.first & (self.ordinal >= 0))
        which = which[np.lexsort((self.ordinal[which], self.offset[which], self.code[which]))]
        first = begins(self.code[which], self.offset[which])
        before = np.where(first, -1, np.append(-1, self.ordinal[which][:-1])[: len(which)])
        lacking = self.ordinal[which] - before - 1
        at = which[lacking > 0][:most].tolist()
        return int(lacking.sum()), [Finding("missing", f"rows before {self.record(row)}") for row in at]
