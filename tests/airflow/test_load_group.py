"""A load's task group under `dag.test()`: retries, clears, skips, take-overs. The application is a quick one."""

from pathlib import Path

from support.bench import steps_of
from support.messages import says


def test_a_run_loads_what_is_there_and_the_ledger_says_so(bench, states, ledger_of):
    bench.write(5)
    run = bench.dag().test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    ledger = ledger_of(bench.load)
    assert (ledger.revision, ledger.rows_emitted, list(ledger.place.offsets.values())) == (1, 5, [5])
    owner, _, _ = ledger.outcomes[-1].by.partition("@")  # of a ledger in a location, it says which Airflow, too
    assert owner == f"{bench.load}/{run.run_id}"
    (entry,) = bench.diary
    assert (entry["options"], entry["rest"]) == (["kafka.bootstrap.servers"], []), "by the environment alone"


def test_without_anything_to_load_a_run_that_does_not_wait_is_skipped_and_says_why(bench, states, ledger_of):
    dag = bench.dag(arguments='wait="never"')
    run = dag.test()
    assert steps_of(bench, states(run)) == {"resolve": "skipped", "load": "skipped", "commit": "skipped"}
    (resolve,) = [ti for ti in run.get_task_instances() if ti.task_id.endswith(".resolve")]
    assert resolve.xcom_pull(key="skipped") == "nothing to load"
    assert ledger_of(bench.load).revision == 0


def test_the_row_limit_skips_runs_before_anything_is_started(bench, states, ledger_of):
    bench.write(5)
    dag = bench.dag(settings="row_limit=5")
    dag.test()
    assert says(ledger_of(bench.load).outcomes[-1].reason, "limit ... 5 ... rows")
    bench.write(5)
    run = dag.test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "skipped")
    assert len(bench.diary) == 1


def test_what_a_failed_run_left_open_is_taken_over_by_the_next_one_with_the_next_attempt(bench, states, ledger_of):
    bench.write(5)
    bench.order("fail 75")
    dag = bench.dag()
    first = dag.test()
    assert steps_of(bench, states(first)) == {
        "wait": "success",
        "resolve": "success",
        "load": "failed",
        "commit": "upstream_failed",
    }
    bench.write(4)
    second = dag.test()
    ledger = ledger_of(bench.load)
    assert [(entry["range"], entry["attempt"]) for entry in bench.diary] == [
        (bench.diary[0]["range"], n) for n in (1, 2)
    ]
    assert (ledger.revision, list(ledger.place.offsets.values())) == (1, [5])
    assert ledger.outcomes[-1].by == f"{bench.load}/{second.run_id}"


def test_an_error_that_a_retry_cannot_mend_is_not_retried(bench, states):
    bench.write(5)
    bench.order("fail 65", "fail 65")
    run = bench.dag(arguments='tasks={"load": {"retries": 1, "retry_delay": 0}},').test()
    assert steps_of(bench, states(run))["load"] == "failed"
    assert len(bench.diary) == 1


def test_a_package_that_does_not_exist_is_told_in_a_sentence_and_not_tried_again(bench, states, ledger_of, capsys):
    bench.write(5)
    missing = "io.nowhere.orderedkafka:nothing_2.13:9.9.9"
    again = 'tasks={"load": {"retries": 1, "retry_delay": 0}}'
    run = bench.dag(arguments=f'spark=SparkSubmit(packages="{missing}"), {again}').test()
    assert steps_of(bench, states(run))["load"] == "failed"
    assert (bench.diary, ledger_of(bench.load).open.attempt) == ([], 1)
    said = capsys.readouterr().out
    assert says(said, f"packages: ... {missing!r}")


def test_assets_of_ones_own_are_told_and_read_beside_those_of_the_load(bench, states):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    bench.write(5)
    mine = '{"commit": {"outlets": [Asset("mine-out")]}, "load": {"inlets": [Asset("mine-in")]}}'
    run = bench.dag(arguments=f"to=KafkaOutput({bench.output!r}), tasks={mine}").test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == bench.load)).all()
        named = [(event.asset.name.rpartition("/")[2], event.extra) for event in events]
    committed = {name: extra for name, extra in named if "status" not in extra}
    assert (committed.keys(), len(events)) == ({"mine-out", bench.output}, len({name for name, _ in named}))
    assert (committed[bench.output]["rows"], committed[bench.output]["revision"]) == (5, 1)


def test_a_missing_output_is_told_before_a_range_is_written_down_and_can_be_created(
    bench, topics, ledger_of, states, capsys
):
    bench.write(5)
    missing = topics.name("missing")
    failed = bench.dag(arguments=f"to=KafkaOutput({missing!r})").test()
    assert steps_of(bench, states(failed))["resolve"] == "failed"
    said = capsys.readouterr().out
    assert f"topic {missing!r}" in said
    assert "create=NewTopics" in said
    assert ledger_of(bench.load).open is None
    run = bench.dag(arguments=f"to=KafkaOutput({missing!r}, create=NewTopics(partitions=3))").test()
    assert run.state == "success"
    assert says(capsys.readouterr().out, f"topic {missing!r} ... 3 partitions")
    assert [entry["offsets"] for entry in bench.diary] == [5]


def test_whatever_a_person_should_hear_of_a_load_is_told_wherever_it_is_followed(bench, ledger_of, capsys):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from airflow_provider_orderedkafka.loads.ledger_operations import shown

    bench.write(5)
    bench.order("doubt")
    run = bench.dag(arguments=f"to=KafkaOutput({bench.output!r}),").test()
    doubts = {"dead_letters": 2, "may_be_doubled": 3, "may_be_out_of_order": 4, "lost": 5}
    said = "2 dead letters, 3 may be doubled, 4 may be out of order, 5 lost"
    out = capsys.readouterr().out
    assert said in out
    assert says(out, ", 6 core ... , 7 bytes ")
    results = {ti.task_id.rpartition(".")[2]: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
    with create_session() as session:
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == bench.load)).all()
        assert doubts.items() <= event.extra.items()
    assert doubts.items() <= results["load"].items()
    assert doubts.items() <= results["commit"].items()
    costs = {"core_ms": 6_000, "bytes_written": 7, "files_written": None}
    assert costs.items() <= results["commit"].items()
    assert costs.items() <= results["load"].items()
    ledger = ledger_of(bench.load)
    assert {name: getattr(ledger.outcomes[-1], name) for name in doubts} == doubts
    assert f", 5 rows, {said}: " in shown(ledger)


def test_a_range_goes_over_to_another_output_until_a_batch_is_noted_and_is_refused_after_that(
    bench, topics, states, ledger_of, capsys
):
    one, other = topics.create("one"), topics.create("other")

    def run_to(topic, *orders):
        bench.order(*orders)
        return steps_of(bench, states(bench.dag(arguments=f"to=KafkaOutput({topic!r}),").test()))

    bench.write(5)
    assert run_to(one, "fail 75")["load"] == "failed"
    assert run_to(other, "fail 75")["load"] == "failed"
    opened = ledger_of(bench.load).open
    assert opened.attempt == 2
    notes = Path(opened.checkpoint) / "notes"
    notes.mkdir()
    (notes / "1.json").write_text("{}")
    capsys.readouterr()
    assert run_to(one)["resolve"] == "failed"
    assert says(capsys.readouterr().out, f"to.topic ... {other!r}, ... {one!r}")
    assert ledger_of(bench.load).open == opened
    assert set(run_to(other).values()) == {"success"}
    assert [entry["attempt"] for entry in bench.diary] == [1, 2, 3]
    assert len({entry["range"] for entry in bench.diary}) == 1
