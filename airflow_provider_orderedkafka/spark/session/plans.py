"""Read from a Spark plan whether its rows keep the records' order, and whether a rerun makes the same rows.

A plan is read as the tree that runs, from its top down to the node that reads the records. What is not listed here is
not known to keep the order, and so does not.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Final

from ...compat.spark import (
    Node,
    children,
    columns,
    executed_plan,
    has_subqueries,
    hinted,
    is_deterministic,
    is_empty,
    is_scan_of,
    join_of,
    name,
    python_function,
    shown,
    sides,
    with_replacement,
)
from ...errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Reads = Callable[[Node], bool]

AT_MOST_ONE: Final = frozenset({"ArrowEvalPython", "BatchEvalPython", "CollectMetrics", "Filter", "Project", "Sample"})
"""Nodes that give at most one row for each, in order."""

SEVERAL: Final = frozenset(
    {"ArrowEvalPythonUDTF", "BatchEvalPythonUDTF", "Expand", "Generate", "MapInArrow", "MapInPandas"}
)
"""Nodes that may give several rows for one, side by side and always in the same order."""

CHOOSING: Final = frozenset({"Filter", "Generate", "Sample"})
"""Nodes that choose rows: where they go by chance, another attempt has other rows."""

JOINS: Final = frozenset({"BroadcastHashJoin", "BroadcastNestedLoopJoin"})

STREAMED: Final[dict[str, frozenset[str]]] = {
    "Inner": frozenset({"BuildLeft", "BuildRight"}),
    "Cross": frozenset({"BuildLeft", "BuildRight"}),
    "LeftOuter": frozenset({"BuildRight"}),
    "RightOuter": frozenset({"BuildLeft"}),
    "LeftSemi": frozenset({"BuildRight"}),
    "LeftAnti": frozenset({"BuildRight"}),
    "ExistenceJoin": frozenset({"BuildRight"}),
}
"""By kind of join, which side may be broadcast such that all rows are those of the other side, in their order."""

MATCHES: Final = frozenset({"Inner", "Cross", "LeftOuter", "RightOuter"})
"""The kinds of join that give a row for each match."""

OTHER_WAYS: Final[dict[str, str]] = {
    "Coalesce": "leave out coalesce: the number of writers says how many tasks write",
    "CollectLimit": "leave out limit and offset: the load's own limit takes the first rows in order",
    "Exchange": "leave out repartition",
    "GlobalLimit": "leave out limit and offset: the load's own limit takes the first rows in order",
    "LocalLimit": "leave out limit and offset: the load's own limit takes the first rows in order",
    "Sort": "leave out orderBy, sort and sortWithinPartitions",
    "SortMergeJoin": "join with functions.broadcast(table)",
    "ShuffledHashJoin": "join with functions.broadcast(table)",
    "TakeOrderedAndProject": "leave out orderBy and limit",
    "Union": "make all rows in one pass, with functions.when, or with explode where a record gives several",
    "Window": "leave out window functions",
}
ANY_OTHER_WAY: Final = (
    "use only select, where, explode, functions in Python over rows, mapInArrow, mapInPandas and joins with "
    "functions.broadcast(table)"
)
BROADCAST_THE_OTHER: Final = (
    "the records are broadcast, and the rows follow the other side of the join: join with functions.broadcast(table)"
)
NO_HINT: Final = (
    "without a hint on the table, Spark may broadcast the records while it runs: join with functions.broadcast(table)"
)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What is known of the rows of a plan.

    `at_most_one`: no record gives two rows. `joins`: a record's rows may come from several matches of a join, whose
    order is not sure to be the same in another attempt. `disordered` says why the rows do not keep the order of the
    records, and `untrusted` why another attempt may make other rows of them; both are None where all is well.
    """

    at_most_one: bool = True
    joins: bool = False
    disordered: str | None = None
    untrusted: str | None = None

    def check_ordered(self, otherwise: str) -> None:
        """Raise if the rows do not keep the order; `otherwise` says how to do without it."""
        if self.disordered is not None:
            raise SettingError(f"the rows do not keep the order of the records: {self.disordered}; or {otherwise}")

    def check_trusted(self, otherwise: str) -> None:
        """Raise if rows cannot be identified again; `otherwise` says how to do without that."""
        if self.untrusted is not None:
            raise SettingError(
                f"Spark plans this batch in another way than at the start of the load, so a rerun could not recognise "
                f"its rows: {self.untrusted}; or {otherwise}"
            )


def read_plan(frame: "DataFrame", *, below: str | None = None) -> PlanFacts:
    """The facts of a frame that is made of a range's records.

    Given the name of a column, they are those of the rows before that column was made: of a frame that was dealt to
    writers this is what the transform does.
    """
    top = executed_plan(frame)
    return _facts(top if below is None else _making(below, top), _reads_range)


def read_any_plan(frame: "DataFrame") -> PlanFacts:
    """The same for any frame: where no source of records is read, its rows are the records."""
    top = executed_plan(frame)
    return _facts(top, _reads_source if any(map(_reads_source, _all(top))) else _is_leaf)


def made_where_read(frame: "DataFrame") -> bool:
    """Whether a range's rows are all made in the tasks that read its records, and nothing else is read."""
    top = executed_plan(frame)
    nodes = list(_all(top))
    alone = all(len(children(node)) <= 1 and not has_subqueries(node) for node in nodes)
    return alone and _facts(top, _reads_range).disordered is None


def _facts(top: Node, reads: Reads) -> PlanFacts:
    found = _read(top, reads)
    times = sum(map(reads, _all(top)))
    if found.untrusted is None and times > 1 and reads is not _is_leaf:
        return replace(found, untrusted=f"the records are read {times} times in one plan")
    return found


def _read(node: Node, reads: Reads) -> PlanFacts:
    kind = name(node)
    if reads(node) or is_empty(node):
        return PlanFacts(at_most_one=not _reads(node, "ReadSeveral"))
    if kind in JOINS:
        return _joined(node, reads)
    if kind in AT_MOST_ONE | SEVERAL:
        return _passed(node, _read(children(node)[0], reads))
    if kind == "Coalesce":  # each record still gives the same rows
        found = _read(children(node)[0], reads)
        return replace(found, disordered=found.disordered or _why(node))
    return _lost(_why(node) if children(node) else f"they come from {shown(node)}, and not from the records")


def _passed(node: Node, found: PlanFacts) -> PlanFacts:
    kind = name(node)
    chance = kind in CHOOSING and (kind == "Sample" or not is_deterministic(node))
    by_chance = f"{shown(node)} chooses rows by chance" if chance else None
    several = kind in SEVERAL or (kind == "Sample" and with_replacement(node))
    return replace(found, at_most_one=found.at_most_one and not several, untrusted=found.untrusted or by_chance)


def _joined(node: Node, reads: Reads) -> PlanFacts:
    kind, built = join_of(node)
    if built not in STREAMED.get(kind, ()):
        return _lost(f"{shown(node)} adds rows of its own; {ANY_OTHER_WAY}")
    broadcast, streamed = sides(node) if built == "BuildLeft" else reversed(sides(node))
    if reads is not _is_leaf and not any(map(reads, _all(streamed))) and any(map(reads, _all(broadcast))):
        return _lost(f"{shown(node)}: {BROADCAST_THE_OTHER}")
    if len(STREAMED[kind]) > 1 and hinted(node) != [built]:
        return _lost(f"{shown(node)}: {NO_HINT}")
    found = _read(streamed, reads)
    matches = kind in MATCHES
    return replace(found, at_most_one=found.at_most_one and not matches, joins=found.joins or matches)


def _lost(why: str) -> PlanFacts:
    return PlanFacts(at_most_one=False, disordered=why, untrusted=why)


def _why(node: Node) -> str:
    return f"{shown(node)} does not keep it; {OTHER_WAYS.get(name(node), ANY_OTHER_WAY)}"


def _reads_range(node: Node) -> bool:
    """Whether this is how `frames` reads records: a task for each number of a slice."""
    return _reads(node, "ReadRecords", "ReadSeveral")


def _reads(node: Node, *functions: str) -> bool:
    return name(node) == "MapInArrow" and python_function(node) in functions


def _reads_source(node: Node) -> bool:
    return is_scan_of("orderedkafka", node)


def _is_leaf(node: Node) -> bool:
    return not children(node)


def _making(column: str, top: Node) -> Node:
    """The lowest node on the way down that has the column: the one that makes it."""
    having = dropwhile(lambda node: column not in columns(node), _down(top))
    return deque(takewhile(lambda node: column in columns(node), having), maxlen=1).pop()


def _down(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node)[:1]:
        yield from _down(child)


def _all(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _all(child)
