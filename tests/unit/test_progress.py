"""What a person sees of a run, on a terminal and in a log."""

import threading
from io import StringIO
from threading import Event

import pytest
from support.runs import a_range, place

from airflow_provider_orderedkafka.compat.spark import READ, ROWS, SHUFFLED, RunningNode
from airflow_provider_orderedkafka.core.batches import Counts, Planned, Tally
from airflow_provider_orderedkafka.core.order.cuts import Floor
from airflow_provider_orderedkafka.core.progress import AttemptStart, Progress, Within, progress
from airflow_provider_orderedkafka.spark.application.report import SILENCE, ProgressPrinter, watching
from airflow_provider_orderedkafka.spark.session.counting import UNIT, LastProgress, task_progress

NARROW = 80


class Terminal(StringIO):
    """What was printed on a terminal; `seen` is what a person sees of it."""

    def isatty(self) -> bool:
        return True

    @property
    def seen(self) -> list[str]:
        return [line.rsplit("\r", 1)[-1].replace("\x1b[K", "") for line in self.getvalue().split("\n")]


def counts(batch: int, *, of: int = 4, batch_offsets: int = 250) -> Counts:
    total = Tally(rows_read=batch * batch_offsets, rows_emitted=batch * batch_offsets)
    return Counts(batch, Tally(), total, batch, place(batch * batch_offsets), limit_reached=batch > of)


def planned(batch: int, *, about: bool = False) -> Planned:
    return Planned(batch, 4, about, (batch * 250,), Floor(), 250, 1_000 - batch * 250, None)


def shown(out: StringIO, *, batches: int) -> StringIO:
    printer = ProgressPrinter(a_range("r", 0, 0, 1_000), 1, out)
    printer.begin(0, None)
    for batch in range(1, batches + 1):
        printer.tell(counts(batch), planned(batch), batch * 60_000)
    printer.close()
    return out


def test_a_log_gets_a_sentence_and_a_line_for_programs_for_each_batch() -> None:
    first, second, *rest = shown(StringIO(), batches=2).getvalue().splitlines()
    assert first == "batch 1 of 4: 250 of 1,000 offsets (25%), 250 rows read, 250 written, 4 rows/s, about 3m left"
    found = Progress.of_line(second)
    assert found is not None
    assert (found.batches, found.about) == (4, False)
    assert (found.batch, found.offsets_done, found.seconds_left) == (1, 250, 180)
    assert len(rest) == 2


def test_how_many_batches_there_are_is_about_known_where_the_rest_is_not_planned_yet() -> None:
    begun = AttemptStart(a_range("r", 0, 0, 1_000), 1, 0, 0, 0)
    found = progress(begun, counts(1), planned(1, about=True), now=60_000)
    assert found.sentence.startswith("batch 1 of about 4: 250 of 1,000 offsets")


def test_a_terminal_shows_each_batch_once_above_a_bar_that_fits() -> None:
    out = shown(Terminal(), batches=4)
    assert isinstance(out, Terminal)
    *sentences, bar, after = out.seen
    assert [sentence.split(":")[0] for sentence in sentences] == [f"batch {n} of 4" for n in range(1, 5)]
    assert bar == "[##############################] 100%"
    assert after == ""
    assert "\r" in out.getvalue()
    assert all(len(line) < NARROW for line in out.getvalue().replace("\r", "\n").splitlines() if line.startswith("["))


def test_what_is_said_after_a_failure_does_not_stand_behind_the_bar() -> None:
    out = shown(Terminal(), batches=1)
    print("it failed", file=out)
    assert isinstance(out, Terminal)
    assert out.seen[-3:] == ["[########......................] 25%, about 3m left", "it failed", ""]


def test_an_attempt_that_came_to_no_batch_leaves_no_empty_line() -> None:
    assert shown(Terminal(), batches=0).getvalue() == ""


def looked(out: StringIO, seconds: int, *, doing: str | Planned) -> StringIO:
    """A printer that looks each second after a batch."""
    printer = ProgressPrinter(a_range("r", 0, 0, 1_000), 1, out)
    printer.begin(0, None)
    printer.tell(counts(1), planned(1), 1_000)
    for second in range(2, seconds + 2):
        within = Within(second / 100, second * 2, 0, 40, 12)
        printer.look(doing, lambda _, within=within: within, second * 1_000)
    printer.close()
    return out


def test_a_batch_that_takes_long_says_how_far_it_is_every_10_seconds() -> None:
    _, _, *lines = looked(StringIO(), 25, doing=planned(2)).getvalue().splitlines()
    assert lines[::2] == [
        "batch 2 of 4 runs for 9s, 12 of 40 tasks done: 278 of 1,000 offsets read (28%), 272 rows read, 250 written, "
        "25 rows/s, about 29s left",
        "batch 2 of 4 runs for 19s, 12 of 40 tasks done: 302 of 1,000 offsets read (30%), 292 rows read, 250 written, "
        "14 rows/s, about 49s left",
    ]
    found = [Progress.of_line(line) for line in lines[1::2]]
    assert [(each.batch, each.running, each.rows_read, each.rows_per_second) for each in found if each is not None] == [
        (2, 9, 272, 25),
        (2, 19, 292, 14),
    ]


def test_nothing_is_said_of_a_batch_as_of_one_that_runs_once_it_is_counted() -> None:
    told_once = looked(Terminal(), 0, doing=planned(1)).getvalue()
    assert looked(Terminal(), 25, doing=planned(1)).getvalue() == told_once


def test_a_long_wait_says_what_is_waited_for() -> None:
    _, _, *lines = looked(StringIO(), 25, doing="Spark is starting").getvalue().splitlines()
    assert lines == ["Spark is starting, for 9s so far", "Spark is starting, for 19s so far"]


def test_several_things_in_turn_are_no_longer_silence_than_one() -> None:
    out = StringIO()
    printer = ProgressPrinter(a_range("r", 0, 0, 1_000), 1, out)
    for second in range(60):
        printer.look(f"step {second // 15}", lambda _: None, second * 1_000)
    said = ["step 0, for 10s", "step 1, for 5s", "step 2, for 0s", "step 2, for 10s", "step 3, for 5s"]
    assert out.getvalue().splitlines() == [f"{each} so far" for each in said]


def test_a_batch_that_is_done_soon_says_nothing_of_itself_before() -> None:
    assert len(looked(StringIO(), SILENCE // 1_000 - 1, doing=planned(2)).getvalue().splitlines()) == 2


def test_on_a_terminal_the_bar_moves_while_a_batch_is_loaded() -> None:
    out = looked(Terminal(), 45, doing=planned(2))
    assert isinstance(out, Terminal)
    sentence, bar, after = out.seen
    assert sentence.startswith("batch 1 of 4:")
    assert bar == "[###########...................] 36%, about 1m20s left"
    assert after == ""
    assert len(bar) < NARROW


def test_a_watch_goes_on_after_a_look_that_failed_and_ends_with_what_it_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_provider_orderedkafka.spark.application.report.LOOK_SECONDS", 0.01)
    looks: list[int] = []
    twice = Event()

    def look() -> None:
        looks.append(1)
        if len(looks) > 1:
            twice.set()
        raise OSError("the JVM is gone")

    with watching(look):
        assert twice.wait(10)
        [watch] = [thread for thread in threading.enumerate() if thread.name == "orderedkafka-progress"]
    watch.join(10)
    assert not watch.is_alive()


SLICES = RunningNode("Range (0, 10, step=1, splits=10)", {ROWS: 4})
RECORDS = RunningNode("MapInArrow ReadRecords(id#0L)#1, [key#2], false", {ROWS: 30_000})
SEVERAL = RunningNode("MapInArrow ReadSeveral(id#0L)#1, [key#2], false", {ROWS: 900_000})
WRITING = RunningNode("MapInArrow TaskWithProgress(key#2)#3, [found#4], false", {ROWS: 20})
SHUFFLE = RunningNode("Exchange hashpartitioning(key#2, 2), REPARTITION_BY_NUM", {SHUFFLED: 30_000, READ: 15_000})


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([SLICES, RECORDS], Within(0.3, 30_000, 0)),
        ([SLICES, RECORDS, WRITING], Within(0.3, 30_000, 20 * UNIT)),
        ([SLICES, RECORDS, SHUFFLE, WRITING], Within((0.3 + 0.5) / 2, 30_000, 20 * UNIT)),
        ([SLICES, SEVERAL], Within(0.3, 30_000, 900_000)),
        ([SLICES, WRITING], Within(0.2, 20 * UNIT, 0)),
        ([SLICES, RunningNode(RECORDS.text, {})], Within(0.0, 0, 0)),
        ([RunningNode("Range (0, 2, step=1, splits=2)", {ROWS: 2})], None),
    ],
    ids=["to a table", "by one writer", "by several", "several rows each", "in one task", "nothing yet", "no batch"],
)
def test_how_far_a_batch_is_by_what_spark_has_counted(nodes: list[RunningNode], expected: Within | None) -> None:
    assert task_progress([[RunningNode("Scan text", {ROWS: 1})], nodes], 100_000) == expected


@pytest.mark.parametrize("ended", [0, 15, 20, 21])
@pytest.mark.parametrize("nodes", [[SLICES, RECORDS, WRITING], [SLICES, WRITING]], ids=["by writers", "in one task"])
def test_what_a_task_came_to_as_it_ended_is_no_row_that_was_written(nodes: list[RunningNode], ended: int) -> None:
    """One that ended before Spark has counted its row takes nothing from the others for long."""
    found = task_progress([nodes], 100_000, ended)
    assert found is not None
    assert (found.written if RECORDS in nodes else found.read) == max(20 - ended, 0) * UNIT


def test_what_was_heard_of_a_batch_is_said_of_no_other() -> None:
    heard_of, some = LastProgress(), Within(0.5, 50, 40)
    assert heard_of.of(1, None) == Within()
    assert heard_of.of(1, some) == heard_of.of(1, None) == some
    assert heard_of.of(2, None) == Within()
    assert heard_of.of(2, some) == some
    assert heard_of.of(1, None) == Within()


def test_a_batch_goes_on_from_where_it_was_while_spark_has_counted_less_than_before() -> None:
    heard_of, some = LastProgress(), Within(0.5, 50, 40)
    less, more = Within(0.4, 60, 20), Within(0.6, 60, 50)
    assert heard_of.of(1, some) == heard_of.of(1, less) == heard_of.of(1, Within()) == some
    assert heard_of.of(1, more) == more


def test_more_rows_than_offsets_are_no_more_than_the_whole_batch() -> None:
    found = task_progress([[RECORDS]], 10_000)
    assert found is not None
    assert found.share == 1
