"""The documents beside a checkpoint."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from support.loop import a_range, place
from support.messages import naming

from airflow_provider_orderedkafka.core.batches import Allotment, Counts, Note, Setup, Tally
from airflow_provider_orderedkafka.core.documents import Kind, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import way_out
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.job import Job, Rows
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.application.report import report, summary
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState

NOTE = Note(1, 1, place(0), place(10), Offsets(), {})
SETUP = Setup("direct", 4, "key", "murmur2", None, "a reason", "MkU3OEVBNTcwNTJENDM2Qk", "", "murmur2")
JOB = Job(KafkaOutput("orders-ordered"), Rows(decode=Decode(value=Json("order long"))))
OTHERWISE, ELSEWHERE = replace(SETUP, transform="app:other"), replace(JOB, to=KafkaOutput("elsewhere"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    found = Checkpoint(LocalState(tmp_path))
    found.take_up(a_range())
    return found


def test_another_range_and_another_version_of_the_range_are_refused(checkpoint: Checkpoint) -> None:
    checkpoint.take_up(replace(a_range(), job="another job"))  # what was begun is compared by its job
    with pytest.raises(SettingError, match="'r2'"):
        checkpoint.take_up(replace(a_range(), id="r2"))
    with pytest.raises(SettingError, match="new --checkpoint"):
        checkpoint.take_up(replace(a_range(), batch_offsets=11))


def done(loaded: Range) -> Report:
    return report(loaded, None, 1, 0, 1)


@pytest.mark.parametrize(
    "theirs",
    [
        replace(a_range(), cluster_id="another cluster"),
        replace(a_range(), topics={"orders": "another id"}),
        replace(a_range(), planned_at=1_000_001),
        a_range(end=20),
    ],
    ids=["cluster", "topic", "moment", "end"],
)
def test_a_report_of_another_range_of_the_same_name_is_refused_and_a_new_checkpoint_leads_out(
    tmp_path: Path, theirs: Range
) -> None:
    found = Checkpoint(LocalState(tmp_path / "shared"))
    for its_report in (done(theirs), replace(done(theirs), complete=False)):
        found.put_report(its_report)
        with pytest.raises(SettingError, match="checkpoint="):
            found.take_up(a_range())
    found.put_report(done(theirs))
    with pytest.raises(SettingError, match="new --checkpoint"):
        found.proof(a_range())
    other = Checkpoint(LocalState(tmp_path / "own"))
    other.take_up(a_range())
    assert other.proof(a_range()) is None


def test_a_range_has_a_fingerprint_of_its_own_whatever_its_job() -> None:
    assert replace(a_range(), job="another job").fingerprint == a_range().fingerprint
    assert replace(a_range(), claim="orders-interval-1").fingerprint != a_range().fingerprint


def test_what_a_range_is_loaded_to_may_change_until_a_batch_is_noted_and_not_after(checkpoint: Checkpoint) -> None:
    checkpoint.set_up(SETUP, JOB)
    checkpoint.set_up(SETUP, ELSEWHERE)
    checkpoint.put_note(NOTE)
    checkpoint.set_up(SETUP, ELSEWHERE)
    with pytest.raises(SettingError, match="'elsewhere'"):
        checkpoint.set_up(SETUP, JOB)


def test_a_batch_is_continued_only_where_its_template_led_when_it_was_begun(checkpoint: Checkpoint) -> None:
    first, second = (replace(JOB, to=KafkaOutput(day), written="{{ ds }}") for day in ("01-31", "02-01"))
    checkpoint.set_up(SETUP, first)
    checkpoint.put_note(NOTE)
    with pytest.raises(SettingError, match=naming("to.topic ... '01-31' ... '02-01'")):
        checkpoint.set_up(SETUP, second)
    checkpoint.set_up(SETUP, replace(first, written="{{ params.day }}"))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_other_settings_than_a_batch_was_begun_with_are_refused_with_the_way_out_of_its_range(
    tmp_path: Path, kind: Kind
) -> None:
    found, loaded = Checkpoint(LocalState(tmp_path)), replace(a_range(), kind=kind)
    found.take_up(loaded)
    found.set_up(SETUP, JOB)
    found.put_note(NOTE)
    with pytest.raises(SettingError, match=re.escape(way_out(loaded))) as error:
        found.set_up(SETUP, ELSEWHERE)
    assert ("abandon" in str(error.value)) == (kind == "incremental")


class Interrupted(LocalState):
    """While this stands still before its touch of that number, somebody else does something."""

    def __init__(self, folder: Path, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(folder)
        self._left = at
        self._meanwhile = meanwhile

    def _touch(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._meanwhile()

    def put(self, name: str, text: str) -> None:
        self._touch()
        super().put(name, text)

    def get(self, name: str) -> str | None:
        self._touch()
        return super().get(name)

    def names(self, folder: str = "") -> list[str]:
        self._touch()
        return super().names(folder)


@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("late", [(OTHERWISE, JOB), (SETUP, ELSEWHERE)], ids=["setup", "job"])
def test_who_stands_still_as_it_sets_up_replaces_no_settings_that_a_batch_was_begun_with(
    tmp_path: Path, at: int, late: tuple[Setup, Job]
) -> None:
    def begin() -> None:
        another = Checkpoint(LocalState(tmp_path))
        another.set_up(SETUP, JOB)
        another.put_note(NOTE)

    Checkpoint(LocalState(tmp_path)).take_up(a_range())
    frozen = Checkpoint(Interrupted(tmp_path, at, begin))
    with suppress(SettingError):
        frozen.set_up(*late)
        assert frozen.note(1) is None, "what it did not begin"
    following = Checkpoint(LocalState(tmp_path))
    if following.note(1) is None:
        assert at > 0, "nobody stood still"
        return
    following.set_up(SETUP, JOB)
    with pytest.raises(SettingError, match="new --checkpoint"):
        Checkpoint(LocalState(tmp_path)).set_up(*late)


def test_the_note_of_the_newest_attempt_counts_whenever_an_older_one_writes_its_own(checkpoint: Checkpoint) -> None:
    older, newer = Checkpoint(checkpoint.state), Checkpoint(checkpoint.state)
    older.hold("000001-b")
    newer.hold("000002-a")
    newer.put_note(NOTE)
    older.put_note(replace(NOTE, attempt=7))
    assert older.note(1) == newer.note(1) == NOTE


def test_what_a_batch_was_begun_with_is_asked_for_where_it_was_deleted(checkpoint: Checkpoint) -> None:
    checkpoint.set_up(SETUP, JOB)
    checkpoint.put_note(NOTE)
    checkpoint.state.delete("setups")
    with pytest.raises(StateError, match="batch 1"):
        Checkpoint(checkpoint.state).set_up(replace(SETUP, writers=9), JOB)


@pytest.mark.parametrize("changes", [{"writers": 9}, {"lane": "frames", "placed": None}, {"cluster": ""}])
def test_the_way_there_may_change_at_any_time(checkpoint: Checkpoint, changes: Any) -> None:
    checkpoint.set_up(SETUP, JOB)
    checkpoint.put_note(NOTE)
    checkpoint.set_up(replace(SETUP, **changes), JOB)
    checkpoint.put_note(NOTE)
    checkpoint.set_up(replace(SETUP, **changes), JOB)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"transform": "app:other"}, "transform ... None ... 'app:other'"),
        ({"cluster": "another"}, "'MkU3OEVBNTcwNTJENDM2Qk' ... 'another'"),
        ({"partitioner": "random"}, "kafka.partitioner ... ORDEREDKAFKA_OPTIONS ... 'murmur2' ... 'random'"),
    ],
)
def test_a_program_s_own_transform_the_cluster_that_has_rows_and_what_places_them_are_kept(
    checkpoint: Checkpoint, changes: Any, said: str
) -> None:
    checkpoint.set_up(SETUP, JOB)
    checkpoint.put_note(NOTE)
    checkpoint.set_up(replace(SETUP, cluster="", partitioner=""), JOB)
    with pytest.raises(SettingError, match=naming(said)):
        checkpoint.set_up(replace(SETUP, **changes), JOB)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(JOB, rows=Rows()), "rows.decode was Decode"),
        (replace(JOB, to=KafkaOutput("orders-ordered", keep_order=None)), "to.keep_order ... 'key' ... None"),
        (replace(JOB, to=KafkaOutput("orders-ordered", use_partition=True)), "to.use_partition ... False ... True"),
    ],
)
def test_whatever_else_shapes_rows_is_kept_once_a_batch_is_noted_by_hand_too(
    checkpoint: Checkpoint, now: Job, said: str
) -> None:
    checkpoint.set_up(SETUP, now)
    checkpoint.set_up(SETUP, JOB)
    checkpoint.put_note(NOTE)
    with pytest.raises(SettingError, match=naming(said)):
        checkpoint.set_up(SETUP, now)
    tuned = replace(JOB, to=KafkaOutput("orders-ordered", writers=9))
    checkpoint.set_up(SETUP, tuned)


def test_how_far_the_row_limit_lets_a_batch_go_is_decided_once_by_whichever_attempt(checkpoint: Checkpoint) -> None:
    decided = Allotment(1, (5,), place(3), None)
    assert checkpoint.kept(decided) == decided
    assert checkpoint.kept(replace(decided, slices=(4,), end=place(2))) == decided
    assert checkpoint.allotment(1) == decided


def counts(batch: int, may_be_doubled: int = 0) -> Counts:
    total = Tally(may_be_doubled=may_be_doubled)
    return Counts(batch, total, total, batch, place(batch), limit_reached=False)


def held(checkpoint: Checkpoint, *terms: str) -> list[Checkpoint]:
    """The same checkpoint, as attempts with these leases have it."""
    found = [Checkpoint(checkpoint.state) for _ in terms]
    for each, term in zip(found, terms, strict=True):
        each.hold(term)
    return found


def test_of_a_batch_that_several_have_counted_the_counts_of_the_newest_attempt_hold(checkpoint: Checkpoint) -> None:
    older, newer = held(checkpoint, "000001-b", "000002-a")
    newer.put_note(NOTE)
    newer.put_counts(counts(1, may_be_doubled=3))
    older.put_counts(counts(1))
    assert older.counts() == newer.counts() == counts(1, may_be_doubled=3)
    for number in (2, 10, 9):
        newer.put_counts(counts(number))
    assert newer.counts() == counts(10)


def test_a_batch_that_a_newer_attempt_has_noted_since_is_not_counted_and_the_one_before_is(
    checkpoint: Checkpoint,
) -> None:
    older, newer = held(checkpoint, "000001-b", "000002-a")
    older.put_note(NOTE)
    older.put_counts(counts(1))
    newer.put_note(replace(NOTE, batch=2))
    older.put_counts(counts(2))
    assert newer.counts() == counts(1)
    newer.put_counts(counts(2, may_be_doubled=3))
    assert newer.counts() == counts(2, may_be_doubled=3)


def test_the_report_of_who_succeeded_first_holds_and_no_failure_takes_its_place(checkpoint: Checkpoint) -> None:
    first, second = done(a_range()), replace(done(a_range()), attempt=2)
    assert checkpoint.put_report(failed()) == checkpoint.report() == failed()
    assert checkpoint.put_report(first) == first
    assert checkpoint.put_report(second) == first
    checkpoint.put_report(failed())
    assert checkpoint.report() == checkpoint.proof(a_range()) == first
    assert checkpoint.proof(replace(a_range(), job="another job")) == first


class WithoutCreates(LocalState):
    """A store that cannot tell who of two was first."""

    def create(self, name: str, text: str) -> bool:
        raise SettingError(f"{name} cannot be created: {len(text)}")


def test_a_store_that_cannot_tell_who_was_first_holds_a_report_of_success_all_the_same(tmp_path: Path) -> None:
    found = Checkpoint(WithoutCreates(tmp_path))
    found.take_up(a_range())
    assert found.put_report(done(a_range())) == found.report() == done(a_range())
    assert found.put_report(replace(done(a_range()), attempt=2)) == done(a_range())


def test_who_is_done_deletes_nothing_in_the_folder_that_is_not_of_its_range(checkpoint: Checkpoint) -> None:
    others = ["ledger/000000000001.json", "range-000002-a1b2.json", "range-000002-a1b2/range.json", "mine.txt"]
    for name in others:
        checkpoint.state.put(name, "{}")
    checkpoint.set_up(SETUP, JOB)
    checkpoint.put_note(NOTE)
    checkpoint.put_report(done(a_range()))
    checkpoint.clean()
    assert [checkpoint.state.get(name) for name in others] == ["{}"] * len(others)
    assert set(checkpoint.state.names()) == {"report.json", *(name.partition("/")[0] for name in others)}


@pytest.mark.parametrize(
    "left", ["lease/000001-a.json", "notes/1.json", "counts/1.json", "report.json", "failure.json"]
)
def test_a_checkpoint_that_lost_its_range_but_not_all_the_rest_is_refused(tmp_path: Path, left: str) -> None:
    found = Checkpoint(LocalState(tmp_path))
    found.take_up(a_range())
    found.state.put(left, failed().to_text() if left in ("report.json", "failure.json") else "{}")
    found.state.delete("range.json")
    with pytest.raises(StateError, match="lost"):
        found.take_up(a_range())


def failed() -> Report:
    return report(a_range(), None, 1, 0, 1, error=StateError("the disk is full"))


def test_the_report_in_words_names_what_is_in_doubt() -> None:
    total = Tally(10, 6, dead_letters=4, replayed=4, may_be_doubled=3, may_be_out_of_order=2, lost=1)
    counts = Counts(1, total, total, 1, place(10), limit_reached=False)
    said = summary(a_range(), report(a_range(), counts, 1, 0, 1))
    for remark in (
        "4 kept as dead letters",
        "3 may be doubled",
        "2 may be out of order",
        "4 left out, already in the output",
        "1 lost to retention before they were read, at most",
    ):
        assert f"\n  {remark}\n" in said


@pytest.mark.parametrize("rows", [None, 5], ids=["whole", "as far as the row limit goes"])
@pytest.mark.parametrize(("kind", "goes_on"), [("incremental", True), ("interval", False), ("replay", False)])
def test_that_a_next_range_goes_on_from_there_is_said_of_no_range_that_stands_alone(
    kind: Kind, goes_on: bool, rows: int | None
) -> None:
    loaded = replace(a_range(), kind=kind, rows_left=rows)
    counts = Counts(1, Tally(), Tally(5, 5), 1, place(5 if rows else 10), limit_reached=rows is not None)
    of_ledger = report(replace(loaded, kind="incremental"), counts, 1, 0, 1)
    assert (report(loaded, counts, 1, 0, 1).advice == of_ledger.advice) is goes_on
    failed = report(loaded, counts, 1, 0, 1, error=SettingError("wrong"))
    assert ("abandon" in failed.advice) is goes_on


def test_nothing_is_noted_in_a_checkpoint_that_is_gone(checkpoint: Checkpoint) -> None:
    assert checkpoint.loss() is None
    for name in checkpoint.state.names():
        checkpoint.state.delete(name)
    with pytest.raises(StateError, match="gone"):
        checkpoint.put_note(NOTE)
    assert checkpoint.state.names() == []


def test_a_full_disk_is_an_error_that_says_what_is_safe_and_leaves_what_was_there(checkpoint: Checkpoint) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    checkpoint.hold("000001-a")
    folder = Path(checkpoint.location) / "notes" / "1"
    folder.mkdir(parents=True)
    (folder / "000001-a.json.partial").symlink_to(full)
    with pytest.raises(StateError, match=naming("000001-a.json")):
        checkpoint.put_note(NOTE)
    assert checkpoint.note(1) is None
    checkpoint.put_note(NOTE)
    assert checkpoint.note(1) == NOTE
