"""The next range of a load, or of one run alone, from its settings, its ledger and Kafka; and whether to run at all.

Kafka is surveyed once for each answer, so that everything in a range is from one moment. A range of one run alone, of
its data interval or of a replay, leaves the ledger alone. An interval has the same records whenever it is planned, in
any order or in parallel.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..core.documents import Kind, Ledger, Range
from ..core.next_range import (
    NO_BOUND,
    AtMost,
    Deleted,
    Firsts,
    NothingToLoad,
    Survey,
    check_ends,
    check_logs,
    deleted_at,
    least,
    limit_reached,
    new_range,
    next_place,
    place_at,
    rows_left,
)
from ..core.next_range import verdict as decided
from ..core.notation.spelling import counted, listed
from ..core.notation.starts import Moment, Start
from ..core.notation.subscriptions import Discovery, Named, Subscription, covers, reads, within
from ..core.order.cuts import NO_FLOOR, Floor, Place, Span
from ..core.order.positions import Offsets
from ..core.pacing import Since, Terms, Verdict, WayOut
from ..core.upserts import bounded, check_reached
from ..errors import DataLossError, SettingError, UnknownTopicError
from ..kafka.clients.answers import check_allowed
from ..kafka.lookup.survey import Kafka, ResolvedStart, compared, marked, resolve, survey
from .books import First
from .boundaries import Decider, Sight, interval
from .ledger import LedgerStore

_log = logging.getLogger(__name__)


def first_look(kafka: Kafka, terms: Terms, now: int, wanted: Subscription | None = None) -> First:
    """Resolve the start policy for what is wanted; by default for all topics of the load."""
    found = kafka.discover(wanted or terms.subscription)
    _check_readable(found)
    start = resolve(kafka, terms, within(terms.start, wanted) if wanted else terms.start, found, now)
    for remark in start.remarks:
        _log.warning("%s: %s", terms.load, remark)
    return First(marked(kafka, Place(start.offsets, Floor())), found.ids, start.remarks)


def look_at(kafka: Kafka, terms: Terms, ledger: Ledger, now: int, *, always: bool = False) -> Survey:
    """Survey Kafka from the ledger's place; raises if that place means something else now, or is gone."""
    seen = survey(kafka, terms, now, ledger.place, always=always)
    _check_readable(seen.found)
    check(kafka, terms, ledger, seen)
    return seen


def _check_readable(found: Discovery) -> None:
    """`AccessDeniedError` for a topic that may be described alone: neither load nor mirror could use it."""
    for topic in found.topics:
        check_allowed(
            topic.name, topic.operations, "READ", "to load it and to commit how far it is loaded", "doctor --topic"
        )


def check(kafka: Kafka, terms: Terms, ledger: Ledger, seen: Survey) -> None:
    """Raise if the ledger's place means something else now; topics that the load dropped do not count.

    So it does where retention took what comes next, unless that is to be counted.
    """
    topics = {topic: was for topic, was in ledger.topics.items() if reads(terms.subscription, topic)}
    seen.check(ledger.place, topics, terms.way_out)
    if terms.on_data_loss == "fail":
        seen.check_there(ledger.place, kafka.log_starts(seen.found.partitions), terms.way_out.who)
    if ledger.reached is not None and ledger.reached.offsets != ledger.place.offsets:
        check_reached(terms.load, ledger.reached, survey(kafka, terms, seen.now, ledger.reached, always=True))


def _glance(kafka: Kafka, terms: Terms, ledger: Ledger, now: int) -> Survey:
    known = tuple(partition for partition in ledger.place.offsets if covers(terms.subscription, partition))
    return survey(kafka, terms, now, replace(ledger.place, marks={}), Discovery("", (), known))


def verdict(
    kafka: Kafka, terms: Terms, ledger: Ledger, now: int, *, known: bool = False, firsts: Firsts | None = None
) -> Verdict:
    """Whether to run now.

    With `known` only partitions in the ledger are surveyed, with a third of the requests.
    """
    seen = _glance(kafka, terms, ledger, now) if known else look_at(kafka, terms, ledger, now)
    return verdict_on(kafka, terms, ledger, seen, firsts)


def verdict_on(kafka: Kafka, terms: Terms, ledger: Ledger, seen: Survey, firsts: Firsts | None = None) -> Verdict:
    since = Since(ledger.first_looked_at, ledger.last_run_at)
    return decided(kafka.log(terms.isolation), ledger.place, seen, terms, since, firsts=firsts)


def plan(
    kafka: Kafka, terms: Terms, ledger: Ledger, *, now: int, name: str = "", most: AtMost = NO_BOUND
) -> Range | NothingToLoad:
    """The next incremental range. `name` is the prefix of its id, by default the load's name.

    `most` is what this run was asked for; the smaller one of that and of what the load allows counts.
    """
    if reached := limit_reached(ledger, terms.row_limit):
        return NothingToLoad(reached)
    return plan_of(kafka, terms, ledger, look_at(kafka, terms, ledger, now, always=True), name=name, most=most)


def plan_of(
    kafka: Kafka, terms: Terms, ledger: Ledger, seen: Survey, *, name: str = "", most: AtMost = NO_BOUND
) -> Range | NothingToLoad:
    terms = replace(terms, max_offsets=least(terms.max_offsets, most.offsets))
    place, seen = bounded(ledger, seen)
    end = next_place(kafka.log(terms.isolation), place, seen, terms)
    if isinstance(end, NothingToLoad):
        return end
    span, rows = seen.span(place), least(rows_left(terms.row_limit, ledger.rows), most.rows)
    return new_range(
        new_id(terms, "incremental", name),
        terms,
        "incremental",
        seen.found,
        (place.with_offsets(span.start), marked(kafka, end)),
        now=seen.now,
        reason=_reason(terms, span, end.offsets, rows, most) + _joining(ledger, span.start) + _unsure(seen),
        revision=ledger.revision,
        rows_left=rows,
    )


def _joining(ledger: Ledger, start: Offsets) -> str:
    """Which topics the ledger does not know yet: those that a pattern has come to match."""
    new = [topic for topic in start.topics if topic not in ledger.topics]
    begun = [p.at(offset) for p, offset in start.items() if p.topic in new and offset > 0]
    gone = f", of which {listed(begun)} is the earliest that there is" if begun else ""
    return f"; new since the last run: {listed(list(map(repr, new)))}{gone}" if new else ""


def _unsure(seen: Survey) -> str:
    return f"; {seen.logs.remark}" if seen.logs.remark else ""


def new_id(terms: Terms, kind: Kind, name: str = "") -> str:
    """A globally unique id: rows carry it wherever they are written."""
    return f"{name or f'{terms.load}-{kind}'}-{secrets.token_hex(6)}"


def _reason(terms: Terms, span: Span, end: Offsets, rows: int | None, most: AtMost) -> str:
    offsets, rest = end.since(span.start), span.end.since(end)
    why = ""
    if most.offsets is not None and offsets >= most.offsets:
        why = ", the most that this run was asked for"
    elif terms.max_offsets is not None and offsets >= terms.max_offsets:
        why = f", the most that max_offsets={terms.max_offsets:,} allows"
    wait = f"; {rest:,} wait for the next run" if rest else ""
    allows = "what this run was asked for" if rows is not None and rows == most.rows else "the row limit"
    limit = "" if rows is None else f"; {allows} lets {counted(rows, 'more row')} pass"
    return f"{counted(offsets, 'offset')} in {counted(len(end), 'partition')}{why}{wait}{limit}"


BOUNDARY: Final = WayOut(
    "a boundary of this interval", "", "", "load that, too, under another name, or from a later interval on"
)


def plan_interval(
    kafka: Kafka, terms: Terms, store: LedgerStore, times: tuple[int, int], *, now: Callable[[], int]
) -> Range | NothingToLoad:
    found = kafka.discover(terms.subscription)
    _check_still_there(store, terms, found, times)
    terms = replace(terms, subscription=Named(tuple(found.ids)))  # a pattern matches other topics later
    decider = Decider(store, terms, now, lambda floor: sight(kafka, terms, now(), floor))
    begin, end = (decider.boundary(time) for time in times)
    span = start, stop = interval(begin, end, found.ids)
    unknown = [remark for place in span for remark in _compared(kafka, place)]
    offsets = stop.offsets.since(start.offsets)
    between = f"between {Moment(times[0])} and {Moment(times[1])}"
    unsure = store.uncertain(times[0])
    maybe, older = (Offsets({p: each[p] for p in each if p in stop.offsets}) for each in (unsure.maybe, unsure.older))
    deleted = Deleted(times[0], maybe, older)
    if terms.on_data_loss == "fail":
        _check_all_there(deleted, between)
    remarks = [*deleted.remarks, *dict.fromkeys(unknown)]
    if not offsets:
        return NothingToLoad("; ".join([f"nothing to load {between}", *remarks]))
    reason = "; ".join([f"{counted(offsets, 'offset')} {between}", *remarks])
    range_id = new_id(terms, "interval")
    return new_range(range_id, terms, "interval", found, span, now=now(), reason=reason)


def _compared(kafka: Kafka, place: Place) -> Iterator[str]:
    """What is to be said of a boundary's logs; `DataLossError` if one of them is another one."""
    logs = compared(kafka, place, place.offsets, always=True)
    check_logs(place, logs, BOUNDARY)
    if logs.remark:
        yield logs.remark


def _check_still_there(store: LedgerStore, terms: Terms, found: Discovery, times: tuple[int, int]) -> None:
    """Raise `UnknownTopicError` if a topic that a pattern matches was there for these times, or an interval before."""
    known = store.boundaries()
    before = [time for time in known if time <= times[1]][-1:]
    for time in {*times, *before}:
        boundary = store.boundary(time)
        for topic in () if boundary is None else boundary.topics:
            if topic not in found.ids and reads(terms.subscription, topic):
                raise UnknownTopicError(
                    f"topic {topic!r} is not read any more, but the boundary at {Moment(time)} of load {store.load!r} "
                    f"has it: {terms.way_out.left_out.format(topic=topic)}",
                    topic=topic,
                )


def sight(kafka: Kafka, terms: Terms, now: int, floor: Floor = NO_FLOOR) -> Sight:
    """A survey of the whole log. Records below the floor are late for the boundary, so nothing waits for them."""
    seen = survey(kafka, terms, now, Place(Offsets(), floor))
    log = kafka.log(terms.isolation)
    return Sight(
        seen,
        lambda time: marked(kafka, place_at(log, seen, time)),
        lambda time: deleted_at(log, seen.starts, seen.found.topics, time, now),
    )


def _check_all_there(deleted: Deleted, between: str) -> None:
    for partition, start in deleted.maybe.items():
        raise DataLossError(
            f"the interval {between} may lack records: {deleted.remarks[0]}. Load the rest with on_data_loss='count'; "
            "or begin with a later interval, of which the topic still has all records",
            **partition._asdict(),
            offset=start,
        )


def plan_replay(
    kafka: Kafka, terms: Terms, asked: tuple[Start, Start], *, now: int, rows: int | None = None
) -> Range | NothingToLoad:
    """Everything between two starts, or its first `rows` rows.

    With `on_data_loss="fail"` it raises DataLossError if some records are gone, or may be: where a log starts above 0
    and holds nothing older than the start, what was there is unknown.
    """
    terms, between = replace(terms, end=asked[1]), f"from {asked[0]} to {asked[1]}"
    found = kafka.discover(terms.subscription)
    start = resolve(kafka, terms, asked[0], found, now)
    _check_there(terms, between, start)
    begin = marked(kafka, Place(start.offsets, _floor(asked[0])))
    seen = survey(kafka, terms, now, begin, found)
    check_ends(begin.offsets, seen.ends.offsets, f"the replay goes {between}; swap them, or ask for a later end")
    span, remarks = seen.span(begin), [*start.remarks, *seen.ends.remarks, *_ahead(asked[1], now)]
    _check_size(terms, between, span.offsets)
    if not span.offsets:
        return NothingToLoad("; ".join([f"nothing to load {between}", *remarks]))
    limit = [] if rows is None else [f"the row limit lets {counted(rows, 'row')} pass"]
    return new_range(
        new_id(terms, "replay"),
        terms,
        "replay",
        found,
        (begin, marked(kafka, Place(span.end, _floor(asked[1])))),
        now=now,
        reason="; ".join([f"{counted(span.offsets, 'offset')} {between}", *remarks, *limit]),
        rows_left=rows,
    )


def _check_there(terms: Terms, between: str, start: ResolvedStart) -> None:
    deleted = next((each for each in start.deleted if each.maybe), None)
    if terms.on_data_loss == "count" or deleted is None:
        return
    partition, offset = next(iter(deleted.maybe.items()))
    raise DataLossError(
        f"the replay {between} may lack records: {deleted.remarks[0]}; ask for a later start, for offsets, or for "
        "'earliest', all that is there; or count them as lost with on_data_loss='count'",
        **partition._asdict(),
        offset=offset,
    )


def _check_size(terms: Terms, between: str, offsets: int) -> None:
    if terms.max_offsets is not None and offsets > terms.max_offsets:
        raise SettingError(
            f"the replay {between} spans {counted(offsets, 'offset')}, more than max_offsets={terms.max_offsets:,}: "
            "ask for less, or raise max_offsets"
        )


def _ahead(end: Start, now: int) -> list[str]:
    if not isinstance(end, Moment) or end.time <= now:
        return []
    return [f"the end is in the future: records written after {Moment(now)} are not loaded, whatever their timestamps"]


def _floor(asked: Start) -> Floor:
    return Floor(asked.time) if isinstance(asked, Moment) else Floor()
