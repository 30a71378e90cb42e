"""Intervals and replays under a real Airflow. The application is a quick one."""

from datetime import UTC, datetime, timedelta

from support.bench import steps_of

from airflow_provider_orderedkafka.compat.airflow import has_asset_state
from airflow_provider_orderedkafka.tools.commands.at_airflow import MetadataStore

HOUR = 3_600_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
HOURLY = 'CronDataIntervalTimetable("@hourly", timezone="UTC")'


def interval_of(run):
    return run.data_interval_start, run.data_interval_end


def offsets_loaded(bench):
    return [entry["offsets"] for entry in bench.diary]


def newest_on_the_page(load):
    """The state of the newest range, as the page is told."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    if has_asset_state():
        return MetadataStore(load).get("status")["ranges"][-1]["state"]
    asked = select(AssetEvent).join(AssetModel, AssetEvent.asset_id == AssetModel.id).order_by(AssetEvent.id)
    with create_session() as session:
        events = session.scalars(asked.where(AssetModel.uri == f"orderedkafka://status/{load}"))
        return [event.extra["status"] for event in events if "status" in event.extra][-1]["ranges"][-1]["state"]


def test_intervals_load_their_own_records_in_any_order_and_a_late_one_is_in_exactly_one(bench, ledger_of):
    for hour, count in enumerate((3, 4, 5)):
        bench.write(count, NOON_MS + hour * HOUR)
    dag = bench.dag(schedule=HOURLY, group="ordered_intervals")
    second = dag.test(logical_date=NOON + timedelta(hours=2, minutes=1))
    assert interval_of(second) == (NOON + timedelta(hours=1), NOON + timedelta(hours=2))
    bench.write(1, NOON_MS + 1)  # late for the first hour: it stands behind the third, and stays there
    dag.test(logical_date=NOON + timedelta(hours=1, minutes=1))
    dag.test(logical_date=NOON + timedelta(hours=3, minutes=1))
    assert offsets_loaded(bench) == [4, 3, 6]
    assert ledger_of(bench.load) is None


def test_a_cleared_interval_emits_its_event_again_or_is_reloaded_whole_as_its_load_says(bench, states):
    bench.write(3, NOON_MS)
    at = NOON + timedelta(hours=1, minutes=1)
    same_run = {"logical_date": at, "run_after": at}
    bench.dag(schedule=HOURLY, group="ordered_intervals").test(**same_run)
    again = bench.dag(schedule=HOURLY, group="ordered_intervals").test(**same_run)
    expected = {"wait": "success", "resolve": "success", "load": "skipped", "commit": "success"}
    assert steps_of(bench, states(again)) == expected
    assert newest_on_the_page(bench.load) == "committed"
    bench.write(2, NOON_MS + 5)
    reload = {"arguments": 'on_clear="reload"', "group": "ordered_intervals"}
    bench.dag(schedule=HOURLY, **reload).test(**same_run)
    assert offsets_loaded(bench) == [3, 3]
    assert len({entry["range"] for entry in bench.diary}) == 1


def test_an_hour_is_loaded_once_whichever_runs_are_asked_for_it(bench, states):
    bench.write(3, NOON_MS)
    dag = bench.dag(schedule=HOURLY, group="ordered_intervals")
    runs = [dag.test(logical_date=NOON + timedelta(minutes=minutes)) for minutes in (61, 75, 90)]
    assert {interval_of(run) for run in runs} == {(NOON, NOON + timedelta(hours=1))}
    assert offsets_loaded(bench) == [3]
    assert [run.state for run in runs] == ["success"] * 3
    assert [steps_of(bench, states(run))["commit"] for run in runs] == ["success", "skipped", "skipped"]


def test_an_hour_that_a_run_began_and_did_not_end_is_finished_by_another_one(bench, states):
    bench.write(3, NOON_MS)
    bench.order("fail", "work")
    dag = bench.dag(schedule=HOURLY, group="ordered_intervals")
    runs = [dag.test(logical_date=NOON + timedelta(minutes=minutes)) for minutes in (61, 75)]
    assert [steps_of(bench, states(run))["load"] for run in runs] == ["failed", "success"]
    assert [entry["attempt"] for entry in bench.diary] == [1, 2]
    assert len({entry["range"] for entry in bench.diary}) == 1


def test_a_replay_loads_what_the_form_says_and_moves_no_ledger(bench, ledger_of):
    bench.write(9)
    arguments = 'start="{{ dag_run.conf.start }}", end="latest",'
    bench.dag(arguments=arguments, group="ordered_replay").test(run_conf={"start": f'{{"{bench.topic}": [4]}}'})
    assert offsets_loaded(bench) == [5]
    assert ledger_of(bench.load) is None


def test_what_is_committed_is_not_started_elsewhere_again(bench, states, tmp_path):
    bench.write(5)
    arguments = f"spark=by_shell, checkpoint={str(tmp_path)!r}, start='earliest', end='latest'"
    dag = bench.dag(arguments=arguments, group="ordered_replay", first="from support.services import by_shell")
    when = {"logical_date": NOON, "run_after": NOON}
    assert dag.test(**when).state == "success"
    assert steps_of(bench, states(dag.test(**when))) == {"resolve": "success", "load": "skipped", "commit": "success"}
    assert len(bench.diary) == 1


def test_a_replay_larger_than_its_maximum_is_refused(bench, states):
    bench.write(9)
    dag = bench.dag(settings="max_offsets=5", arguments='start="earliest", end="latest"', group="ordered_replay")
    assert steps_of(bench, states(dag.test()))["resolve"] == "failed"
    assert bench.diary == []
