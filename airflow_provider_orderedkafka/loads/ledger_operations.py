"""Operations on a ledger: show, abandon, rewind, restore, move to another store.

Each change is recorded among the outcomes, with a person and a reason, and is refused while the run that owns the open
range is active. A move is previewed first. The command line and the operations DAG both use this module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..core import lifecycle
from ..core.documents import Isolation, Ledger, Open, Outcome, Range, doubts
from ..core.lifecycle import status_of
from ..core.notation.spelling import counted
from ..core.notation.starts import Moment
from ..core.order.cuts import FUTURE_TOLERANCE, NO_FLOOR, Floor, Place
from ..core.order.positions import Offsets, TopicPartition
from ..core.upserts import ANEW, check_rewind
from ..errors import LifecycleError, SettingError
from .books import SHOWN, First, Mirror, in_words, show
from .ledger import LEDGER, LedgerStore
from .mirror import Mirrored, group_of

NO_TOPICS: Mapping[str, str] = MappingProxyType({})
CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Person:
    """Who changes a ledger, why and when, and a function that tells whether a run is active."""

    name: str
    reason: str
    now: int
    is_active: Callable[[str], bool]

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise SettingError("a reason is missing: say why in a few words, which are kept with the ledger")


def ledger_of(store: LedgerStore) -> Ledger:
    """The ledger; `LifecycleError` if there is none."""
    ledger = store.ledger()
    if ledger is None:
        raise LifecycleError(
            f"load {store.load!r} has no ledger yet: its first run writes it; if the ledger was lost, restore it with "
            f"`orderedkafka ledger restore {store.load} --reason ...`"
        )
    return ledger


def opened_range(store: LedgerStore, ledger: Ledger) -> Range | None:
    return None if ledger.open is None else store.range(ledger.open.range_id)


def shown(ledger: Ledger, opened: Range | None = None) -> str:
    file = f" of {ledger.home_file}" if ledger.home_file else ""
    lines = [
        f"load          {ledger.load} (instance {ledger.instance}, home DAG {ledger.home_dag or 'none'}{file})",
        f"revision      {ledger.revision}",
        f"last run      {'none yet' if ledger.last_run_at is None else Moment(ledger.last_run_at)}",
        f"first look    {Moment(ledger.first_looked_at)}",
        f"rows written  {ledger.rows_emitted:,}, dead letters {ledger.dead_letters:,}",
        f"floor         {_floor(ledger.place.floor)}",
        f"open          {_opened(ledger)}",
        *([] if opened is None else [f"  {line}" for line in in_words(opened).splitlines()]),
        "stands at",
        *_positions(ledger.place),
        *(["outcomes, the latest first"] if ledger.outcomes else []),
        *(f"  {_outcome(outcome)}" for outcome in reversed(ledger.outcomes)),
    ]
    return "\n".join(lines)


def history(outcomes: Iterable[Outcome]) -> str:
    return (
        "\n".join(map(_outcome, outcomes))
        or "nothing yet: no range of this load has ended, and nobody moved its ledger"
    )


def preview_of_abandon(ledger: Ledger) -> str:
    if ledger.open is None:
        return f"load {ledger.load} has no open range"
    return (
        f"load {ledger.load} abandons its open range: {_opened(ledger)}\nThe ledger stays at revision "
        f"{ledger.revision}, and the next run loads these offsets again, with the settings that it has. Rows that were "
        "written stay."
    )


def objection(ledger: Ledger, action: str, is_active: Callable[[str], bool]) -> str | None:
    """Why an "abandon" or a "rewind" would be refused now; None if it would not."""
    if ledger.open is None:
        nothing = f"load {ledger.load!r} has no open range: there is nothing to abandon"
        return nothing if action == "abandon" else None
    if is_active(ledger.open.owner):
        return _owned(ledger.load, ledger.open)
    return None if action == "abandon" else lifecycle.still_open(ledger.load, ledger.open, "rewound")


def abandon(store: LedgerStore, person: Person, ledger: Ledger) -> Ledger:
    """Give up the open range of this ledger. What it wrote stays, and the next run loads its offsets again.

    `LedgerChangedError` where another step has changed the ledger since it was read.
    """
    if found := objection(ledger, "abandon", person.is_active):
        raise LifecycleError(found)
    after = lifecycle.abandoned(ledger, person.name, person.reason, person.now)
    store.save(after, ledger)
    store.check_stands(after)
    return after


def named(ledger: Ledger, topics: Iterable[str]) -> tuple[str, ...]:
    """The topics to move: those that were named, or else all in the ledger."""
    found = tuple(topics) or tuple(ledger.topics)
    for topic in found:
        if topic not in ledger.topics:
            known = ", ".join(map(repr, ledger.topics))
            raise SettingError(f"the ledger of load {ledger.load!r} knows no topic {topic!r}; it knows {known}")
    return found


def preview(ledger: Ledger, place: Place, topics: Mapping[str, str] = NO_TOPICS) -> str:
    stands = _still(ledger, topics)
    return "\n".join(
        [f"load {ledger.load} moves from revision {ledger.revision} to {ledger.revision + 1}:"]
        + [_move(partition, stands.get(partition), offset) for partition, offset in place.offsets.items()]
        + _starts_over(ledger.place.floor, place)
        + ["Rows that are loaded again are written again; rows that are left out are never written."]
    )


def rewind(
    store: LedgerStore,
    mirror: Mirror,
    person: Person,
    ledger: Ledger,
    place: Place,
    *,
    topics: Mapping[str, str] = NO_TOPICS,
) -> Ledger:
    """Move the ledger in `topics`, given with their present ids. Other topics stay where they are.

    `LedgerChangedError` where another step has changed the ledger since it was read: the place came of it.
    """
    if found := objection(ledger, "rewind", person.is_active):
        raise LifecycleError(found)
    whole = ledger.place.with_offsets(Offsets(_still(ledger, topics))).updated(place)
    check_rewind(ledger, whole, topics)
    after = lifecycle.rewound(ledger, whole, person.name, person.reason, person.now, topics=topics)
    store.save(after, ledger)
    show(store, mirror, after)
    return after


def place_to_go(
    store: LedgerStore,
    ledger: Ledger,
    to: str,
    topics: Sequence[str],
    resolve: Callable[[str, Sequence[str], Isolation, int], First],
) -> First:
    """Where a rewind leads, in all topics or in some; "current" stays, so that another DAG may take the load over."""
    if not to.strip():
        raise SettingError(
            "a rewind needs a place to go to: 'earliest', 'latest', a moment, a time ago, offsets, or 'current' to "
            "stay and let another DAG go on from there"
        )
    if to.strip().lower() == CURRENT:
        return First(ledger.place, NO_TOPICS)
    found = resolve(to, named(ledger, topics), *_read_last(store, ledger))
    place = rewound_place(ledger, found.place.offsets, found.topics)
    return replace(found, place=replace(place, marks=found.place.marks))


def _read_last(store: LedgerStore, ledger: Ledger) -> tuple[Isolation, int]:
    """How the load has read last, and how far ahead it took timestamps: what lies behind a moment depends on both."""
    ranges = (store.range(outcome.range_id) for outcome in reversed(ledger.outcomes) if outcome.range_id)
    last = next((loaded for loaded in ranges if loaded is not None), None)
    return ("read_committed", FUTURE_TOLERANCE) if last is None else (last.isolation, last.future_tolerance)


def rewound_place(ledger: Ledger, offsets: Offsets, topics: Mapping[str, str] = NO_TOPICS) -> Place:
    """The place of a rewind to these offsets. What is loaded again, or for the first time, loses its floor.

    Rows that come again would have no order of their own above it. Other partitions keep theirs, if there are others.
    """
    stands = _still(ledger, topics)
    again = [p for p, offset in offsets.items() if offset < stands.get(p, offset + 1)]
    goes_on = not again or any(p not in again for p in stands)
    return Place(offsets, ledger.place.floor.without(again) if goes_on else NO_FLOOR)


def restore(
    store: LedgerStore, mirror: Mirror, person: Person, mirrored: Mirrored | None, topics: Mapping[str, str]
) -> Ledger:
    """Restore the ledger from its mirror; `LifecycleError` if it is ahead of that. A newer open range is given up."""
    if mirrored is None:
        raise LifecycleError(f"load {store.load!r} has no mirror: there is nothing to restore its ledger from")
    if not mirrored.whole:
        raise LifecycleError(
            f"the mirror of load {store.load!r} was written only in part: set the ledger by hand with "
            f"`orderedkafka ledger rewind {store.load} --to ... --reason ...`; if there is none, delete consumer "
            f"group {group_of(store.load)}, and begin with start= as the offsets from which the load has to go on"
        )
    store.drop_damaged()
    before = store.ledger()
    if before is not None and before.open is not None and person.is_active(before.open.owner):
        raise LifecycleError(_owned(store.load, before.open))
    if before is not None and before.instance == mirrored.instance and before.revision > mirrored.revision:
        raise LifecycleError(
            f"the ledger of load {store.load!r} is at revision {before.revision}, its mirror at {mirrored.revision}: "
            "nothing is lost, and the next run brings the mirror up to date; to go back, rewind the ledger"
        )
    if before is not None and before.reached is not None and mirrored.reached is None:
        raise LifecycleError(
            f"load {store.load!r} makes upserts, and its mirror does not say how far its table has come: restore the "
            f"ledger from a backup; or {ANEW}'earliest'"
        )
    base = before or lifecycle.first_look(
        store.load, instance=mirrored.instance, home_dag=None, place=mirrored.place, topics=topics, now=person.now
    )
    if base.open is not None:
        base = lifecycle.abandoned(base, person.name, person.reason, person.now)
    revision = max(base.revision, mirrored.revision)
    found = replace(
        base,
        instance=mirrored.instance,
        revision=revision,
        place=base.place.updated(mirrored.place),  # with what was added since
        topics={**topics, **base.topics},
        reached=mirrored.reached,
        begun=mirrored.begun,
        rows_emitted=mirrored.rows,
        dead_letters=mirrored.dead_letters,
    )
    after = lifecycle.restored(found, person.name, person.reason, person.now)
    store.save(after, before)
    show(store, mirror, after)
    return after


def move(source: LedgerStore, target: LedgerStore, to: str) -> None:
    """Move all that is kept of a load to another store, which is called `to`; a move that was interrupted goes on.

    Nobody goes on from the source once the move has begun, nor from the target before it has ended.
    """
    moved = source.moved()
    if moved is not None and moved.moved_to != to:
        source.ledger()  # says where it is
    if moved is None:
        _check_free(target, to)
        _check_closed(source)
        moved = source.mark_moved(to, source.ledger())
    outdated = target.moved() is not None
    if not outdated and target.ledger() is not None:
        return  # it has arrived, and may have gone on since
    there = {LEDGER, *(() if outdated else target.kept())}
    for key in source.kept():
        if key not in there:
            target.copy(key, source)
    target.take(moved.ledger)


def _check_free(target: LedgerStore, to: str) -> None:
    found = [] if target.moved() is not None else [key for key in target.kept() if key != "watch"]
    if found:
        raise LifecycleError(
            f"{to!r} already has documents of load {target.load!r} ({', '.join(map(repr, found[:SHOWN]))}): only one "
            "of the two may be continued. Name another location, or delete the outdated documents"
        )


def _check_closed(source: LedgerStore) -> None:
    keys = [key.partition("/")[2] for key in source.kept() if key.startswith("claim/")]
    for book in (source.ledger(), *map(source.claim, keys)):
        if book is not None and book.open is not None:
            raise LifecycleError(
                f"the ledger of load {source.load!r} cannot move: range {book.open.range_id!r} of {book.open.owner} is "
                f"open. Let its run finish, or clear it if it failed; or, if it is the ledger's own, abandon it with "
                f"`orderedkafka ledger abandon {source.load} --reason ...`"
            )


def _owned(load: str, opened: Open) -> str:
    return (
        f"range {opened.range_id!r} of load {load!r} is owned by {opened.owner}, which is active: let it finish, or "
        "mark that DAG run failed first"
    )


def _still(ledger: Ledger, topics: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The ledger's position, without topics that were deleted and created again."""
    anew = {topic for topic, found in topics.items() if ledger.topics.get(topic, found) != found}
    return {partition: offset for partition, offset in ledger.place.offsets.items() if partition.topic not in anew}


def _opened(ledger: Ledger) -> str:
    return "nothing" if ledger.open is None else status_of(ledger, ledger.open.range_id).sentence


def _floor(floor: Floor) -> str:
    time = str(Moment(floor.time)) if floor.time >= 0 else "none"
    return time if floor.split is None else f"{time}, one millisecond more before {floor.split}"


def _positions(place: Place) -> list[str]:
    anew = {partition: f", floor {_floor(Floor(time))}" for partition, time in place.floor.anew.items()}
    found = [f"  {partition.at(offset)}{anew.get(partition, '')}" for partition, offset in place.offsets.items()]
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"  and {counted(len(found) - SHOWN, 'more partition')}"]


def _starts_over(was: Floor, place: Place) -> list[str]:
    anew = [partition for partition in place.offsets if place.floor.of(partition) < was.of(partition)]
    if not anew:
        return []
    return [
        f"Order times start over in {counted(len(anew), 'partition')}: until now none was before {_floor(was)}, and "
        "older records there will not be flagged as late. Other partitions do not change."
    ]


def _move(partition: TopicPartition, was: int | None, offset: int) -> str:
    if was is None:
        return f"  {partition.at(offset)}: new"
    if was == offset:
        return f"  {partition.at(offset)}: stays"
    are = "is" if abs(was - offset) == 1 else "are"
    what = f"{are} loaded again" if offset < was else f"{are} left out"
    return f"  {partition.at(was)} to {offset}: {counted(abs(was - offset), 'offset')} {what}"


def _outcome(outcome: Outcome) -> str:
    named = f" {outcome.range_id}" if outcome.range_id else ""
    rows = (
        f", {counted(outcome.rows, 'row')}{outcome.changes.words}{doubts(outcome)}"
        if outcome.kind == "committed"
        else ""
    )
    return (
        f"revision {outcome.revision}: {outcome.kind}{named} by {outcome.by} at {Moment(outcome.at)}{rows}: "
        f"{outcome.reason}"
    )
