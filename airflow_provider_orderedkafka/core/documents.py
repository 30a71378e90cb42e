"""The documents that steps pass on: `Range`, `Ledger`, `Claim`, `Report`, `Boundary`.

Each is a frozen value with one canonical text; reading is strict. Times are milliseconds since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Literal

from .codec import Document, Duration, Time, canonical, encode
from .commits import TableVersion
from .lanes import KeepOrder, PlacedBy
from .notation.spelling import counted
from .order.cuts import OnDataLoss, Place, Span
from .order.positions import Offsets

__all__ = ["Boundary", "Ledger", "Open", "Outcome", "Place", "Range", "Report"]

OUTCOMES_KEPT = 50

CLAIMS_KEPT = 2_000
"""How many ended claims are kept, with their ranges: over two months of hourly intervals, as for boundaries."""

DOUBTS = ("dead_letters", "may_be_doubled", "may_be_out_of_order", "lost")
"""Counts of a report that are shown to people when they are not 0, and kept with the outcome."""

COLUMNS = ("columns_added", "columns_left_out")
"""What of a report says what became of columns that a table lacked."""

COSTS = ("core_ms", "bytes_written", "files_written")
"""What of a report says what the load cost."""

REPORTED = (
    *("range_id", "attempt", "limit_reached", "batches", "rows_read", "rows_emitted", "late", "replayed"),
    *(*DOUBTS, *COLUMNS, *COSTS),
)
"""What the task that loads returns of a report."""

Kind = Literal["incremental", "interval", "replay"]
Stage = Literal["first", "next", "again"]
Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class Upsert:
    """What a range is to a table of which each row is the last one of its key, and which belongs to `owner`.

    It is the "first" one of its load, or the "next" one, or was loaded before: "again".
    """

    owner: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the keys of upserts; `moved` are those whose last row is of another partition than before.

    `unknown` are rows of which it is not known, as an attempt that was killed may have merged them, too.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    moved: int = 0
    unknown: int = 0

    def __add__(self, other: "Changes") -> "Changes":
        return Changes(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def words(self) -> str:
        """To be added to a sentence; empty where nothing changed."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        said = [f"{count:,} {name}" for name, count in counts.items() if count and name not in {"moved", "unknown"}]
        if self.moved:
            said.append(f"{self.moved:,} moved to another partition")
        if self.unknown:
            said.append(f"{counted(self.unknown, 'row')} with unknown changes")
        return f" ({', '.join(said)})" if said else ""


@dataclass(frozen=True, slots=True)
class Range(Document):
    """The offsets that one run loads, with everything that shapes what comes out and in which order.

    Written down before the first read, never changed. Its `end` is a place: the floor there is the time of its cut.
    `topics` maps names to the broker's topic ids. `rows_left` is what the row limit leaves, `batch_offsets` the most
    that one batch may span; null leaves that to the application. `claim` is the key of the claim on an interval's or a
    replay's range, `job` the hash of the job that it is loaded with. Both are empty where a person loads it by hand.
    `upsert` is null where rows are added.
    """

    id: str
    load: str
    kind: Kind
    reason: str
    ledger_revision: int
    topics: Mapping[str, str]
    start: Place
    end: Place
    planned_at: Time
    future_tolerance: Duration
    on_data_loss: OnDataLoss
    include_headers: bool
    isolation: Isolation
    cluster_id: str
    batch_offsets: int | None
    rows_left: int | None
    claim: str = ""
    job: str = ""
    upsert: Upsert | None = None

    def __post_init__(self) -> None:
        if self.batch_offsets == 0:
            raise ValueError("'batch_offsets' must be at least 1, or null for the default")
        _ = self.span  # raises if the span is impossible

    @property
    def latest(self) -> int:
        return self.planned_at + self.future_tolerance

    @property
    def span(self) -> Span:
        return self.between(self.start, self.end)

    def between(self, start: Place, end: Place) -> Span:
        return Span(start.offsets, end.offsets, start.floor, self.latest)

    @property
    def offsets(self) -> int:
        return self.span.offsets

    @property
    def times(self) -> "Times | None":
        return Times(self.start.floor.time, self.end.floor.time) if self.kind == "interval" else None

    @property
    def fingerprint(self) -> str:
        """A hash that no other range has, without its job, which may change until a batch is begun."""
        facts = {name: value for name, value in encode(self).items() if name not in {"job", "upsert"}}
        return sha256(canonical(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Open:
    """An open range. `machine` is where its last attempt was counted, for people."""

    range_id: str
    owner: str
    attempt: int = 0
    checkpoint: str | None = None
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a range ended, or how a person moved the ledger: by whom, when and why, with the counts of the report."""

    kind: Literal["committed", "abandoned", "rewound", "restored"]
    range_id: str
    revision: int
    by: str
    at: Time
    reason: str
    rows: int = 0
    late: int = 0
    dead_letters: int = 0
    may_be_doubled: int = 0
    may_be_out_of_order: int = 0
    lost: int = 0
    changes: Changes = Changes()


@dataclass(frozen=True, slots=True)
class Ledger(Document):
    """How far a load has come. Only commit, rewind and restore move it; each makes a revision.

    `instance` tells this ledger from every other one of the same name: its mirror carries it. `chosen` is whether its
    partitions were chosen one by one, None if that is not known. `home_dag` is the DAG that moves it, `home_file` the
    file that defines it, as Airflow names it; empty where that is not known. `reached` is how far the load has come
    with a table of upserts, wherever it stands now, and `begun` where; null and empty for a load that adds rows.
    """

    load: str
    instance: str
    revision: int
    place: Place
    topics: Mapping[str, str]
    first_looked_at: Time
    last_run_at: Time | None
    rows_emitted: int
    open: Open | None
    outcomes: tuple[Outcome, ...]
    home_dag: str | None
    dead_letters: int = 0
    chosen: bool | None = None
    home_file: str = ""
    reached: Place | None = None
    begun: Offsets = Offsets()  # noqa: RUF009 - it never changes

    @property
    def rows(self) -> int:
        """The rows that count for the row limit: those in the output and those that became dead letters."""
        return self.rows_emitted + self.dead_letters


@dataclass(frozen=True, slots=True)
class Moved(Document):
    """In the place of a ledger that was moved to another store; null for a load in intervals alone, which has none."""

    moved_to: str
    ledger: Ledger | None


@dataclass(frozen=True, slots=True)
class Claim(Document):
    """The state of an interval's or a replay's range, which belongs to its run and does not move the ledger.

    `range_id` is stored here before the range itself.
    """

    open: Open | None
    outcomes: tuple[Outcome, ...]
    range_id: str


@dataclass(frozen=True, slots=True)
class Claims(Document):
    """The keys of claims, the last opened or ended last: a store cannot list its keys."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Times:
    """A stretch of time, `end` excluded."""

    begin: Time
    end: Time


@dataclass(frozen=True, slots=True)
class Intervals(Document):
    """The times of all intervals that a run has claimed, those of forgotten claims too; neighbours are merged.

    `last` are those that were claimed last, as they were claimed: whoever claims one of these again goes on with it.
    """

    spans: tuple[Times, ...] = ()
    last: tuple[Times, ...] = ()

    def joined(self, times: Times) -> "Intervals":
        touching = [span for span in self.spans if span.begin <= times.end and times.begin <= span.end]
        apart = [span for span in self.spans if span not in touching]
        begin = min(each.begin for each in (*touching, times))
        end = max(each.end for each in (*touching, times))
        spans = sorted((*apart, Times(begin, end)), key=lambda span: span.begin)
        return Intervals(tuple(spans), (*self.last, times)[-CLAIMS_KEPT:])

    def cover(self, times: Times) -> bool:
        """Whether all of these times belong to intervals."""
        return any(span.begin <= times.begin and times.end <= span.end for span in self.spans)

    def meet(self, times: Times) -> bool:
        """Whether some of these times belong to intervals."""
        return any(span.begin < times.end and times.begin < span.end for span in self.spans)

    def touch(self, time: int) -> bool:
        """Whether an interval begins or ends at this time, or lies around it."""
        return any(span.begin <= time <= span.end for span in self.spans)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the rows of a range go, and what whoever looks for them there has to know.

    `output` and `dead_letters` are `<format>:<name>`, such as `topic:orders-ordered`; several topics that rows may name
    are separated by commas. `copied`: the rows are the records as they are. `identity`: they say where they came from.
    `headers`: those of the records go with them. `placed_by` says what gave a row its partition of a topic. `called` is
    how the range is called there, if not by its id. A table that is named in a catalog lies at the `location`, that of
    dead letters at `dead_letters_location`, as Spark says. `upsert` are the columns of a key, of each of which the last
    row stays. `committed`: rows count once their transaction is committed.
    """

    output: str
    dead_letters: str = ""
    copied: bool = False
    identity: bool = True
    headers: bool = True
    keep_order: KeepOrder = "none"
    placed_by: PlacedBy = ""
    called: str = ""
    location: str = ""
    dead_letters_location: str = ""
    upsert: tuple[str, ...] = ()
    committed: bool = False


@dataclass(frozen=True, slots=True)
class Ends:
    """Where an output ends at a moment: its topics by partition, with their ids; a table by its id and version."""

    topics: Offsets = Offsets()  # noqa: RUF009 - it never changes
    ids: Mapping[str, str] = field(default_factory=dict)
    table: TableVersion | None = None


@dataclass(frozen=True, slots=True)
class Report(Document):
    """What the application did with a range; its copy beside the checkpoint is the proof of success.

    `unprotected` says why a replay could not have left out what was there already; `advice` says how to go on.
    `late_in` has the late records by partition. It has what an audit needs: the `range`, the hash of its `job`, its
    `destination`, where that ended `before` the first batch and `after` the last, and the records `read_in` each
    partition. `columns_added` are those that the range has added to its table, or widened there; what that lacks was
    `columns_left_out`. With a row limit, it says how many rows that has let through, dead letters among them, and how
    long this attempt counted for it. `core_ms` is the processor time of the load in milliseconds; what it cost is None
    where that is not known.
    """

    range_id: str
    attempt: int
    complete: bool
    limit_reached: bool
    stop: Place
    batches: int
    rows_read: int
    rows_emitted: int
    late: int
    replayed: int
    lost: int
    dead_letters: int
    may_be_doubled: int
    bytes_read: int
    started_at: Time
    ended_at: Time
    error: str | None
    range: Range
    unprotected: str | None = None
    advice: str = ""
    may_be_out_of_order: int = 0
    late_in: Offsets = Offsets()  # noqa: RUF009 - it never changes
    job: str = ""
    destination: Destination | None = None
    before: Ends | None = None
    after: Ends | None = None
    read_in: Offsets = Offsets()  # noqa: RUF009 - it never changes
    let_through: int | None = None
    counting_ms: int = 0
    changes: Changes = Changes()
    columns_added: tuple[str, ...] = ()
    columns_left_out: tuple[str, ...] = ()
    core_ms: int | None = None
    bytes_written: int | None = None
    files_written: int | None = None

    def is_of(self, loaded: Range) -> bool:
        """Whether it is about this range, and not another of the same name."""
        return self.range_id == loaded.id and self.range.fingerprint == loaded.fingerprint

    @property
    def sentence(self) -> str:
        return (
            f"range {self.range_id} is loaded: {counted(self.rows_read, 'row')} read, {self.rows_emitted:,} "
            f"written{self.changes.words} in {counted(self.batches, 'batch')}, {self.late:,} late, "
            f"{self.replayed:,} replayed{doubts(self)}{self.of_columns}"
        )

    @property
    def of_columns(self) -> str:
        """What became of columns that its table lacked, for people; empty if it lacked none."""
        said = ((name.replace("_", " "), getattr(self, name)) for name in COLUMNS)
        return "".join(f", {name}: {', '.join(map(repr, found))}" for name, found in said if found)


def costs(found: Report) -> str:
    """What a load cost, for people, as far as it is known."""
    core, size, files = (getattr(found, name) for name in COSTS)
    said = [None if core is None else counted(round(core / 1_000), "core second")]
    said += [None if size is None else f"{counted(size, 'byte')} written"]
    said += [counted(files, "file") if files else None]
    return "".join(f", {each}" for each in said if each)


def doubts(found: Report | Outcome) -> str:
    """The counts that people should know of, if they are not 0."""
    counts = ((name, getattr(found, name)) for name in DOUBTS)
    parts = (
        counted(n, "dead letter") if name == "dead_letters" else f"{n:,} {name.replace('_', ' ')}"
        for name, n in counts
        if n
    )
    return "".join(f", {each}" for each in parts)


@dataclass(frozen=True, slots=True)
class Jobs(Document):
    """The hashes of the jobs that are kept, the last used last: a store cannot list its keys."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary(Document):
    """The cut between two intervals, decided once and used by both neighbours."""

    time: Time
    place: Place
    topics: Mapping[str, str]
    decided_at: Time


@dataclass(frozen=True, slots=True)
class Uncertain(Document):
    """Where a boundary's place was a log's start above 0, with the log starts: what was deleted before is not known.

    Of `maybe` records from its time on may have been deleted, of `older`, by the topic's settings, none.
    """

    maybe: Offsets
    older: Offsets
    decided_at: Time

    @property
    def starts(self) -> Offsets:
        return self.maybe.updated(self.older)


@dataclass(frozen=True, slots=True)
class Boundaries(Document):
    """The times of all boundaries, the last decided last: a store cannot list its keys."""

    times: tuple[int, ...] = ()
