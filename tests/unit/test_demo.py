"""The demo's judgement catches what it must, its summary fits the screen, and its directory is nobody else's."""

import io
import signal
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from support.plain import plain_report

from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools import cli
from airflow_provider_orderedkafka.tools.demo import command
from airflow_provider_orderedkafka.tools.demo.place import Place as Directory
from airflow_provider_orderedkafka.tools.demo.play import Play
from airflow_provider_orderedkafka.tools.demo.reading import Reading
from airflow_provider_orderedkafka.tools.demo.runs import environment
from airflow_provider_orderedkafka.tools.demo.screen import Screen, remembered
from airflow_provider_orderedkafka.tools.demo.story import LANES, Length, chapter, order_times, right_order
from airflow_provider_orderedkafka.tools.demo.summary import summary
from airflow_provider_orderedkafka.tools.demo.verdict import Loaded, Order, Told, judge

BEGIN = 1_700_000_000_000
CHAPTERS = [chapter(7, Length(3_000, 180), 0, BEGIN), chapter(7, Length(1_000, 20, 0.01), 3_000, BEGIN + 190_000)]


def report(rows, late, floor):
    stop = Place(Offsets(), Floor(floor))
    return plain_report(stop=stop, batches=1, rows_read=rows, rows_emitted=rows, late=late, ended_at=2_000)


def runs():
    floors = [0, BEGIN + 190_000]
    late = [
        int((told.times < order_times(told, [floor] * len(LANES))).sum())
        for told, floor in zip(CHAPTERS, floors, strict=True)
    ]
    return [Loaded(20.0, report(len(told), found, BEGIN + 190_000)) for told, found in zip(CHAPTERS, late, strict=True)]


TOLD = Told.of(CHAPTERS, runs())
RIGHT = right_order(TOLD.lanes, TOLD.order_times)


def reading(events):
    return Reading(events, TOLD.times[events], 1.0, {("orders", 0): 4_002})


def broken(output):
    return judge(TOLD, reading(np.arange(4_000)), output, runs()).broken


def test_the_right_output_keeps_every_promise():
    assert broken(reading(RIGHT)) == ()


def test_two_neighbours_in_the_wrong_order_are_caught():
    swapped = RIGHT.copy()
    swapped[[2_000, 2_001]] = swapped[[2_001, 2_000]]
    assert any("a plain sort" in sentence for sentence in broken(reading(swapped)))


def test_a_missing_event_is_caught():
    assert "1 of 4,000 events are missing from the output" in broken(reading(np.delete(RIGHT, 1_234)))


def test_an_event_that_came_twice_is_caught():
    doubled = np.insert(RIGHT, 500, RIGHT[500])
    assert "1 events are in the output more than once" in broken(reading(doubled))


def test_a_changed_timestamp_is_caught():
    changed = reading(RIGHT)
    changed.times[7] += 1
    assert broken(changed) == ("timestamps were changed on the way",)


def test_a_report_that_counts_wrong_is_caught():
    wrong = runs()
    wrong[0] = replace(wrong[0], report=replace(wrong[0].report, late=wrong[0].report.late + 1))
    assert len(judge(TOLD, reading(RIGHT), reading(RIGHT), wrong).broken) == 1


def test_rows_behind_a_later_one_and_the_places_where_time_runs_backwards_are_counted():
    assert Order.of(np.array([1, 5, 2, 3, 6, 4])) == Order(rows=6, behind=3, violations=2, furthest_ms=3)
    assert Order.of(np.array([1, 1, 2])) == Order(rows=3, behind=0, violations=0, furthest_ms=0)


@pytest.mark.parametrize("output", [RIGHT, RIGHT[:-1]])
def test_the_summary_fits_a_screen_and_says_what_is_wrong(output):
    verdict = judge(TOLD, reading(np.arange(4_000)), reading(output), runs())
    text = summary(verdict)
    assert max(map(len, text.splitlines())) <= 100
    assert all(sentence in text for sentence in verdict.broken)
    assert "4,002, 2 of them without a record" in text


def test_no_colour_and_no_control_characters_where_no_terminal_is():
    stream = io.StringIO()
    screen = Screen(stream)
    with screen.step("name", "begins") as step:
        step.tell("x" * 200)
    line, end = stream.getvalue()[:-1], stream.getvalue()[-1]
    assert end == "\n"
    assert line.isprintable()
    assert len(line) <= 100


def test_what_nobody_should_miss_is_said_at_once_and_what_is_told_often_is_not():
    stream = io.StringIO()
    with Screen(stream).step("broker", "starting") as step:
        step.announce("Fetching")
        for done in range(1_000):
            step.tell(f"{done} of 1,000")
    announced, last = stream.getvalue().splitlines()
    assert announced.strip() == "Fetching"
    assert "999 of 1,000" in last


def test_a_step_that_fails_says_so_and_lets_the_error_through():
    stream = io.StringIO()
    with pytest.raises(OSError, match="gone"), Screen(stream).step("name", "works"):
        raise OSError("gone")
    assert "aborted: works" in stream.getvalue()


def test_an_interrupt_that_somebody_swallowed_aborts_the_step():
    with remembered() as check:
        screen = Screen(io.StringIO(), check)
        with pytest.raises(KeyboardInterrupt), screen.step("shop", "opens"), suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), screen.step("plain reader", "begins"):
            pytest.fail("no step begins after it")
    assert "aborted: opens" in screen.stream.getvalue()


def test_a_directory_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "kafka").mkdir()
    with pytest.raises(SettingError, match="holds something else than a demo"), Directory.claim(tmp_path):
        pass
    assert (tmp_path / "kafka").is_dir()


def test_what_an_earlier_demo_left_is_replaced(tmp_path):
    with Directory.claim(tmp_path / "demo") as place:
        place.kafka.mkdir()
        place.note("earlier")
    with Directory.claim(tmp_path / "demo") as place:
        assert not place.kafka.exists()
        assert not place.log.exists()


def test_two_demos_never_share_a_directory(tmp_path):
    with (
        Directory.claim(tmp_path / "demo"),
        pytest.raises(SettingError, match="a demo is running"),
        Directory.claim(tmp_path / "demo"),
    ):
        pass


def test_too_few_events_are_refused_with_the_least(tmp_path):
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(SettingError, match="expected 48000 or more"):
        command.run(parser.parse_args(["--events", "100", "--directory", str(tmp_path / "demo")]))
    assert not (tmp_path / "demo").exists()


def test_no_other_airflow_and_no_other_spark_reach_the_demo(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://production")
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    found = environment(tmp_path, "127.0.0.1:1")
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" not in found
    assert "SPARK_HOME" not in found
    assert found["AIRFLOW_HOME"] == str(tmp_path)


@pytest.mark.parametrize(("kept", "code"), [(True, 0), (False, 65)])
def test_the_exit_code_says_whether_every_promise_was_kept(monkeypatch, tmp_path, kept, code):
    monkeypatch.setattr(Play, "run", lambda _: kept)
    assert cli.main(["demo", "--directory", str(tmp_path / "demo")]) == code
