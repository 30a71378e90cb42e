"""Choose the lane: through DataFrames, or directly from reader to writer in one task.

The direct lane is faster, and is chosen wherever it keeps the requested order. Each of its tasks has some partition
numbers of all topics, so rows of one key stay in order only if a key is always in the same partition number. One task
keeps any order, and is quicker than the other lane for small ranges.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from .order.positions import Offsets

Kind = Literal["frames", "direct"]
OrderBy = Literal["key", "partition"]
KeepOrder = Literal[OrderBy, "none"]
PlacedBy = Literal["key", "row", ""]
"""What says in which partition a row lies: its key, the row itself; empty: nothing that could be known later."""

Partitioner = Literal["murmur2", "crc32"]
Placement = tuple[Partitioner, int]
"""How a source's keys are placed: by this partitioner, over this number of partitions."""


@dataclass(frozen=True, slots=True)
class Facts:
    """`partitions` are the source's partition counts by topic, `outputs` is the output's, None if unknown.

    `placed` means that one partitioner explains where the keys of a sample are, `rekeyed` that the transform changes
    keys, `copied` that there is no transform.
    """

    offsets: int
    transformed: bool
    keep_order: KeepOrder
    writers: int | None
    partitions: Mapping[str, int]
    outputs: int | None
    use_partition: bool
    placed: bool
    rekeyed: bool
    copied: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """One task has everything, or each relies on where keys are."""

    kind: Kind
    reason: str
    one_task: bool = False
    by_key: bool = False


FEW: Final = 500_000
"""One task copies up to this many offsets sooner than the tasks of the other lane do on two cores."""

_Rule = tuple[Callable[[Facts], bool], Lane]

RULES: tuple[_Rule, ...] = (
    (lambda facts: facts.transformed, Lane("frames", "a transform of DataFrames was asked for")),
    (lambda facts: facts.writers == 1, Lane("direct", "one writer was asked for", one_task=True)),
    (lambda facts: facts.keep_order == "none", Lane("direct", "no order was asked for")),
    (lambda facts: facts.outputs == 1, Lane("direct", "the output has one partition", one_task=True)),
    (
        lambda facts: set(facts.partitions.values()) == {1},
        Lane("direct", "the source has one partition", one_task=True),
    ),
    (lambda facts: facts.rekeyed, Lane("frames", "the transform changes keys")),
    (
        lambda facts: facts.keep_order == "partition" and facts.use_partition and facts.copied,
        Lane("direct", "rows stay in their partition number"),
    ),
    (lambda facts: facts.keep_order == "partition", Lane("frames", "order was asked for in each output partition")),
    (
        lambda facts: len(set(facts.partitions.values())) != 1,
        Lane("frames", "the topics have different numbers of partitions"),
    ),
    (lambda facts: facts.placed, Lane("direct", "each key stays in one partition number", by_key=True)),
)
"""The first rule that holds decides; if none does, a key may be in several partitions."""


def lane(facts: Facts) -> Lane:
    found = (way for holds, way in RULES if holds(facts))
    way = next(found, Lane("frames", "a key may be in several partitions of the source"))
    if way.kind == "direct" or facts.transformed or facts.writers is not None or facts.offsets > FEW:
        return way
    return Lane("direct", f"{way.reason}, and this range is small enough for one task", one_task=True)


def sizes(start: Offsets, end: Offsets) -> dict[int, int]:
    """How many offsets lie in each partition number, over all topics."""
    found: dict[int, int] = {}
    for partition, offset in end.items():
        found[partition.partition] = found.get(partition.partition, 0) + offset - start[partition]
    return found


def share_out(offsets: Mapping[int, int], tasks: int) -> dict[int, int]:
    """Assign partition numbers to tasks: the largest first, each to the task with the least so far."""
    loads = [0] * tasks
    found = {}
    for number, size in sorted(offsets.items(), key=lambda item: (-item[1], item[0])):
        task = loads.index(min(loads))
        loads[task] += size
        found[number] = task
    return found
