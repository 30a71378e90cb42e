"""Read outputs until no more rows of a dead writer's batch land in them.

Requests of a dead writer may still be on their way, so the outputs are read to their ends again and again until no rows
of the batch were found for a settle time. Only pauses between reads count: while a read is slow or a broker does not
answer, requests may be held up as well. What others write does not matter.

A row may also be hidden above the leader's high watermark while a follower lags, for `replica.lag.time.max.ms` or
longer. So at the end it is checked that everything in the leaders' logs was read. This writes nothing, and takes a
moment if no follower lags. If it cannot be shown in time, for example with too few replicas in sync, the outputs are
not settled: they may have rows of the batch that are not visible yet.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.clients.consumers import pooled_consumer
from airflow_provider_orderedkafka.kafka.lookup.hidden import Fence
from airflow_provider_orderedkafka.kafka.lookup.offsets import high_ends, log_starts
from airflow_provider_orderedkafka.kafka.lookup.partition_reader import PartitionReader
from airflow_provider_orderedkafka.kafka.lookup.topics import recheck
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

_TUNING: Final = {"queued.max.messages.kbytes": "16384", "fetch.max.bytes": "16000000"}
_LOOK_SECONDS: Final = 0.1

Take = Callable[[Sequence[Any]], int]
"""Called with all records, in the log's order; says how many of them are rows of the batch."""


@dataclass(frozen=True, slots=True)
class Settle:
    """When a batch is settled, and when to give up; all in seconds.

    `still` is how long no rows must arrive. `deadline` is how long to wait since rows last arrived, without the
    time for reading, and `longest` how long to wait overall after the outputs were read to their ends once.
    """

    still: float = 2.0
    deadline: float = 60.0
    longest: float = 600.0


@dataclass(frozen=True, slots=True)
class Settled:
    """Whether the outputs have settled, and how many offsets since the note were deleted before they were read."""

    settled: bool
    gone: int


class Looks(Protocol):
    """What waiting for outputs to settle needs of them."""

    def look(self) -> bool:
        """Read everything new; whether rows of the batch were among it."""

    def nothing_hidden(self) -> bool:
        """Whether everything was read that the logs held at some moment since rows last arrived."""


class Clock(Protocol):
    """The part of `time` that waiting needs."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


def read_until_settled(
    config: Mapping[str, str],
    partitions: Iterable[TopicPartition],
    noted: Offsets,
    take: Take,
    settle: Settle,
) -> Settled:
    """Read partitions from their noted ends on until the batch has settled; those without a note from the start.

    Raises UnknownTopicError, AccessDeniedError (the principal needs READ on its outputs) or UnreachableError.
    """
    starts, gone = _starts(config, list(partitions), noted)
    outputs = _Outputs(config, starts, take)
    settled = until_still(outputs, settle)
    return Settled(settled, gone + outputs.gone)


def until_still(outputs: Looks, settle: Settle, clock: Clock = time) -> bool:
    """Wait until nothing arrives for long enough and nothing is hidden; False if that takes too long."""
    outputs.look()
    begun = looked = clock.monotonic()
    still = waited = 0.0
    while not (still >= settle.still and outputs.nothing_hidden()):
        if waited >= settle.deadline or looked - begun >= settle.longest:
            return False
        clock.sleep(_LOOK_SECONDS)
        pause = clock.monotonic() - looked
        came = outputs.look()
        looked = clock.monotonic()
        still, waited = (0.0, 0.0) if came else (still + pause, waited + pause)
    return True


def _starts(
    config: Mapping[str, str], partitions: Sequence[TopicPartition], noted: Offsets
) -> tuple[dict[TopicPartition, int], int]:
    """Where to begin reading, and how many offsets since the note are gone.

    An output that ends before its note was truncated, so all of it is read.
    """
    first, last = log_starts(config, partitions), high_ends(config, partitions, "read_uncommitted")
    starts, gone = {}, 0
    for partition in partitions:
        note = noted.get(partition, 0)
        start = first[partition] if last[partition] < note else max(note, first[partition])
        starts[partition] = start
        gone += max(0, start - note) if partition in noted else 0
    return starts, gone


class _Outputs:
    """The outputs, with how far they were read, and the fence to pass at the end."""

    def __init__(self, config: Mapping[str, str], starts: Mapping[TopicPartition, int], take: Take) -> None:
        self._config = config
        self._positions = dict(starts)
        self._take = take
        self._fence = Fence(config)
        self.gone = 0

    def look(self) -> bool:
        ends = high_ends(self._config, self._positions, "read_uncommitted")
        wanted = {partition: at for partition, at in self._positions.items() if at < ends[partition]}
        came = self._read(wanted, ends) if wanted else 0
        if came:
            self._fence = Fence(self._config)
        return came > 0

    def nothing_hidden(self) -> bool:
        return self._fence.passed(self._positions)

    def _read(self, wanted: Mapping[TopicPartition, int], ends: Offsets) -> int:
        came = 0
        settings = ReadSettings({**_TUNING, **self._config}, isolation="read_uncommitted")
        with pooled_consumer(settings) as pooled:
            reader = PartitionReader(pooled, ends, settings.deadline, partial(recheck, self._config, list(wanted), {}))
            reader.begin(wanted)
            while reader.positions:
                came += self._take(reader.take())
                done = {partition: at for partition, at in reader.positions.items() if at >= ends[partition]}
                self._positions |= done
                reader.let_go(done)
        self.gone += reader.gone
        return came
