"""What a person sees of a run, on a terminal and in a log."""

import threading
from io import StringIO
from threading import Event

import pytest
from support.runs import a_range, place

from airflow_provider_orderedkafka.core.batches import Counts, Tally
from airflow_provider_orderedkafka.core.order.cuts import Floor
from airflow_provider_orderedkafka.core.plan import Planned
from airflow_provider_orderedkafka.core.progress import AttemptStart, Progress, Tasks, progress
from airflow_provider_orderedkafka.spark.application.progress import SILENCE, ProgressPrinter, Watch

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
    return Counts(batch, Tally(), total, batch, place(batch * batch_offsets), limit_spent=batch > of)


def planned(batch: int, *, about: bool = False) -> Planned:
    return Planned(batch, 4, about, (batch * 250,), Floor(), 250, 1_000 - batch * 250, None)


def told(out: StringIO, *, batches: int) -> StringIO:
    printer = ProgressPrinter(a_range("r", 0, 0, 1_000), 1, None, out)
    printer.begin(0)
    for batch in range(1, batches + 1):
        printer.tell(counts(batch), planned(batch), batch * 60_000)
    printer.close()
    return out


def test_a_log_gets_a_sentence_and_a_line_for_programs_for_each_batch() -> None:
    first, second, *rest = told(StringIO(), batches=2).getvalue().splitlines()
    assert first == "batch 1 of 4: 250 of 1,000 offsets (25%), 250 rows read, 250 written, 4 rows/s, about 3m left"
    found = Progress.of_line(second)
    assert found is not None
    assert (found.batches, found.about) == (4, False)
    assert (found.batch, found.offsets_done, found.seconds_left) == (1, 250, 180)
    assert len(rest) == 2


def test_how_many_batches_there_are_is_about_known_where_the_rest_is_not_planned_yet() -> None:
    found = progress(a_range("r", 0, 0, 1_000), 1, counts(1), planned(1, about=True), AttemptStart(0, 0, 0), now=60_000)
    assert found.sentence.startswith("batch 1 of about 4: 250 of 1,000 offsets")


def test_a_terminal_shows_each_batch_once_above_a_bar_that_fits() -> None:
    out = told(Terminal(), batches=4)
    assert isinstance(out, Terminal)
    *sentences, bar, after = out.seen
    assert [sentence.split(":")[0] for sentence in sentences] == [f"batch {n} of 4" for n in range(1, 5)]
    assert bar == "[##############################] 100%"
    assert after == ""
    assert "\r" in out.getvalue()
    assert all(len(line) < NARROW for line in out.getvalue().replace("\r", "\n").splitlines() if line.startswith("["))


def test_what_is_said_after_a_failure_does_not_stand_behind_the_bar() -> None:
    out = told(Terminal(), batches=1)
    print("it failed", file=out)
    assert isinstance(out, Terminal)
    assert out.seen[-3:] == ["[########......................] 25%, about 3m left", "it failed", ""]


def test_an_attempt_that_came_to_no_batch_leaves_no_empty_line() -> None:
    assert told(Terminal(), batches=0).getvalue() == ""


def looked(out: StringIO, seconds: int, *, doing: str | Planned) -> StringIO:
    """A printer that looks each second after a batch."""
    printer = ProgressPrinter(a_range("r", 0, 0, 1_000), 1, None, out)
    printer.begin(0)
    printer.tell(counts(1), planned(1), 1_000)
    for second in range(2, seconds + 2):
        printer.look(doing, lambda: Tasks(12, 40), second * 1_000)
    printer.close()
    return out


def test_a_batch_that_takes_long_says_how_far_it_is_every_20_seconds() -> None:
    _, _, *lines = looked(StringIO(), 45, doing=planned(2)).getvalue().splitlines()
    assert lines[::2] == [
        f"batch 2 of 4 runs for {seconds}s, 12 of 40 tasks done: 250 of 1,000 offsets (25%), 250 rows read, 250 written"
        for seconds in (19, 39)
    ]
    found = [Progress.of_line(line) for line in lines[1::2]]
    assert [(each.batch, each.running, each.tasks_done, each.tasks) for each in found if each is not None] == [
        (2, 19, 12, 40),
        (2, 39, 12, 40),
    ]


def test_a_long_wait_says_what_is_waited_for() -> None:
    _, _, *lines = looked(StringIO(), 45, doing="Spark is starting").getvalue().splitlines()
    assert lines == ["Spark is starting, for 19s so far", "Spark is starting, for 39s so far"]


def test_several_things_in_turn_are_no_longer_silence_than_one() -> None:
    out = StringIO()
    printer = ProgressPrinter(a_range("r", 0, 0, 1_000), 1, None, out)
    for second in range(60):
        printer.look(f"step {second // 15}", lambda: None, second * 1_000)
    assert out.getvalue().splitlines() == ["step 1, for 5s so far", "step 2, for 10s so far"]


def test_a_batch_that_is_done_soon_says_nothing_of_itself_before() -> None:
    assert len(looked(StringIO(), SILENCE // 1_000 - 1, doing=planned(2)).getvalue().splitlines()) == 2


def test_on_a_terminal_the_bar_moves_while_a_batch_is_loaded() -> None:
    out = looked(Terminal(), 45, doing=planned(2))
    assert isinstance(out, Terminal)
    sentence, bar, after = out.seen
    assert sentence.startswith("batch 1 of 4:")
    assert bar == "[########......................] 25%, batch 2 runs for 44s, 12 of 40 tasks done"
    assert after == ""
    assert len(bar) < NARROW


def test_a_watch_goes_on_after_a_look_that_failed_and_ends_with_what_it_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_provider_orderedkafka.spark.application.progress.LOOK_SECONDS", 0.01)
    looks: list[int] = []
    twice = Event()

    def look() -> None:
        looks.append(1)
        if len(looks) > 1:
            twice.set()
        raise OSError("the JVM is gone")

    with Watch(look):
        assert twice.wait(10)
        [watch] = [thread for thread in threading.enumerate() if thread.name == "orderedkafka-progress"]
    watch.join(10)
    assert not watch.is_alive()
