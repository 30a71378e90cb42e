"""Divide a span in time order, with look-ups in a log.

`Planner.slices` cuts a span into slices of about equally many offsets, by the index alone. `Planner.end` finds where
a range or a batch ends, `Planner.ends` where several batches do: literal offsets, never more than asked for, and the
floor of what follows. `split` cuts a slice again, for a reader that finds it too large.

Where the index is blind, because the record it points at hides many older ones, the planner reads that partition's
share of the span once and uses an index of its own. Without it slices would be correct, only uneven.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise

from .cuts import Bound, Close, Cut, Floor, OnDataLoss, Place, Slice, Span, slices
from .positions import Offsets, TopicPartition
from .timeline import PATIENCE, Log, OwnIndex, Places, Row, Search, Sighting, TimeIndex

LARGE_TIE = 2
"""A tie is cut inside when it holds more than this many slices."""

LOOKS = 8
"""How many suspicious answers of one partition are checked before its index is trusted."""

SAMPLED = 2
"""How many partitions of a topic are checked without a suspicion; the others, too, where one of these is blind."""

IN_VAIN = 0.05
"""The share of what is fetched that tasks may fetch in vain, as long as they do not have to read more than `MUCH`."""

AHEAD = 2**15
"""As many bytes of a partition are requested at once, at least, and come in vain behind the end of a task."""

MUCH = 64 * 2**20
"""As many bytes keep a core busy, however thin the partitions are."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Between which cuts the slices of a span lie, and which literal offsets none of them passes.

    `close` tells of the last cut where something follows that is known, `end` of the end of the batch.
    """

    first: Cut
    last: Cut
    limits: Offsets
    close: Close | None = None
    end: Close | None = None


class Planner:
    """Cuts one span. `own` caches indexes built by reading, for later spans; `end` tells what follows, where known."""

    def __init__(
        self,
        log: Log,
        span: Span,
        own: dict[TopicPartition, OwnIndex] | None = None,
        *,
        edges: Edges | None = None,
        end: Close | None = None,
    ) -> None:
        self.span = span
        self._partitions = span.partitions
        self._edges = edges or Edges(span.first(), span.last(), span.end, end=end)
        self.index = TimeIndex(log, span, {} if own is None else own)
        self._places = Places(log, self.index)
        self._literal = [False] * len(self._partitions)

    def end(self, most: int | None = None, time: int | None = None) -> Place:
        """The literal end of what is older than `time` and spans at most `most` offsets, exactly if there are more.

        Without a time it is the span's end, and the floor there is the last place in the order that the span reaches.
        """
        _check_most(most)
        if time is None or time > self.span.latest:
            return self._whole(most, time)
        last = self._places.at(time)
        if most is not None and last.total > most:
            return self._end_at(most, Search(self.index, last))
        return self._place(last, self.span.floor.raised(time))

    def _whole(self, most: int | None, time: int | None) -> Place:
        if most is not None and self.span.offsets > most:
            return self._end_at(most, Search(self.index, self.index.last()))
        if time is None:
            return Place(self.span.end, self._reached())
        return self._place(self.index.beyond(time), self.span.floor.raised(time))

    def _reached(self) -> Floor:
        """The floor behind the span: its highest order time, and the last partition that has it."""
        floors = {p: self.span.floor.of(p) for p in self._with_records()}
        if not floors:
            return self.span.floor
        low, high, step = max(floors.values()), self.index.last().time, 1
        lowest = low
        while high > low + 1:
            time = max(high - step, low + 1) if low == lowest else (low + high) // 2
            times = [seen.timestamp for seen in self._begun(floors, time).values()]
            low, high, step = (max(times), high, step) if times else (low, time, step * 2)
        last = {p: max(floor, low) if p in self._begun(floors, low) else floor for p, floor in floors.items()}
        time, split = max((time, partition) for partition, time in last.items())
        return self.span.floor.raised(time, split)

    def _with_records(self) -> Sequence[TopicPartition]:
        """The partitions that reach what holds them; where others begin anew, markers of transactions alone do not."""
        spanned = [p for p, start in self.span.start.items() if start < self.span.end[p]]
        if not self.span.floor.anew:
            return spanned
        seen = self._places.look({p: Bound(self.span.start[p]) for p in spanned})
        return [p for p, sighting in seen.items() if sighting.offset is not None]

    def _begun(self, floors: Mapping[TopicPartition, int], time: int) -> dict[TopicPartition, Sighting]:
        """What stands where partitions reach a time above their floor; those that do not are left out."""
        seen = self._places.sightings(time)
        return {p: seen[p] for p, floor in floors.items() if time > floor and seen[p].offset is not None}

    def ends(self, most: int, count: int) -> list[Place]:
        """The literal ends of the next `count` batches of `most` offsets each, the last one at the span's end.

        They are found in one search. If the log changes meanwhile, those behind the change are left out.
        """
        _check_most(most)
        last = self.index.last()
        targets = [most * number for number in range(1, count + 1) if most * number < last.total]
        search = Search(self.index, last)
        search.find(targets, 0)
        found = [self._end_at(target, search) for target in targets]
        if len(targets) < count:
            found.append(self._place(last, self.span.floor))
        return list(_following(found))

    def _place(self, row: Row, floor: Floor) -> Place:
        return Place(Offsets(zip(self._partitions, row.offsets, strict=True)), floor)

    def _end_at(self, most: int, search: Search) -> Place:
        """The last cut with at most this many offsets, filled up from the tie after it."""
        low, beyond, guess = self.index.start(), search.last.time, None
        while low.total < most and beyond > low.until + 1:
            target = most if guess is None else max(most - guess, 0)
            search.find([target], 0)
            beyond = min(beyond, search.bracket(most)[1].time)
            time = search.bracket(target)[0].time
            if not low.until < time < beyond:
                time = (low.until + beyond) // 2 if guess is not None else low.until + 1
            row = self._places.at(min(time, beyond - 1))
            guess = row.total - self.index.at([row.time])[0].total
            if row.total <= most:
                low = row
            else:
                beyond = row.time
        return self._fill(most, low)

    def _fill(self, most: int, low: Row) -> Place:
        """Take what is left from the tie at the end of `low`, partition by partition."""
        left = most - low.total
        if left == 0:
            return self._place(low, self.span.floor.raised(low.time))
        after, offsets, split = self._places.at(low.until + 1), [], None
        for partition, begin, end in zip(self._partitions, low.offsets, after.offsets, strict=True):
            taken = min(left, max(end - begin, 0))
            left -= taken
            offsets.append(begin + taken)
            if split is None and taken < end - begin:
                split = partition
        floor = self.span.floor.raised(low.until + (split is None), split)
        return Place(Offsets(zip(self._partitions, offsets, strict=True)), floor)

    def slices(self, each: int, on_data_loss: OnDataLoss, literal: Iterable[str] = ()) -> list[Slice]:
        """Slices of about `each` offsets, in order; they cover the span exactly once.

        Partitions of the topics in `literal` are cut at offsets alone, found by looking; all are where losses are
        counted: records that go away while slices are read would move a bound by time, for one of its neighbours only.
        """
        if each < 1:
            raise ValueError(f"a slice spans at least 1 offset, found {each!r}")
        if not self.span.offsets:
            return []
        return self.slices_before(self.index.last(), each, on_data_loss, literal)

    def slices_before(self, last: Row, each: int, on_data_loss: OnDataLoss, literal: Iterable[str] = ()) -> list[Slice]:
        """The same, where it is known which time everything in the span comes before."""
        literal = frozenset(literal)
        self._literal = [on_data_loss == "count" or partition.topic in literal for partition in self._partitions]
        inner = self._cuts(each, last) if last.time > self.span.floor.lowest else []
        edges, first = self._edges, self._edges.first
        # A cut where nothing is before or behind it divides nothing: what is too large would be cut so for ever.
        cuts = [cut for cut, after in pairwise([*inner, edges.last]) if cut.bounds not in (first.bounds, after.bounds)]
        return slices(edges.limits, [first, *cuts, edges.last], self.span.latest, edges.close, edges.end)

    def _cuts(self, each: int, last: Row) -> list[Cut]:
        """Inner cuts about `each` offsets apart, before the time of the last row."""
        if last.total <= each:
            return []
        rows, jumps = self._rows(each, last)
        if blind := self._blind(rows, jumps):
            for partition in blind:
                self.index.read_own(partition)
            rows, _ = self._rows(each, last)
        found: list[Cut] = []
        for low, high in pairwise(rows):
            if high.total - low.total > LARGE_TIE * each and high.time <= low.until + 1:
                found.extend(self._inside_tie(low, high, each))
            if high is not last:
                found.append(Cut(self.span.floor.raised(high.time), tuple(self._bounds(high, high.time))))
        return list(_rising(found))

    def _rows(self, each: int, last: Row) -> tuple[list[Row], list[tuple[Row, Row]]]:
        """The first row and the last, the rows nearest to each `each` offsets, and those where a millisecond jumps."""
        count = -(-last.total // each)
        targets = [last.total * number // count for number in range(1, count)]
        search = Search(self.index, last)
        search.find(targets, each // 4)
        found: dict[int, Row] = {}
        jumps: list[tuple[Row, Row]] = []
        for target in targets:
            low, high = search.bracket(target)
            if high.time <= low.until + 1:
                jumps.append((low, high))
            near = low if target - low.total <= high.total - target else high
            if 0 < near.total < last.total:
                found[near.total] = near
        return [search.bracket(0)[0], *(found[total] for total in sorted(found)), last], jumps

    def _bounds(self, row: Row, time: int) -> list[Bound]:
        """A row's bounds at a time it holds for: literal ones where those by time may move."""
        literal = self._places.at(time).offsets if any(self._literal) else row.offsets
        return [
            Bound(literal[place]) if self._literal[place] else self._bound(place, offset, time)
            for place, offset in enumerate(row.offsets)
        ]

    def _bound(self, place: int, offset: int, time: int) -> Bound:
        partition = self._partitions[place]
        if time <= self.span.floor.of(partition):
            return self._edges.first.bounds[place]
        return Bound(offset) if offset >= self._edges.limits[partition] else Bound(offset, time)

    def _inside_tie(self, low: Row, high: Row, each: int) -> Iterator[Cut]:
        """Cuts at literal offsets inside the tie at the end of `low`, about `each` offsets apart."""
        tie, passed = low.until, 0
        begun, left = self._bounds(low, tie), self._bounds(high, tie + 1)
        for place, (begin, end) in enumerate(zip(low.offsets, high.offsets, strict=True)):
            first = self._start_of_tie(place, begin, tie) if passed + end - begin >= each else None
            offset = begin + each - passed
            while first is not None and offset < end:
                if offset > first:
                    bounds = (*left[:place], Bound(offset), *begun[place + 1 :])
                    yield Cut(self.span.floor.raised(tie, self._partitions[place]), bounds)
                    passed = begin - offset
                offset += each
            passed += end - begin

    def _start_of_tie(self, place: int, begin: int, tie: int) -> int | None:
        """Where the partition's tie begins, if it truly has one: its first visible record is of that time."""
        partition = self._partitions[place]
        inherited = tie <= self.span.floor.of(partition)
        bound = self._edges.first.bounds[place] if inherited else Bound(begin, tie)
        if bound.time is None:
            return bound.offset
        sighting = self._places.look({partition: bound})[partition]
        return sighting.offset if not sighting.gave_up and (inherited or sighting.timestamp == tie) else None

    def _blind(self, rows: Sequence[Row], jumps: Sequence[tuple[Row, Row]]) -> set[TopicPartition]:
        """The partitions where an answer of the index hides many visible records that are older.

        A look has the broker send a batch, so few partitions are checked that nothing speaks against.
        """
        places = {p: place for place, p in enumerate(self._partitions) if p not in self.index.own}
        some = _largest(self.span, places)
        suspects = {p: [*self._middle(place, rows)] if p in some else [] for p, place in places.items()}
        blind = self._found_blind({p: [*suspects[p], *self._suspects(at, rows, jumps)] for p, at in places.items()})
        if blind:
            blind |= self._found_blind({p: [*self._middle(places[p], rows)] for p in places.keys() - some - blind})
        return blind

    def _found_blind(self, suspects: Mapping[TopicPartition, list[tuple[int, Bound]]]) -> set[TopicPartition]:
        """Those of the partitions where a look at one of these bounds, the most suspicious first, gave up."""
        blind: set[TopicPartition] = set()
        worst = {p: sorted(dict.fromkeys(found), key=lambda hides: -hides[0])[:LOOKS] for p, found in suspects.items()}
        for number in range(LOOKS):
            bounds = {p: hides[number][1] for p, hides in worst.items() if number < len(hides) and p not in blind}
            blind |= {partition for partition, sighting in self._places.look(bounds).items() if sighting.gave_up}
        return blind

    def _middle(self, place: int, rows: Sequence[Row]) -> Iterator[tuple[int, Bound]]:
        end, middle = self.span.end[self._partitions[place]], rows[len(rows) // 2]
        if end - middle.offsets[place] > PATIENCE and middle is not rows[0]:
            yield end, self._bound(place, middle.offsets[place], middle.time)

    def _suspects(
        self, place: int, rows: Sequence[Row], jumps: Sequence[tuple[Row, Row]]
    ) -> Iterator[tuple[int, Bound]]:
        """The bounds to check, with how much each may hide: answers that hold for long, and jumps.

        If the record that the index points at is visible, a look finds it at once; if it is a marker, or in the future,
        the look passes the records that it hides.
        """
        for row, following in pairwise(rows):
            hidden = following.offsets[place] - row.offsets[place]
            answer = self.index.answer(row.time, place)
            if hidden <= PATIENCE or answer is None:
                continue
            begun = self._begun_at(row)
            if (answer.timestamp - begun) * 8 >= following.time - begun:
                yield hidden, Bound(row.offsets[place], min(answer.timestamp, self.span.latest))
        for low, high in jumps:
            if (hidden := high.offsets[place] - low.offsets[place]) > PATIENCE:
                yield hidden, self._bound(place, low.offsets[place], low.until)

    def _begun_at(self, row: Row) -> int:
        """The row's time, or the first record's of any other partition, where nothing comes before that."""
        if row.total or len(self._partitions) == 1:
            return row.time
        answers = (self.index.answer(row.time, place) for place in range(len(self._partitions)))
        return max(row.time, min((answer.timestamp for answer in answers if answer), default=row.time))


def _largest(span: Span, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Some of the partitions of each topic, those that span the most."""
    ordered = sorted(partitions, key=lambda p: (p.topic, span.start[p] - span.end[p]))
    return {p for _, those in groupby(ordered, key=lambda p: p.topic) for p in islice(those, SAMPLED)}


def worthwhile(log: Log, span: Span, each: int) -> int:
    """At least how many offsets the slices of a span are to have that are read by tasks of their own, `each` or more.

    Where a task ends, a batch of each partition is sent to two tasks, and what was requested behind it in vain. So
    where that is much of a partition, tasks are few and long.
    """
    spans = {p: span.end[p] - start for p, start in span.start.items()}
    if span.offsets <= each or len(spans) == 1:
        return each
    longest = max(spans, key=lambda p: spans[p])
    found = log.batch_at(longest, span.start[longest] + spans[longest] // 2, span.end[longest])
    if found is None:
        return each
    lost = found.records * (found.bytes + AHEAD) // found.bytes
    shared = sum(min(lost, offsets) for offsets in spans.values())
    return max(each, min(round(shared / IN_VAIN), MUCH * found.records // found.bytes))


def _check_most(most: int | None) -> None:
    if most is not None and most < 1:
        raise ValueError(f"a maximum of offsets is at least 1, found {most!r}")


def _following(places: Iterable[Place]) -> Iterator[Place]:
    """The places up to the first one where a partition falls back."""
    before: Place | None = None
    for place in places:
        if before is not None and any(offset < before.offsets[p] for p, offset in place.offsets.items()):
            return
        yield place
        before = place


def _rising(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """The same cuts, with bounds that never fall back, as they may if the log changes between answers."""
    before: tuple[Bound, ...] | None = None
    for cut in cuts:
        if before is not None:
            bounds = (
                bound if bound.offset >= earlier.offset else Bound(earlier.offset, bound.time)
                for earlier, bound in zip(before, cut.bounds, strict=True)
            )
            cut = Cut(cut.floor, tuple(bounds))  # noqa: PLW2901 - the rest of the loop goes on with it
        before = cut.bounds
        yield cut


def split(slice_: Slice, log: Log, each: int, on_data_loss: OnDataLoss) -> list[Slice]:
    """Cut a slice again into slices of about `each` offsets, in order; the same slice alone if it cannot be cut."""
    stretches = slice_.stretches
    limits = Offsets((s.partition, s.limit if s.end.time is not None else s.end.offset) for s in stretches)
    start = Offsets((stretch.partition, stretch.start.offset) for stretch in stretches)
    end = Offsets((s.partition, min(max(s.end.offset, s.start.offset), s.limit)) for s in stretches)
    first = Cut(slice_.floor, tuple(stretch.start for stretch in stretches))
    last = Cut(slice_.floor, tuple(stretch.end for stretch in stretches))
    edges = Edges(first, last, limits, slice_.close, slice_.end)
    planner = Planner(log, Span(start, end, slice_.floor, slice_.latest), edges=edges)
    # Where the slice ends inside a tie, some of its records are of that time: everything comes before the next one.
    times = [stretch.end.time for stretch in stretches if stretch.end.time is not None]
    beyond = min([slice_.latest, *times]) + 1
    return planner.slices_before(planner.index.beyond(beyond), each, on_data_loss)
