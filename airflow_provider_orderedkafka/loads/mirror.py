"""The ledger's copy in the consumer group `orderedkafka.<load>`, for lag in every Kafka tool.

Each partition's commit carries the revision, the rows, the floor and the ledger's instance as metadata, so that a
person can restore a lost ledger from it. A mirror that is behind is repaired; one that is ahead is an error.

Thousands of partitions are committed in portions. Each has its number and their count, so that an incomplete mirror is
recognized.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..core.codec import canonical
from ..core.documents import Ledger
from ..core.notation.subscriptions import Matching, Named
from ..core.order.cuts import NO_FLOOR, Floor, OrderTimes, Place
from ..core.order.positions import Offsets, TopicPartition
from ..errors import LifecycleError

if TYPE_CHECKING:
    from ..kafka.lookup.topics import GroupOffset

MARK = "orderedkafka"

NOBODY = ""
"""The instance of a group in which all that a ledger may have written was overwritten."""


def group_of(load: str) -> str:
    return f"orderedkafka.{load}"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The content of a mirror; not `whole` if its last write was interrupted, or somebody else has written there."""

    instance: str
    revision: int
    rows: int
    place: Place
    dead_letters: int
    whole: bool = True
    reached: Place | None = None
    begun: Offsets = Offsets()  # noqa: RUF009 - it never changes


class GroupMirror:
    """The mirror of one load, in its consumer group. `partitions` are those to read if no ledger names any."""

    def __init__(
        self, config: Mapping[str, str], load: str, partitions: Callable[[], Iterable[TopicPartition]] = tuple
    ) -> None:
        self._config = config
        self._load = load
        self._group = group_of(load)
        self._partitions = partitions

    @classmethod
    def of(cls, config: Mapping[str, str], load: str, topics: Sequence[str] = ()) -> Self:
        """The mirror, read for these topics, by default for all of the cluster."""
        from ..kafka.lookup.topics import discover

        wanted = Named(tuple(topics)) if topics else Matching(".*")
        return cls(config, load, lambda: discover(config, wanted).partitions)

    def check(self, ledger: Ledger | None) -> None:
        if self.is_behind(ledger) and ledger is not None:
            self.write(ledger)

    def is_behind(self, ledger: Ledger | None) -> bool:
        """Whether it lacks what the ledger has; `LifecycleError` if it is ahead, of another ledger, or without one."""
        found = self.read(None if ledger is None else ledger.place.offsets)
        if found is None:
            return True
        if ledger is None:
            raise LifecycleError(self._without_ledger(found))
        if found.instance == NOBODY:
            return True
        if found.instance != ledger.instance:
            raise LifecycleError(self._of_another(found, ledger))
        if found.revision > ledger.revision:
            raise LifecycleError(self._ahead(found, ledger))
        return found.revision < ledger.revision or not found.whole

    def write(self, ledger: Ledger) -> None:
        from ..kafka.lookup.topics import write_commits

        write_commits(self._config, self._group, *self.portions(ledger))

    @staticmethod
    def portions(ledger: Ledger) -> "list[dict[TopicPartition, GroupOffset]]":
        from ..kafka.lookup.topics import AT_ONCE, GroupOffset

        places = list(ledger.place.offsets.items())
        portions = max(-(-len(places) // AT_ONCE), 1)
        # Every n-th partition, so that deleting a topic later does not remove a portion.
        return [
            {p: GroupOffset(offset, _metadata(ledger, (n, portions), p)) for p, offset in places[n::portions]}
            for n in range(portions)
        ]

    def read(self, partitions: Iterable[TopicPartition] | None = None) -> Mirrored | None:
        from ..kafka.lookup.topics import read_commits

        asked = self._partitions() if partitions is None else partitions
        return _mirrored(read_commits(self._config, self._group, asked))

    def _without_ledger(self, found: Mirrored) -> str:
        has = "has commits" if found.instance == NOBODY else f"mirrors one at revision {found.revision}"
        return (
            f"load {self._load!r} has no ledger here, but consumer group {self._group} {has}: if the ledger was lost, "
            f"restore it with `orderedkafka ledger restore {self._load} --reason ...`; if another Airflow loads under "
            "this name, rename the load; to start over, delete the group"
        )

    def _of_another(self, found: Mirrored, ledger: Ledger) -> str:
        return (
            f"consumer group {self._group} mirrors another ledger (instance {found.instance}, here "
            f"{ledger.instance}): another Airflow loads {self._load!r} from this cluster; name one of them "
            "differently, or delete the group if the other one is gone"
        )

    def _ahead(self, found: Mirrored, ledger: Ledger) -> str:
        return (
            f"the ledger of load {self._load!r} is at revision {ledger.revision}, its mirror in consumer group "
            f"{self._group} at {found.revision}: the ledger is older than its mirror, perhaps by a restored database. "
            f"To continue from the mirror, run `orderedkafka ledger restore {self._load} --reason ...`; to continue "
            "from the ledger, delete the group"
        )


def _metadata(ledger: Ledger, portion: tuple[int, int], partition: TopicPartition) -> str:
    """What a partition's commit carries: the floor is that of this partition, where it has one of its own."""
    reached = ledger.reached
    values = {
        "by": MARK,
        "instance": ledger.instance,
        "revision": ledger.revision,
        "rows": ledger.rows_emitted,
        "dead_letters": ledger.dead_letters,
        "floor": _floor(ledger.place, partition),
    }
    if reached is not None:
        values["reached"] = [reached.offsets.get(partition), *_floor(reached, partition)]
        values["begun"] = ledger.begun.get(partition)
    return canonical(values if portion == (0, 1) else {**values, "portion": portion})


def _floor(place: Place, partition: TopicPartition) -> list[Any]:
    floor = place.floor
    split = None if partition in floor.anew else floor.split
    return [floor.anew.get(partition, floor.time), *(split or ())]


def _of_floors(floors: "Mapping[TopicPartition, list[Any]]") -> Floor:
    time, *split = max(floors.values())
    anew = OrderTimes({partition: floor[0] for partition, floor in floors.items() if floor != [time, *split]})
    return Floor(time, TopicPartition(*split) if split else None, anew)


def _reached(values: Mapping[TopicPartition, dict[str, Any]]) -> Place | None:
    """How far upserts have come; None where a partition does not say it."""
    found: dict[TopicPartition, list[Any]] = {p: value["reached"] for p, value in values.items() if "reached" in value}
    if len(found) < len(values):
        return None
    offsets = Offsets({p: offset for p, [offset, *_] in found.items() if offset is not None})
    return Place(offsets, _of_floors({partition: floor for partition, [_, *floor] in found.items()}))


def _mirrored(found: "Mapping[TopicPartition, GroupOffset]") -> Mirrored | None:
    if not found:
        return None
    parsed = {p: value for p, commit in found.items() if (value := _parsed(commit.metadata)) is not None}
    if not parsed:
        return Mirrored(NOBODY, 0, 0, Place(Offsets(), NO_FLOOR), 0, whole=False)
    newest = max(parsed.values(), key=lambda value: int(value["revision"]))
    floor = _of_floors({partition: value["floor"] for partition, value in parsed.items()})
    offsets = Offsets((partition, commit.offset) for partition, commit in found.items())
    return Mirrored(
        newest["instance"],
        newest["revision"],
        newest["rows"],
        Place(offsets, floor),
        newest["dead_letters"],
        whole=len(parsed) == len(found) and _whole(parsed.values()),
        reached=_reached(parsed),
        begun=Offsets({p: value["begun"] for p, value in parsed.items() if value.get("begun") is not None}),
    )


def _whole(values: Iterable[dict[str, Any]]) -> bool:
    """Whether all portions are there, and of one revision."""
    portions = [tuple(value.get("portion", (0, 1))) for value in values]
    without = {canonical({**value, **dict.fromkeys(("portion", "floor", "reached", "begun"))}) for value in values}
    return len(without) == 1 and len({of for _, of in portions}) == 1 and len(set(portions)) == portions[0][1]


def _parsed(metadata: str) -> dict[str, Any] | None:
    try:
        value = json.loads(metadata)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("by") == MARK else None
