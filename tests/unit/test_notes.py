"""What is noted of a batch before it is written, and what nobody could know of it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.interleaving import Killed
from support.loop import World, place

from airflow_provider_orderedkafka.core.batches import Doubt, Note, Tally
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    return partial(World.at, tmp_path)


def test_what_a_try_could_not_know_is_noted_before_it_writes_and_kept_over_kills(world) -> None:
    w = world()
    doubt = Doubt(landed=2, doubtful=3, settled=False, known=False)
    w.writer.output.doubts = [doubt]
    w.writer.failures = [Killed(), Killed()]
    for _ in range(2):
        with pytest.raises(Killed):
            w.run()
    assert w.checkpoint.note(1).doubts == (doubt,)
    w.run()
    assert w.checkpoint.note(1).in_doubt(10) == Tally(may_be_doubled=3 + 8, may_be_out_of_order=8)


@pytest.mark.parametrize(("noted", "now", "used"), [(1, 2, 1), (2, 2, 2), (3, 2, 2)])
def test_an_output_that_was_made_anew_is_read_whole_and_keys_stay_in_the_partitions_that_were_noted(noted, now, used):
    out = [TopicPartition("out", number) for number in range(4)]
    note = Note(1, 1, place(0), place(9), Offsets(dict.fromkeys(out[:noted], 7)), {"out": "id"})
    again = note.joined(Offsets(dict.fromkeys(out[:now], 5)), {"out": "another"}, "")
    assert (dict(again.outputs), again.output_ids) == (dict.fromkeys(out[:used], 0), {"out": "another"})
    assert again.joined(Offsets(dict.fromkeys(out, 8)), {"out": "another"}, "").partitions == {"out": used}


def test_of_an_output_that_was_cut_off_all_is_new_behind_its_present_end() -> None:
    first, other = TopicPartition("out", 0), TopicPartition("out", 1)
    note = Note(1, 1, place(0), place(9), Offsets({first: 5, other: 5}), {"out": "id"})
    found = note.joined(Offsets({first: 2, other: 8}), {"out": "id"}, "")
    assert found.outputs == Offsets({first: 2, other: 5})


def test_an_output_that_one_attempt_did_not_know_to_be_uncompacted_is_not_known_to_be_so_any_more() -> None:
    found, ids = Note(1, 1, place(0), place(9), Offsets(), {}), {"out": "id", "other": "id"}
    for known in (["out", "other"], ["out"], ["out", "other", "later"]):
        found = found.joined(Offsets(), {**ids, **({"later": "id"} if "later" in known else {})}, "", known)
    assert found.uncompacted == ("later", "out")
    of_another_attempt = Note(1, 1, place(0), place(9), Offsets(), {"out": "id"})
    assert of_another_attempt.joined(Offsets(), ids, "", ["out"]).uncompacted == ()


def test_an_output_that_is_named_later_is_noted_with_its_ends_before_it_is_written(world) -> None:
    w = world()
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    w.writer.output.later = {"dead": "another"}
    w.run()
    assert w.checkpoint.note(1).output_ids == {"out": "id", "dead": "another"}


def test_a_topic_that_grew_since_keeps_the_partitions_and_ends_that_were_noted() -> None:
    first, later, dead = TopicPartition("out", 0), TopicPartition("out", 1), TopicPartition("dead", 0)
    note = Note(1, 1, place(0), place(10), Offsets({first: 5}), {"out": "id"})
    found = note.joined(Offsets({first: 9, later: 7, dead: 4}), {"out": "id", "dead": "another"}, "abc")
    assert found.outputs == Offsets({first: 5, dead: 4})
    assert found.partitions == {"out": 1, "dead": 1}
    assert found.code == ("abc",)


def sure(landed: int, gone: int = 0) -> Doubt:
    return Doubt(landed, gone, settled=True, known=not gone)


def unsettled(landed: int, gone: int = 0) -> Doubt:
    return Doubt(landed, gone, settled=False, known=not gone)


@pytest.mark.parametrize(
    ("tries", "doubled", "disordered"),
    [
        ([], 0, 0),
        ([sure(40, gone=3)], 3, 60),
        ([unsettled(40)], 60, 60),
        ([unsettled(40), unsettled(70)], 60, 60),
        ([sure(40, gone=3), sure(70, gone=5)], 5, 60),
        ([unsettled(40), sure(70, gone=5)], 65, 60),
    ],
)
def test_what_one_try_could_not_know_is_in_doubt_once_though_the_next_one_could(
    tries: list[Doubt], doubled: int, disordered: int
) -> None:
    note = Note(1, 1, place(0), place(10), Offsets(), {})
    for doubt in tries:
        note = note.doubted(doubt)
    found = note.in_doubt(100)
    assert (found.may_be_doubled, found.may_be_out_of_order) == (doubled, disordered)
