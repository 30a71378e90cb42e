"""What a person sees of a run, on a terminal and in a log."""

from io import StringIO

from support.runs import a_range, place

from airflow_provider_orderedkafka.core.batches import Counts, Tally
from airflow_provider_orderedkafka.core.order.cuts import Floor
from airflow_provider_orderedkafka.core.plan import Planned
from airflow_provider_orderedkafka.core.progress import AttemptStart, Progress, progress
from airflow_provider_orderedkafka.spark.application.progress import ProgressPrinter

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
