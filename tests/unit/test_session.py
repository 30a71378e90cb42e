"""Which sessions a load may run in."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.session.starting import (
    ONE_ATTEMPT,
    LazySession,
    check_location,
    check_session,
    few_lines,
)


def session(master: str, **settings: str) -> Any:
    found = {name: settings.get(name.rsplit(".", 1)[1], value) for name, value in ONE_ATTEMPT.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: found))


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,1]", "spark://h:7077", "yarn"])
def test_a_session_that_tries_each_task_once_is_taken(master: str) -> None:
    check_session(session(master))


def test_what_a_local_master_does_not_look_at_is_no_reason_to_refuse_it() -> None:
    check_session(session("local[2]", maxFailures="4"))


def test_a_session_that_would_run_a_task_twice_is_refused_with_the_setting_to_change() -> None:
    with pytest.raises(SettingError, match="maxFailures='4'"):
        check_session(session("yarn", maxFailures="4"))
    with pytest.raises(SettingError, match=r"'local\[2,3\]'"):
        check_session(session("local[2,3]"))


def test_a_session_that_is_refused_is_an_error_where_it_is_needed_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "airflow_provider_orderedkafka.spark.session.starting.start_session", lambda _: session("local[2,3]")
    )
    spark = LazySession()
    spark.begin()
    for _ in range(2):
        with pytest.raises(SettingError, match=r"'local\[2,3\]'"):
            spark.started()
    assert spark.there() is None
    spark.stop()


def test_a_session_is_started_once_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Any] = []
    go = Event()

    def start(_: Any) -> Any:
        assert go.wait(30)
        starts.append(session("local[2]"))
        return starts[-1]

    monkeypatch.setattr("airflow_provider_orderedkafka.spark.session.starting.start_session", start)
    spark = LazySession()
    spark.begin()
    assert spark.there() is None
    spark.stop()  # does not wait for it
    assert not starts
    go.set()
    assert spark.started() is spark.started() is spark.there() is starts[0]
    assert len(starts) == 1


def test_what_a_session_has_spent_is_not_known_where_its_java_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    start = "airflow_provider_orderedkafka.spark.session.starting"
    monkeypatch.setattr(f"{start}.start_session", lambda _: session("local[2]"))
    for before in (True, False):
        monkeypatch.setattr(f"{start}.context_runs", lambda before=before: before)
        assert LazySession().spent() is None


def test_on_a_terminal_spark_says_less_unless_it_was_asked_to_say_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_nothing: Any = SimpleNamespace(contains=lambda _name: False)
    asked: Any = SimpleNamespace(contains=lambda name: name == "spark.log.level")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert few_lines(asked_nothing) == {"spark.log.level": "WARN"}
    assert few_lines(asked) == {}
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert few_lines(asked_nothing) == {}


def test_a_driver_on_the_cluster_keeps_no_checkpoint_on_its_own_disk() -> None:
    in_cluster_mode = SimpleNamespace(
        sparkContext=SimpleNamespace(getConf=lambda: {"spark.submit.deployMode": "cluster"})
    )
    check_location(in_cluster_mode, "hdfs://name/checkpoints")
    check_location(session("local[2]"), "/data/checkpoints")
    with pytest.raises(SettingError, match="file:///data"):
        check_location(in_cluster_mode, "file:///data/checkpoints")
