"""Marks of places: whatever becomes of a log, a truncated one is never taken for that in which a place was found."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from support.simulated_log import Entry, SimulatedKafka, SimulatedLog

from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Place
from airflow_provider_orderedkafka.core.order.marks import Mark
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.survey import REACH, compared, marked

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]

changes = st.lists(
    st.tuples(
        st.sampled_from(["write", "end a transaction", "elect", "truncate", "delete", "compact"]),
        st.sampled_from(PARTITIONS),
        st.integers(0, 40),
    ),
    max_size=12,
)


@dataclass
class Cluster(SimulatedKafka):
    """Logs that change, and from which offset on each of them is another one than that in which somebody stood."""

    present: SimulatedLog = field(default_factory=lambda: SimulatedLog({p: [] for p in PARTITIONS}))
    ends: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    parted: dict[TopicPartition, int] = field(default_factory=dict)

    def happens(self, what: str, partition: TopicPartition, number: int) -> None:
        entries, end = self.present.entries[partition], self.ends[partition]
        if what in {"write", "end a transaction"}:
            count = number if what == "write" else 1
            epoch = self.present.epochs[partition]
            entries += [Entry(n, 0, visible=what == "write", epoch=epoch) for n in range(end, end + count)]
            self.ends[partition] = end + count
        elif what == "elect":
            self.present.epochs[partition] += 1
        elif what == "truncate":
            at = max(end - number, self.present.gone_before.get(partition, 0))
            self.present.truncate(partition, at)
            self.ends[partition] = at
            self.parted[partition] = min(at, self.parted.get(partition, at))
        elif what == "delete":
            self.present.delete_before(partition, min(number, end))
        elif number < end:
            self.present.entries[partition] = [entry for entry in entries if entry.offset != number]

    def log_end_offsets(self):
        return self.ends

    def last_records(self, spans):
        assert all(end <= self.ends[p] for p, (_, end) in spans.items()), "whoever reads on from a log's end waits"
        return self.present.last_records(spans)


@given(changes, changes, st.booleans())
def test_a_place_is_in_the_same_log_in_another_one_or_it_is_not_known(before, after, always) -> None:
    kafka = Cluster()
    for change in before:
        kafka.happens(*change)
    kafka.parted.clear()
    place = marked(kafka, Place(Offsets(kafka.ends), NO_FLOOR))
    for change in after:
        kafka.happens(*change)
    found = compared(kafka, place, PARTITIONS, always=always)
    assert place.marked.keys() == {p for p, offset in place.offsets.items() if offset}
    for partition, mark in place.marked.items():
        parted = kafka.parted.get(partition, mark.offset + 1)
        if parted <= mark.offset:
            assert partition in found.unknown or parted <= found.parted[partition] <= mark.offset
        else:
            assert partition not in found.parted
            there = mark.digest and any(e.visible and e.offset == mark.offset for e in kafka.present.entries[partition])
            elected = kafka.present.epochs[partition] != mark.epoch
            assert (partition in found.unknown) == (not there and (elected or (always and mark.digest != "")))


@given(changes, st.integers(1, REACH - 1))
def test_a_place_has_a_mark_wherever_a_record_lies_shortly_before_it(before, markers) -> None:
    kafka = Cluster()
    for change in [*before, ("write", PARTITIONS[0], 1)]:
        kafka.happens(*change)
    written = kafka.ends[PARTITIONS[0]] - 1
    for _ in range(markers):
        kafka.happens("end a transaction", PARTITIONS[0], 0)
    found = marked(kafka, Place(Offsets(kafka.ends), NO_FLOOR)).marked[PARTITIONS[0]]
    assert (found.epoch, found.offset) == (kafka.present.epochs[PARTITIONS[0]], written)


def test_a_cluster_that_was_restored_and_counts_its_elections_again_is_another_one_where_it_is_always_compared() -> (
    None
):
    kafka = Cluster()
    kafka.happens("write", PARTITIONS[0], 20)
    place = marked(kafka, Place(Offsets(kafka.ends), NO_FLOOR))
    was = place.marked[PARTITIONS[0]]
    place = place.with_marks({PARTITIONS[0]: Mark(was.epoch, was.offset, "another record")})
    assert not compared(kafka, place, PARTITIONS).parted
    assert compared(kafka, place, PARTITIONS, always=True).parted == {PARTITIONS[0]: was.offset}


def test_a_place_that_moves_on_keeps_the_marks_of_partitions_that_stand_still() -> None:
    first, second = PARTITIONS
    stands = Place(Offsets({first: 5, second: 7}), NO_FLOOR).with_marks(
        {first: Mark(0, 4, "a"), second: Mark(0, 6, "b")}
    )
    moved = stands.updated(Place(Offsets({first: 6, second: 7}), NO_FLOOR))
    assert moved.marked == {second: Mark(0, 6, "b")}
    assert stands.updated(moved.with_marks({first: Mark(1, 5, "c")})).marked[first] == Mark(1, 5, "c")
