"""What users reported of other tools' tables of upserts, as histories that anything which makes such a table can load.

What is right is what the report expects, or what the producer wrote last.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

ISSUES, DAY = "https://github.com", 86_400_000


class Change(NamedTuple):
    """A record; without a value it deletes its key. The time is in milliseconds."""

    key: str
    value: str | None
    time: int
    partition: int = 0


class History(NamedTuple):
    """What is written before each run, what happens then, and what a table should have in the end.

    In the end the last run may be `killed` after its commit and tried again, or the first one `replayed`.
    """

    name: str
    report: str
    runs: tuple[tuple[Change, ...], ...]
    right: Mapping[str, str]
    then: Literal["killed", "replayed", ""] = ""
    batch: int = 100
    """How many offsets a batch has."""

    here: Mapping[str, str] | None = None
    """What our order makes of it, where that is something else."""

    output: Mapping[str, tuple[str, ...]] = {}
    """How our table is made."""

    @property
    def kind(self) -> tuple[object, ...]:
        """Histories of one kind can be lived through side by side, in one topic and one table."""
        return self.then, self.batch, *self.output.items()

    def of(self, values: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Its own ones of a table's keys and values, as they are in `right`."""
        return sorted((key.partition(": ")[2], value) for key, value in values if key.startswith(f"{self.name}: "))


HISTORIES = (
    History(
        "a record without a value deletes its row",
        f"{ISSUES}/apache/iceberg/issues/17542",
        ((Change("k", "a", 1), Change("j", "b", 2)), (Change("k", None, 3),)),
        {"j": "b"},
    ),
    History(
        "two changes of one key in a batch that is tried again after its commit make one row",
        f"{ISSUES}/apache/iceberg/issues/17455",
        ((Change("k", "a", 1),), (Change("k", "b", 2), Change("k", "c", 3))),
        {"k": "c"},
        "killed",
    ),
    History(
        "a change replaces the row of an earlier run",
        f"{ISSUES}/apache/iceberg/issues/15046",
        ((Change("k", "a", 1),), (Change("k", "b", 2),)),
        {"k": "b"},
    ),
    History(
        "of all that a batch does to one key the last is left",
        f"{ISSUES}/apache/iceberg/pull/14797",
        (
            (Change("k", "a", 1), Change("j", "a", 1), Change("k", "b", 2)),
            (Change("j", None, 2), Change("k", None, 3), Change("k", "c", 4)),
        ),
        {"k": "c"},
    ),
    History(
        "what was loaded comes again, and puts no old row back",
        f"{ISSUES}/apache/iceberg/issues/17340",
        ((Change("k", "a", 1), Change("j", "a", 1)), (Change("k", "b", 2), Change("j", None, 2))),
        {"k": "b"},
        "replayed",
    ),
    History(
        "a delete that has nothing but its key finds its row in another partition of the table",
        f"{ISSUES}/databricks/iceberg-kafka-connect/issues/318",
        (
            (Change("k", "a", 1), Change("j", "a", 1)),
            (Change("k", "b", DAY), Change("j", "b", DAY)),
            (Change("k", None, 2 * DAY),),
        ),
        {"j": "b"},
        output={"partition_by": ("days(order_time)",)},
    ),
    History(
        "a snapshot that is taken beside the changes makes no second row",
        f"{ISSUES}/databricks/iceberg-kafka-connect/issues/260",
        ((Change("k", "a", 1), Change("j", "a", 1)), (Change("k", "b", 2), Change("k", "b", 3), Change("j", "a", 3))),
        {"k": "b", "j": "a"},
    ),
    History(
        "a row that is deleted and written anew in one millisecond is there",
        f"{ISSUES}/memiiso/debezium-server-iceberg/pull/661",
        ((Change("k", "hello", 1), Change("k", None, 1), Change("k", "hallo", 1)),),
        {"k": "hallo"},
    ),
    History(
        "of changes in one millisecond the last is left",
        f"{ISSUES}/apache/hudi/issues/1803",
        ((*(Change("k", str(61 + n), min(n, 2) + 1) for n in range(5)),),),
        {"k": "65"},
    ),
    History(
        "of changes in one millisecond the last is left, whatever comes again",
        f"{ISSUES}/apache/spark/pull/57149",
        ((Change("k", "a", 1),), (Change("k", "b", 1),)),
        {"k": "b"},
        "replayed",
    ),
    History(
        "a change of a clock that went back is the last one, as it was written last",
        f"{ISSUES}/memiiso/debezium-server-iceberg/issues/126",
        ((Change("k", "snapshot", 9), Change("k", "change", 5)),),
        {"k": "change"},
    ),
    History(
        "a change in a partition that is read later than others replaces nothing newer",
        f"{ISSUES}/databricks/iceberg-kafka-connect/issues/290",
        ((*(Change(key, "old", n + 1) for n, key in enumerate("xyzk")), Change("k", "new", 5, 1)),),
        {"x": "old", "y": "old", "z": "old", "k": "new"},
        batch=2,
    ),
    History(
        "a delete that comes a run late, in another partition, is the last one",
        f"{ISSUES}/apache/hudi/issues/17641",
        ((Change("k", "a", 101),), (Change("k", None, 97, 1),)),
        {"k": "a"},
        here={},
    ),
)


def side_by_side() -> list[list[History]]:
    """All, by kind."""
    found: dict[tuple[object, ...], list[History]] = {}
    for each in HISTORIES:
        found.setdefault(each.kind, []).append(each)
    return list(found.values())


def runs(histories: Sequence[History]) -> list[list[Change]]:
    """What is written before each run, each history with keys of its own."""
    apart = [
        [[change._replace(key=f"{each.name}: {change.key}") for change in run] for run in each.runs]
        for each in histories
    ]
    return [[change for run in at_once for change in run] for at_once in zip_longest(*apart, fillvalue=[])]
